package attrvalue_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"go.opentelemetry.io/otel/attribute"
)

func TestCleanString(t *testing.T) {
	const most = attrvalue.MaxValueBytes
	for _, c := range []struct {
		name, in, want string
		repaired       bool
	}{
		{"empty", "", "", false},
		{"plain", "plain", "plain", false},
		{"replacement character of its own", "a\uFFFDb", "a\uFFFDb", false},
		{"invalid", "a\xffb", "a\uFFFDb", true},
		{"half a character at the end", "a\xe2\x82", "a\uFFFD", true},
		{"surrogate", "\xed\xa0\x80", "\uFFFD", true},
		{"as long as allowed", strings.Repeat("x", most), strings.Repeat("x", most), false},
		{"one more", strings.Repeat("x", most+1), strings.Repeat("x", most-3) + "…", true},
		{"10 MB", strings.Repeat("x", 10<<20), strings.Repeat("x", most-3) + "…", true},
		{"cut inside a character", strings.Repeat("x", most-4) + strings.Repeat("€", 9), strings.Repeat("x", most-4) + "…", true},
		{"cut inside an emoji", strings.Repeat("x", most-6) + "😀😀", strings.Repeat("x", most-6) + "…", true},
		{"long and invalid", strings.Repeat("\xff", 10<<20), "\uFFFD…", true},
		{"longer once it is valid", strings.Repeat("a\xff", most/2), strings.Repeat("a\uFFFD", most/4-1) + "a…", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, repaired := attrvalue.CleanString(c.in)
			if got != c.want || repaired != c.repaired {
				t.Errorf("CleanString: %d bytes, %.20q…%q, repaired %t; want %d bytes, %q, %t", len(got), got, tail(got), repaired, len(c.want), tail(c.want), c.repaired)
			}
		})
	}
}

func tail(s string) string { return s[max(0, len(s)-8):] }

func FuzzCleanString(f *testing.F) {
	f.Add("plain", uint16(1))
	f.Add("a\xff€😀", uint16(9000))
	f.Add("\xe2\x82", uint16(8192))
	f.Add("€", uint16(5461))
	f.Fuzz(func(t *testing.T, s string, times uint16) {
		s = strings.Repeat(s, min(int(times), 1+4*attrvalue.MaxValueBytes/(len(s)+1)))
		got, repaired := attrvalue.CleanString(s)
		if !utf8.ValidString(got) || len(got) > attrvalue.MaxValueBytes {
			t.Fatalf("CleanString: %d bytes, valid UTF-8 %t; want valid, at most %d", len(got), utf8.ValidString(got), attrvalue.MaxValueBytes)
		}
		if repaired == (got == s) {
			t.Fatalf("repaired is %t, want %t", repaired, got != s)
		}
		if again, more := attrvalue.CleanString(got); more || again != got {
			t.Fatal("cleaning twice changes more")
		}
		if utf8.ValidString(s) {
			if kept := strings.TrimSuffix(got, "…"); !strings.HasPrefix(s, kept) {
				t.Fatal("the cleaned text does not start as the original")
			}
		}
	})
}

func FuzzCleanList(f *testing.F) {
	f.Add("a", "b\xff", uint16(2000))
	f.Add(strings.Repeat("x", 9000), "€€€€", uint16(2))
	f.Fuzz(func(t *testing.T, a, b string, times uint16) {
		var list []string
		for range times % 3000 {
			list = append(list, a, b)
		}
		attrs, _ := attrvalue.Clean([]attrvalue.Attr{attrvalue.Strings("k", list)})
		size := 0
		got := attrs[0].Value.AsStringSlice()
		for _, s := range got {
			size += len(s)
			if !utf8.ValidString(s) {
				t.Fatalf("%q is left in the list, want valid UTF-8", s)
			}
		}
		if len(got) > attrvalue.MaxListItems || size > attrvalue.MaxValueBytes+3*attrvalue.MaxListItems {
			t.Fatalf("%d items of %d bytes are left, want at most %d of %d", len(got), size, attrvalue.MaxListItems, attrvalue.MaxValueBytes+3*attrvalue.MaxListItems)
		}
		if _, repaired := attrvalue.Clean(attrs); repaired != 0 {
			t.Fatal("cleaning twice changes more")
		}
	})
}

