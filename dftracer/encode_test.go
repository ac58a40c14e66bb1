package dftracer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/jsontext"
)

// lineWriter encodes single events for tests.
type lineWriter struct {
	out bytes.Buffer
	w   *dftracer.Writer
}

func newLineWriter(t testing.TB, d dftracer.Dialect) *lineWriter {
	t.Helper()
	l := &lineWriter{}
	opts := fixed(dftracer.Options{Dialect: d})
	opts.FlushInterval = time.Hour
	w, err := dftracer.NewWriter(&l.out, opts)
	if err != nil {
		t.Fatal(err)
	}
	l.w = w
	t.Cleanup(func() { _ = w.Close() })
	return l
}

func (l *lineWriter) line(t testing.TB, ev *dftracer.Event) string {
	t.Helper()
	if err := l.w.FlushContext(context.Background()); err != nil {
		t.Fatal(err)
	}
	l.out.Reset()
	l.w.Write(ev)
	if err := l.w.FlushContext(context.Background()); err != nil {
		t.Fatal(err)
	}
	return l.out.String()
}

// V22 tells several events in one from a sample; the others write both as C.
func TestPhaseOfAggregated(t *testing.T) {
	for d, want := range map[dftracer.Dialect]string{dftracer.V1: `"ph":"C"`, dftracer.V2: `"ph":"C"`, dftracer.V22: `"ph":3`} {
		line := newLineWriter(t, d).line(t, &dftracer.Event{Phase: dftracer.PhaseAggregated, Name: "read", Cat: "posix", TS: 5})
		if !strings.Contains(line, want) {
			t.Errorf("dialect %v: %s, want %s", d, line, want)
		}
	}
}

func TestArgs(t *testing.T) {
	for _, test := range []struct {
		arg  dftracer.Arg
		json string
		i    int64
		u    uint64
		f    float64
		text string
	}{
		{dftracer.Int("k", -5), `-5`, -5, 0, -5, "-5"},
		{dftracer.Int("k", 123456789), `123456789`, 123456789, 123456789, 123456789, "123456789"},
		{dftracer.Int("k", math.MinInt64), `-9223372036854775808`, math.MinInt64, 0, math.MinInt64, "-9223372036854775808"},
		{dftracer.Uint("k", math.MaxUint64), `18446744073709551615`, math.MaxInt64, math.MaxUint64, math.MaxUint64, "18446744073709551615"},
		{dftracer.Float("k", 0.1), `0.1`, 0, 0, 0.1, "0.1"},
		{dftracer.Float("k", -2), `-2.0`, -2, 0, -2, "-2.0"},
		{dftracer.Float("k", 1e300), `1e+300`, math.MaxInt64, math.MaxInt64, 1e300, "1e+300"},
		{dftracer.Float("k", 1e-9), `1e-09`, 0, 0, 1e-9, "1e-09"},
		{dftracer.Float("k", math.Inf(1)), `"Infinity"`, math.MaxInt64, math.MaxInt64, math.Inf(1), `"Infinity"`},
		{dftracer.Bool("k", true), `1`, 1, 1, 1, "1"},
		{dftracer.Bool("k", false), `0`, 0, 0, 0, "0"},
		{dftracer.String("k", "17"), `"17"`, 17, 17, 17, "17"},
		{dftracer.String("k", "1.9"), `"1.9"`, 1, 1, 1.9, "1.9"},
		{dftracer.String("k", "x"), `"x"`, 0, 0, 0, "x"},
		{dftracer.Raw("k", `{"a":null}`), `{"a":null}`, 0, 0, 0, `{"a":null}`},
		{dftracer.Raw("k", `{`), `"{"`, 0, 0, 0, `{`},
		{tracefile.HashArg("k", 0x88fe0d6c9e446319), `"88fe0d6c9e446319"`, math.MaxInt64, 0x88fe0d6c9e446319, 0x88fe0d6c9e446319, "88fe0d6c9e446319"},
	} {
		a := test.arg
		if got := string(tracefile.AppendArg(a, nil, dftracer.V2)); got != test.json {
			t.Errorf("JSON %s, want %s", got, test.json)
		}
		if a.Int64() != test.i || tracefile.Uint64(a) != test.u || a.Float64() != test.f || a.Text() != test.text {
			t.Errorf("%s: Int64 %d, Uint64 %d, Float64 %v, Text %q; want %d, %d, %v, %q", test.json, a.Int64(), tracefile.Uint64(a), a.Float64(), a.Text(), test.i, test.u, test.f, test.text)
		}
	}
	if got := string(tracefile.AppendArg(tracefile.HashArg("k", 12), nil, dftracer.V1)); got != "12" {
		t.Errorf("V1 hash %s, want \"12\"", got)
	}
}

