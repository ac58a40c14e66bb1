package display_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/trainspan/trainspan/internal/platform/display"
)

func TestText(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"plain":           {"forward α 学习 é", "forward α 学习 é"},
		"escape":          {"a\x1b[31mb", "a·[31mb"},
		"title":           {"\x1b]0;x\x07", "·]0;x·"},
		"lines":           {"a\nb\r\nc\vd\fe", "a·b··c·d·e"},
		"tab and nul":     {"a\tb\x00", "a·b·"},
		"delete":          {"a\x7f", "a·"},
		"C1":              {"\u009b2J\u0085", "·2J·"},
		"direction":       {"\u202aa\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u061c\u200e\u200f", "·a···········"},
		"no width":        {"a\u200b\u200c\u200d\u2060\ufeffb", "a·····b"},
		"separators":      {"a\u2028b\u2029", "a·b·"},
		"tags":            {"a\U000e0041", "a·"},
		"no UTF-8":        {"a\xff\xc3(\xe2\x80", "a··(··"},
		"C1 as bytes":     {"\x9b31m", "·31m"},
		"replacement":     {"\ufffd", "\ufffd"},
		"surrogate":       {"\xed\xa0\x80", "···"},
		"signs are seen":  {"\u0600\u06dd", "\u0600\u06dd"},
		"space that is":   {"a\u00a0b\u2003", "a\u00a0b\u2003"},
		"private use":     {"\ue000", "\ue000"},
		"already cleaned": {"a·b", "a·b"},
	} {
		if got := display.Text(c.text); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if got := string(display.Append([]byte("x"), []byte(c.text))); got != "x"+c.want {
			t.Errorf("%s: %q is appended, want %q", name, got, "x"+c.want)
		}
	}
}

func TestFprintf(t *testing.T) {
	const evil = "a\x1b[2J\nb"
	for name, c := range map[string]struct {
		format string
		args   []any
		want   string
	}{
		"string":          {"<%s>\n\t", []any{evil}, "<a·[2J·b>\n\t"},
		"error":           {"<%v>", []any{errors.New(evil)}, "<a·[2J·b>"},
		"list":            {"<%v>", []any{[]string{evil, "c"}}, "<[a·[2J·b c]>"},
		"struct":          {"<%+v>", []any{struct{ Name string }{evil}}, "<{Name:a·[2J·b}>"},
		"bytes":           {"<%s>", []any{[]byte(evil)}, "<a·[2J·b>"},
		"character":       {"<%c>", []any{'\x1b'}, "<·>"},
		"quoted":          {"<%q>", []any{evil}, `<"a\x1b[2J\nb">`},
		"numbers":         {"%3d|%-5.1f|%t|%x", []any{7, 1.25, true, int64(255)}, "  7|1.2  |true|ff"},
		"width and flags": {"%-*s|%5s|%.2s|%[3]s", []any{4, "a", "bcd", "efg"}, "a   |  bcd|ef|bcd"},
		"stringer":        {"%v", []any{time.Second}, "1s"},
		"own":             {"%s%s%s", []any{display.Own("\x1b[1m"), "\x1b[1m", display.Own("\x1b[0m")}, "\x1b[1m·[1m\x1b[0m"},
	} {
		for _, through := range []bool{false, true} {
			var out bytes.Buffer
			var err error
			if through {
				_, err = display.Fprintf(display.NewWriter(&out), c.format, c.args...)
			} else {
				_, err = display.Fprintf(&out, c.format, c.args...)
			}
			if err != nil || out.String() != c.want {
				t.Errorf("%s: %q, %v, want %q", name, out.String(), err, c.want)
			}
		}
	}
}

