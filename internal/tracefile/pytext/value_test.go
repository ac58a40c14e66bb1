package pytext_test

import (
	"encoding/json"
	"testing"

	"github.com/trainspan/trainspan/internal/tracefile/pytext"
)

func TestValues(t *testing.T) {
	type pairs []struct {
		Key   string
		Value any
	}
	for _, c := range []struct {
		value     any
		str, repr string
	}{
		{"it's", "it's", `"it's"`}, {true, "True", "True"}, {nil, "None", "None"}, {5.0, "5.0", "5.0"},
		{json.Number("7046430720000000000000"), "7046430720000000000000", "7046430720000000000000"}, {json.Number("1e-5"), "1e-05", "1e-05"},
		{[]any{"a", 1, nil}, "['a', 1, None]", "['a', 1, None]"},
		{pairs{{"a", 1}, {"b", []string{"c"}}}, "{'a': 1, 'b': ['c']}", "{'a': 1, 'b': ['c']}"},
	} {
		str, repr := string(pytext.AppendStr(nil, c.value)), string(pytext.AppendRepr(nil, c.value))
		if str != c.str || repr != c.repr {
			t.Errorf("%v: got %s and %s, want %s and %s", c.value, str, repr, c.str, c.repr)
		}
	}
}