func TestLongLines(t *testing.T) {
	many := make([]dftracer.Arg, 5000)
	for i := range many {
		many[i] = dftracer.Int("key"+strconv.Itoa(i), math.MaxInt64)
	}
	for _, test := range []struct {
		name string
		ev   dftracer.Event
		keep []string // must be in the line
	}{
		{"one long string", dftracer.Event{Name: "n", Cat: "c", Args: []dftracer.Arg{dftracer.Int("epoch", 7), dftracer.String("stack", strings.Repeat("x", 1<<20)), dftracer.String("short", "stays")}},
			[]string{`"epoch":7`, `"short":"stays"`, `bytes]"`}},
		{"escapes", dftracer.Event{Name: "n", Cat: "c", Args: []dftracer.Arg{dftracer.String("a", strings.Repeat("\x01", 9000)), dftracer.String("b", strings.Repeat("é", 9000)), dftracer.String("c", "stays")}},
			[]string{`"c":"stays"`}},
		{"names", dftracer.Event{Name: strings.Repeat("n", 20000), Cat: strings.Repeat("\"", 20000)}, nil},
		{"keys", dftracer.Event{Name: "n", Cat: "c", Args: []dftracer.Arg{dftracer.Int(strings.Repeat("k", 40000), 1)}}, nil},
		{"raw", dftracer.Event{Name: "n", Cat: "c", Args: []dftracer.Arg{dftracer.Raw("r", "["+strings.Repeat("1,", 20000)+"1]")}}, []string{`"r":"[1,1,`}},
		{"many", dftracer.Event{Name: "n", Cat: "c", Args: many}, []string{`"key0":`, `"args_dropped":`}},
		{"metadata", dftracer.Event{Phase: dftracer.PhaseMetadata, Name: "CM", Args: []dftracer.Arg{dftracer.String("name", "k"), dftracer.String("value", strings.Repeat("v", 17000))}}, []string{`"name":"k"`}},
		{"fits exactly as it is", dftracer.Event{Name: "n", Cat: "c", Args: []dftracer.Arg{dftracer.String("a", strings.Repeat("y", 16000))}}, []string{strings.Repeat("y", 16000)}},
	} {
		for _, d := range []dftracer.Dialect{dftracer.V1, dftracer.V2, dftracer.V22} {
			t.Run(test.name+" "+d.String(), func(t *testing.T) {
				line := newLineWriter(t, d).line(t, &test.ev)
				if len(line) > 16383 || strings.Count(line, "\n") != 1 || !json.Valid([]byte(line)) || !utf8.ValidString(line) {
					t.Errorf("line of %d bytes, want valid JSON of at most 16383: %.200s", len(line), line)
				}
				for _, want := range test.keep {
					if !strings.Contains(line, want) {
						t.Errorf("want %.50s in the line %.200s", want, line)
					}
				}
			})
		}
	}
}

