package document_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/platform/document"
)

func TestValuesAndPlaces(t *testing.T) {
	const huge = json.Number("7046430720000000000000")
	got, err := document.Read([]byte("b: &x {z: 7046430720000000000000, a: 1e-5}\nl:\n  - yes\n  - '1'\nn:\ns:\n  k: *x\n  <<: *x\n"), "f")
	if err != nil {
		t.Fatal(err)
	}
	inner := document.Mapping{{"z", huge, "f:1:8", "f:1:11"}, {"a", 1e-5, "f:1:35", "f:1:38"}}
	want := document.Mapping{
		{"b", inner, "f:1:1", "f:1:4"},
		{"l", []any{"yes", "1"}, "f:2:1", "f:3:3"},
		{"n", nil, "f:5:1", "f:5:3"},
		{"s", append(document.Mapping{{"k", inner, "f:7:3", "f:7:6"}}, inner...), "f:6:1", "f:7:3"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%v, want\n%v", got, want)
	}
	if e, ok := want.Get("s", "k", "a"); !ok || e.Value != 1e-5 {
		t.Errorf("Get = %v, %v; want 1e-5", e, ok)
	}
	if e, ok := want.Get("l", "k"); ok {
		t.Errorf("Get of a key in a list = %v, want none", e)
	}
}

func TestRefused(t *testing.T) {
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 8; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	for src, want := range map[string]string{
		"a: *b":                        `read f:1:4: unknown alias "b"`,
		"a: 1\n---\nb: 2":              "read f:3:1: more than one document",
		"a: 1\n...\nb: 2":              "read f:3:1: more than one document",
		"---\n# c\n---\na: 1":          "read f:3:1: more than one document",
		"a:\n\tb: 1":                   `read f:2:1: found character '\t'`,
		"a: {<<: 3}":                   "read f:1:5: << needs an alias of a mapping",
		"a: {<<: [{}, 3]}":             "read f:1:5: << needs an alias of a mapping",
		"a: \xff":                      "read f: the file is not UTF-8 text",
		"\xff\xfea\x00:\x00":           "read f: the file is not UTF-8 text",
		strings.Repeat("a:\n", 10_001): "too deep or too large",
		strings.Repeat("[", 2000):      "read f: the document is too deep",
		bomb:                           "too deep or too large",
		"a: " + nested(100):            "too deep or too large",
		strings.Repeat(" ", 5<<20):     "too deep or too large",
	} {
		if v, err := document.Read([]byte(src), "f"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, %v, want %q", src, v, err, want)
		}
	}
}

func TestAccepted(t *testing.T) {
	for src, want := range map[string]string{
		"":                       "<nil>",
		"---\n# only this\n":     "<nil>",
		"%YAML 1.2\n---\na: 1":   "[{a 1 f:3:1 f:3:4}]",
		"\ufeffa: 1\r\nb: x\r\n": "[{a 1 f:1:1 f:1:4} {b x f:2:1 f:2:4}]",
		"a: 1\na: 2":             "[{a 1 f:1:1 f:1:4} {a 2 f:2:1 f:2:4}]",
		"b: &b {k: 1}\nc: &c {k: 2, l: 3}\nm: {<<: [*b, *c], l: 4}": "[{b [{k 1 f:1:8 f:1:11}] f:1:1 f:1:4} {c [{k 2 f:2:8 f:2:11} {l 3 f:2:14 f:2:17}] f:2:1 f:2:4} {m [{l 4 f:3:19 f:3:22} {k 1 f:1:8 f:1:11}] f:3:1 f:3:4}]",
	} {
		if v, err := document.Read([]byte(src), "f"); err != nil || fmt.Sprint(v) != want {
			t.Errorf("Read(%q) = %v, %v, want %s", src, v, err, want)
		}
	}
}

func TestReadsOnAfterSyntaxErrors(t *testing.T) {
	for _, c := range []struct{ src, value, faults string }{
		{"a: 1\nb: [1, 2\nc: 3\n", "[{a 1 f:1:1 f:1:4} {c 3 f:3:1 f:3:4}]", "[{f:2:4 sequence end token ']' not found}]"},
		{"a: 'x\nb:\n  c: 1\n d: \"y\ne: 3\n", "[{e 3 f:5:1 f:5:4}]", "[{f:1:4 could not find end character of single-quoted text} {f:4:5 could not find end character of double-quoted text}]"},
		{"# c\nname charlm\nb: 2\n", "[{b 2 f:3:1 f:3:4}]", "[{f:2:1 a key must be followed by a colon and a space}]"},
		{"a:\n- x\n- y\n\tz\nb: {\n}\n", "[{b [] f:5:1 f:5:4}]", "[{f:4:1 found character '\\t' that cannot start any token}]"},
		{"a: &a [\nb: *a\n", "<nil>", "[{f:1:7 sequence end token ']' not found}]"},                                                            // the alias is not reported
		{"{\"a\": 1\n\"b\": 2}\n", "<nil>", "[{f:2:1 ',' or '}' must be specified}]"},                                                          // a single value has no parts
		{strings.Repeat("import x\n", 50) + "def f():\n\treturn x\n", "<nil>", "[{f:52:1 found character '\\t' that cannot start any token}]"}, // not a configuration
	} {
		v, err := document.Read([]byte(c.src), "f")
		faults, _ := err.(document.Faults) //nolint:errorlint // it is returned as it is
		if fmt.Sprint(v) != c.value || fmt.Sprintf("%v", []document.Fault(faults)) != c.faults {
			t.Errorf("Read(%.40q) = %v, %v, want %s, %s", c.src, v, []document.Fault(faults), c.value, c.faults)
		}
	}
}

func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