// The sizes of the writes do not change the result.
func TestWriterTakesPieces(t *testing.T) {
	const text = "α\u202eβ\x1b[1m\tπ\r\n\u009b\xffé\xe2\x80\U0001f600end"
	const want = "α·β·[1m\tπ·\n··é··\U0001f600end"
	for size := 1; size <= len(text); size++ {
		var out bytes.Buffer
		w := display.NewWriter(&out)
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			if wrote, err := w.Write([]byte(rest[:n])); wrote != n || err != nil {
				t.Fatalf("Write() = %d, %v; want %d", wrote, err, n)
			}
			rest = rest[n:]
		}
		if err := w.Flush(); err != nil || out.String() != want {
			t.Errorf("pieces of %d: %q, %v, want %q", size, out.String(), err, want)
		}
	}
	var out bytes.Buffer
	w := display.NewWriter(&out)
	_, _ = w.Write([]byte("a\xe2\x80"))
	_, _ = display.Fprintf(w, "%s", "b")
	_, _ = w.Write([]byte("c\xe2"))
	_ = w.Flush()
	if _, _ = w.Write([]byte("d")); out.String() != "a··bc·d" {
		t.Errorf(`output is %q, want "a··bc·d"`, out.String())
	}
}

type broken struct{ n int }

func (b *broken) Write(p []byte) (int, error) {
	if b.n++; b.n > 1 {
		return 0, errors.New("full")
	}
	return len(p), nil
}

func TestWriterKeepsItsFirstError(t *testing.T) {
	to := &broken{}
	w := display.NewWriter(to)
	if n, err := w.Write([]byte("a")); n != 1 || err != nil || w.Err() != nil {
		t.Errorf("Write() = %d, %v; want 1", n, err)
	}
	if n, err := display.Fprintf(w, "b"); n != 0 || err == nil || w.Err() == nil {
		t.Errorf("Fprintf() = %d, %v; want 0 and an error", n, err)
	}
	if n, err := w.Write([]byte("c")); n != 0 || err == nil || to.n != 2 || w.Flush() == nil {
		t.Errorf("Write after a failure = %d, %v, after %d calls of the writer; want 0, the first error, 2", n, err, to.n)
	}
}

// JSON keeps its values, and no other character is hidden.
func TestJSON(t *testing.T) {
	const text = "\x1b\u009b\u202e\x7f\u2028\U000e0041α\n\ufeff"
	var out bytes.Buffer
	e := json.NewEncoder(display.JSON(display.NewWriter(&out)))
	e.SetIndent("", "  ")
	if err := e.Encode(map[string]string{text: text}); err != nil {
		t.Fatal(err)
	}
	seen(t, out.String())
	var back map[string]string
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back[text] != text {
		t.Errorf("JSON read back is %q, %v; want the value of %q unchanged", back, err, text)
	}
	if !strings.Contains(out.String(), "α") || !strings.HasPrefix(out.String(), "{\n  ") {
		t.Errorf("JSON escapes visible characters or is not indented: %s", out.String())
	}
	out.Reset()
	if _, _ = display.JSON(&out).Write([]byte("\"a\xffb\"")); out.String() != `"a\ufffdb"` {
		t.Errorf("JSON of invalid UTF-8 is %q, want \"\"a\\ufffdb\"\"", out.String())
	}
}

func TestMarkdown(t *testing.T) {
	for text, want := range map[string]string{
		"plain_name (1)":      "plain_name (1)",
		"a|b\nc":              `a\|b·c`,
		"<img src=x> & `x`":   "&lt;img src=x> &amp; \\`x\\`",
		"![x](http://a) *b* ": `!\[x](http://a) \*b\* `,
		`\|`:                  `\\\|`,
		"\u202e\x1b":          "··",
	} {
		if got := display.Markdown(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"", "a\x1b", "\u202e", "\xff\xe2\x80", "α\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text := display.Text(s)
		seen(t, text)
		if strings.ContainsAny(text, "\n\t") || display.Text(text) != text {
			t.Errorf("%q becomes %q, want one line that Text leaves as it is", s, text)
		}
		if utf8.RuneCountInString(text) != utf8.RuneCountInString(s) {
			t.Errorf("%q has another number of characters than %q, want the same", s, text)
		}
	})
}

// seen fails if a text has a hidden character.
func seen(t *testing.T, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%q is not valid UTF-8", text)
	}
	for _, r := range text {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r) || r == '\u2028' || r == '\u2029') {
			t.Errorf("%q contains the control character %U", text, r)
		}
	}
}

func BenchmarkWriter(b *testing.B) {
	line := []byte(strings.Repeat("2026-11-23 02:41:43.000000      1.00 ms  rank 0    compute/forward step=7\n", 900))
	w := display.NewWriter(new(bytes.Buffer))
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		w.Under().(*bytes.Buffer).Reset()
		_, _ = w.Write(line)
	}
}