func TestWriteCompleteEqualsWrite(t *testing.T) {
	key := tracefile.WithType(dftracer.NewKey("c\"at", "näme\n"), tracefile.TypeMPI)
	args := []dftracer.Arg{dftracer.Int("epoch", 1), dftracer.String("s", strings.Repeat("z", 3000))}
	for _, d := range []dftracer.Dialect{dftracer.V1, dftracer.V2, dftracer.V22} {
		for _, bare := range []bool{false, true} {
			var out bytes.Buffer
			w, err := dftracer.NewWriter(&out, fixed(dftracer.Options{Dialect: d, NoMetadata: bare}))
			if err != nil {
				t.Fatal(err)
			}
			for _, ts := range []int64{-1, 0, 1, 999999, 1000000, 1000001, 1744611912990000, math.MaxInt64} {
				w.WriteComplete(&key, dftracer.Span{ID: 77, TID: 5, TS: ts, Dur: 9, Level: 2, Parent: 3}, args...)
				w.Write(&dftracer.Event{ID: 77, Name: tracefile.KeyName(key), Cat: tracefile.KeyCat(key), Type: tracefile.TypeMPI, TID: 5, TS: ts, Dur: 9, Level: 2, Parent: 3, Args: args})
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(out.String(), "\n")
			lines = lines[len(lines)-18 : len(lines)-2] // the lines before end and "]" or ""
			for i := 0; i < len(lines); i += 2 {
				if lines[i] != lines[i+1] || !strings.HasPrefix(lines[i], `{"id":77,`) {
					t.Errorf("%v: WriteComplete wrote\n%s\nwant with ID 77, as Write,\n%s", d, lines[i], lines[i+1])
				}
			}
			if st := w.Stats(); st.Repaired != 2 {
				t.Errorf("%d events repaired, want 2", st.Repaired)
			}
		}
	}
}

func TestWriteDoesNotAllocate(t *testing.T) {
	var out bytes.Buffer
	out.Grow(64 << 20)
	w, err := dftracer.NewWriter(&out, &dftracer.Options{Compression: dftracer.CompressNone, FlushInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	key := dftracer.NewKey("compute", "forward")
	if n := testing.AllocsPerRun(2000, func() {
		w.WriteComplete(&key, dftracer.Span{ID: w.NextID(), TID: 9, TS: 1744611912990000, Dur: 3, Level: 2, Parent: 1},
			dftracer.Int("epoch", 1), dftracer.Int("step", 20), dftracer.Float("loss", 0.25))
	}); n != 0 {
		t.Errorf("WriteComplete: %v allocations, want 0", n)
	}
	if n := testing.AllocsPerRun(2000, func() {
		var text [64]byte
		w.WriteEncoded(&key, dftracer.Span{ID: w.NextID(), TID: 9, TS: 1744611912990000, Dur: 3, Level: 2, Parent: 1},
			append(text[:0], `,"epoch":1,"phase":"train"`...))
	}); n != 0 {
		t.Errorf("WriteEncoded: %v allocations, want 0", n)
	}
	ev := dftracer.Event{Name: "forward", Cat: "compute", TID: 9, TS: 1744611912990000, Dur: 3, Level: 2, Parent: 1,
		Args: []dftracer.Arg{dftracer.Int("epoch", 1), dftracer.String("file", "/data/\"x\"")}}
	if n := testing.AllocsPerRun(2000, func() { w.Write(&ev) }); n != 0 {
		t.Errorf("Write: %v allocations, want 0", n)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// repaired replaces every invalid byte, as encoding/json does.
func repaired(s string) string {
	return string([]rune(s))
}

// FuzzEncoder compares what is written with what encoding/json understands.
func FuzzEncoder(f *testing.F) {
	f.Add("name", "cat", "key", "value", int64(-3), uint64(7), 0.5)
	f.Add("\x00\xff\"", "<&>\u2028", "level", strings.Repeat("\\", 9000), int64(math.MinInt64), uint64(math.MaxUint64), math.NaN())
	var writers [dftracer.V22 + 1]*lineWriter
	for d := range writers {
		writers[d] = newLineWriter(f, dftracer.Dialect(d))
	}
	f.Fuzz(func(t *testing.T, name, cat, key, value string, i int64, u uint64, x float64) {
		ev := dftracer.Event{ID: u | 1, Name: name, Cat: cat, TID: max(i, 0), TS: int64(u >> 1), Dur: int64(u >> 40), Level: 3, Parent: 12,
			Args: []dftracer.Arg{dftracer.String(key, value), dftracer.Int("i", i), dftracer.Uint("u", u), dftracer.Float("x", x), dftracer.Raw("raw", value)}}
		for _, d := range []dftracer.Dialect{dftracer.V1, dftracer.V2, dftracer.V22} {
			line := writers[d].line(t, &ev)
			if len(line) > 16383 || strings.Count(line, "\n") != 1 {
				t.Fatalf("line of %d bytes, want one of at most 16383: %q", len(line), line)
			}
			dec := json.NewDecoder(strings.NewReader(line))
			dec.UseNumber()
			var rec struct {
				ID        uint64
				Name, Cat string
				TS, Dur   int64
				Args      map[string]any
			}
			if err := dec.Decode(&rec); err != nil {
				t.Fatalf("line is not JSON: %v: %q", err, line)
			}
			if rec.ID != ev.ID || rec.TS != ev.TS || rec.Dur != ev.Dur {
				t.Errorf("event read back: %+v, want ID %d, ts %d, dur %d", rec, ev.ID, ev.TS, ev.Dur)
			}
			if len(line) > 15000 {
				continue // strings may have been cut
			}
			if rec.Name != repaired(name) || rec.Cat != repaired(cat) {
				t.Errorf("name %q, category %q; want %q, %q", rec.Name, rec.Cat, repaired(name), repaired(cat))
			}
			if key == "i" || key == "u" || key == "x" || key == "raw" {
				continue
			}
			if rec.Args["i"] != json.Number(strconv.FormatInt(i, 10)) || rec.Args["u"] != json.Number(strconv.FormatUint(u, 10)) {
				t.Errorf("arguments i %v, u %v; want %d, %d", rec.Args["i"], rec.Args["u"], i, u)
			}
			if n, ok := rec.Args["x"].(json.Number); ok {
				if got, err := n.Float64(); err != nil || got != x {
					t.Errorf("x %v, want %v", got, x)
				}
			} else if !math.IsNaN(x) && !math.IsInf(x, 0) {
				t.Errorf("x %v, want %v", rec.Args["x"], x)
			}
		}
	})
}

// Encoded arguments make the same line as Args, also long arguments, which are
// cut.
func TestWriteEncoded(t *testing.T) {
	long := strings.Repeat("é\"\n", 8000)
	key := dftracer.NewKey("compute", "forward")
	span := dftracer.Span{ID: 7, TID: 9, TS: 1744611912990000, Dur: 3, Level: 2, Parent: 1}
	for _, d := range []dftracer.Dialect{dftracer.V1, dftracer.V2, dftracer.V22} {
		for name, args := range map[string][]dftracer.Arg{
			"none": nil,
			"all kinds": {
				dftracer.Int("epoch", -3), dftracer.Int("step", 12), dftracer.String("phase", "tr\"ain"), dftracer.Float("loss", 0.25),
				dftracer.Float("nan", math.NaN()), dftracer.Bool("ok", true), dftracer.Raw("list", `[1,{"a":null}]`),
				dftracer.Uint("most", math.MaxUint64), dftracer.String("mine", "level"),
			},
			"long": {dftracer.Int("epoch", 3), dftracer.String("text", long), dftracer.Float("loss", 2)},
		} {
			l := newLineWriter(t, d)
			write := func(f func()) string {
				if err := l.w.FlushContext(context.Background()); err != nil {
					t.Fatal(err)
				}
				l.out.Reset()
				f()
				if err := l.w.FlushContext(context.Background()); err != nil {
					t.Fatal(err)
				}
				return l.out.String()
			}
			var text []byte
			for _, a := range args {
				text, _ = jsontext.AppendKey(text, a.Key)
				text = tracefile.AppendArg(a, text, dftracer.V2)
			}
			want := write(func() { l.w.WriteComplete(&key, span, args...) })
			if got := write(func() { l.w.WriteEncoded(&key, span, text) }); got != want || !json.Valid([]byte(got)) {
				t.Errorf("%v, %s: %.300s\nwant %.300s", d, name, got, want)
			}
			for form, c := range map[string]content{"as arguments": {key: &key, args: args}, "encoded": {key: &key, text: text}} {
				if got := write(func() { l.w.WriteDeferred(span, 0, c) }); got != want {
					t.Errorf("%v, %s, deferred, %s: %.300s\nwant %.300s", d, name, form, got, want)
				}
			}
		}
	}
	for _, k := range []string{"level", "p_idx", "hhash", "a key\twith \"signs\"", "caf\xc3", strings.Repeat("long", 9)} {
		if tracefile.Plain(k) {
			t.Errorf("Plain(%q) = true, want false", k)
		}
	}
	if !tracefile.Plain("otel.status_code") {
		t.Error("otel.status_code is not plain")
	}
	var none *dftracer.Writer
	none.WriteEncoded(&key, span, nil)
}
