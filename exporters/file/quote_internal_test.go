package file

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestAppendString(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", `""`},
		{"plain", `"plain"`},
		{`a"b\c`, `"a\"b\\c"`},
		{"\n\r\t\b\f", `"\n\r\t\b\f"`},
		{"\x00\x01\x1f", `"\u0000\u0001\u001f"`},
		{"<a>&/\x7f", "\"<a>&/\x7f\""},
		{"é€", `"\u00e9\u20ac"`},
		{"\u2028\u2029", `"\u2028\u2029"`},
		{"😀", `"\ud83d\ude00"`},
		{"\U0010ffff", `"\udbff\udfff"`},
		{"a\xffb", `"a\ufffdb"`},
		{"\xe2\x82", `"\ufffd\ufffd"`},
	} {
		if got := string(appendString([]byte("x"), c.in)); got != "x"+c.want {
			t.Errorf("%q: got %s, want %s", c.in, got[1:], c.want)
		}
	}
}

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "plain", "\"\\\n\x00\x7f<>&/", "é€😀", "\xff\xe2\x82", "\u2028", "\ud7ff\U00010000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := appendString(nil, s)
		for _, c := range got {
			if c >= utf8.RuneSelf || c < ' ' {
				t.Fatalf("byte %#x in %s, want printable ASCII only", c, got)
			}
		}
		var back, want string
		if err := json.Unmarshal(got, &back); err != nil {
			t.Fatalf("text is not JSON: %v: %s", err, got)
		}
		theirs, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(theirs, &want); err != nil {
			t.Fatal(err)
		}
		if back != want {
			t.Fatalf("%q is read back, want %q", back, want)
		}
		for _, c := range "<>&/\x7f" {
			if strings.Count(string(got), string(c)) != strings.Count(s, string(c)) {
				t.Fatalf("%q is escaped in %s, want it as it is", c, got)
			}
		}
	})
}

func FuzzAppendRaw(f *testing.F) {
	f.Add(`{"a": "é😀", "b":[1, 2]}`)
	f.Add("}\n")
	f.Fuzz(func(t *testing.T, s string) {
		got := appendRaw(nil, json.RawMessage(s))
		if !json.Valid(got) {
			t.Fatalf("%q becomes %q, want valid JSON", s, got)
		}
		for _, c := range got {
			if c >= utf8.RuneSelf || c < ' ' {
				t.Fatalf("byte %#x in %q, want printable ASCII only", c, got)
			}
		}
	})
}
