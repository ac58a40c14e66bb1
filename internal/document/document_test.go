package document_test

import (
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/document"
)

func TestValuesAndPlaces(t *testing.T) {
	huge, _ := new(big.Int).SetString("7046430720000000000000", 10)
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
		t.Errorf("Get = %v, %v", e, ok)
	}
	if e, ok := want.Get("l", "k"); ok {
		t.Errorf("Get of a key in a list = %v", e)
	}
}

func TestRefused(t *testing.T) {
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 8; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	for src, want := range map[string]string{
		"a: *b":                    `read f:1:4: unknown alias "b"`,
		"a: 1\n---\nb: 2":          "read f:3:1: more than one document",
		"a: 1\na: 2":               "read f:2:1: ",
		strings.Repeat("[", 2000):  "read f: too deep",
		bomb:                       "too deep or too large",
		"a: " + nested(100):        "too deep or too large",
		strings.Repeat(" ", 5<<20): "too deep or too large",
	} {
		if v, err := document.Read([]byte(src), "f"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, %v, want %q", src, v, err, want)
		}
	}
}

func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func TestPairs(t *testing.T) {
	for text, want := range map[string]string{
		"a=1,b=us%2C1": "[{a 1  } {b us,1  }]", "a=%zz": "stray %", "a": "key=value", "=1": "key=value", " a = 1 , ": "[{a 1  }]",
	} {
		got, err := document.Pairs(text)
		if all := fmt.Sprint(got, err); !strings.Contains(all, want) {
			t.Errorf("Pairs(%q) = %s, want %s", text, all, want)
		}
	}
}