func TestClean(t *testing.T) {
	long := strings.Repeat("x", attrvalue.MaxValueBytes+1)
	many := make([]string, attrvalue.MaxListItems+1)
	nested := attribute.MapValue(attribute.String("a", "b"), attribute.Slice("list", attribute.IntValue(1)))
	for _, c := range []struct {
		name     string
		in       attrvalue.Attr
		repaired int
		check    func(a attrvalue.Attr) bool
	}{
		{"scalar", attrvalue.Int("k", 1), 0, func(a attrvalue.Attr) bool { return a.Value.AsInt64() == 1 }},
		{"key", attrvalue.Int("k\xff", 1), 1, func(a attrvalue.Attr) bool { return a.Key == "k\uFFFD" && a.Value.AsInt64() == 1 }},
		{"key and value count once", attrvalue.String("k\xff", "\xff"), 1, func(a attrvalue.Attr) bool { return a.Value.AsString() == "\uFFFD" }},
		{"no value", attrvalue.Attr{KeyValue: attribute.KeyValue{Key: "k"}, Extension: true}, 1, func(a attrvalue.Attr) bool {
			return a.Exact == attrvalue.Null{} && a.Value.AsString() == "null" && a.Extension
		}},
		{"null", attrvalue.Any("k", nil), 0, func(a attrvalue.Attr) bool { return a.Exact == attrvalue.Null{} }},
		{"long", attrvalue.String("k", long), 1, func(a attrvalue.Attr) bool { return len(a.Value.AsString()) == attrvalue.MaxValueBytes }},
		{"object that is too large", attrvalue.Any("k", map[string]any{"a": long}), 1, func(a attrvalue.Attr) bool {
			return a.Exact == nil && len(a.Value.AsString()) == attrvalue.MaxValueBytes
		}},
		{"object", attrvalue.Any("k", map[string]any{"a": "b"}), 0, func(a attrvalue.Attr) bool {
			return string(a.Exact.(json.RawMessage)) == `{"a":"b"}`
		}},
		{"mixed list with bad text", attrvalue.Any("k", []any{1, "\xff"}), 1, func(a attrvalue.Attr) bool {
			return a.Exact == nil && a.Value.AsStringSlice()[1] == "\uFFFD"
		}},
		{"strings", attrvalue.Strings("k", many), 1, func(a attrvalue.Attr) bool { return len(a.Value.AsStringSlice()) == attrvalue.MaxListItems }},
		{"long strings", attrvalue.Strings("k", []string{"a", long, "b", long}), 1, func(a attrvalue.Attr) bool {
			s := a.Value.AsStringSlice()
			return len(s) == 4 && s[0] == "a" && len(s[1]) == attrvalue.MaxValueBytes-1 && s[2] == "b" && s[3] == "…"
		}},
		{"bools", attrvalue.Any("k", make([]bool, 2000)), 1, func(a attrvalue.Attr) bool { return len(a.Value.AsBoolSlice()) == attrvalue.MaxListItems }},
		{"ints", attrvalue.Any("k", make([]int, 2000)), 1, func(a attrvalue.Attr) bool { return len(a.Value.AsInt64Slice()) == attrvalue.MaxListItems }},
		{"floats", attrvalue.Any("k", make([]float64, 2000)), 1, func(a attrvalue.Attr) bool { return len(a.Value.AsFloat64Slice()) == attrvalue.MaxListItems }},
		{"as many ints as allowed", attrvalue.Any("k", make([]int, attrvalue.MaxListItems)), 0, func(a attrvalue.Attr) bool { return true }},
		{"bytes", attrvalue.Any("k", make([]byte, 20000)), 1, func(a attrvalue.Attr) bool { return len(a.Value.AsByteSlice()) == attrvalue.MaxValueBytes }},
		{"nested", attrvalue.Any("k", nested), 0, func(a attrvalue.Attr) bool { return a.Value.Type() == attribute.MAP }},
		{"nested with bad text", attrvalue.Any("k", attribute.SliceValue(attribute.StringValue("\xff"))), 1, func(a attrvalue.Attr) bool {
			return a.Value.Type() == attribute.STRING && utf8.ValidString(a.Value.AsString())
		}},
		{"nested and long", attrvalue.Any("k", attribute.MapValue(attribute.String("a", long))), 1, func(a attrvalue.Attr) bool {
			return len(a.Value.AsString()) == attrvalue.MaxValueBytes
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			attrs := []attrvalue.Attr{c.in}
			got, repaired := attrvalue.Clean(attrs)
			if repaired != c.repaired || !c.check(got[0]) {
				t.Errorf("repaired %d, got %.100v, exact %.100v; want %d repaired and the value of the table", repaired, got[0].Value.String(), got[0].Exact, c.repaired)
			}
			if &got[0] != &attrs[0] {
				t.Error("Clean returned a new slice, want the same one")
			}
			if _, more := attrvalue.Clean(got); more != 0 {
				t.Error("cleaning twice changes more")
			}
			kv, changed := attrvalue.CleanKeyValue(c.in.KeyValue)
			if changed != (c.repaired == 1) || kv.Value.String() != got[0].Value.String() {
				t.Errorf("CleanKeyValue: changed %t, %.100v; want %t, %.100v", changed, kv.Value.String(), c.repaired == 1, got[0].Value.String())
			}
		})
	}
}
