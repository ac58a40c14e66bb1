package tracefile_test

import (
	"testing"

	"github.com/trainspan/trainspan/internal/tracefile"
)

// Numbers that are not finite become the strings for them, and commas before closing braces disappear, but not
// within strings.
func TestStrict(t *testing.T) {
	for line, want := range map[string]string{
		`{"a":1}`:                                     "",
		`{"a":"NaN,}"}`:                               "",
		`{"a":"x \" nan,}"}`:                          "",
		`{"a":NaN}`:                                   `{"a":"NaN"}`,
		`{"a":1,"b":{"c":2,},}`:                       `{"a":1,"b":{"c":2}}`,
		`{"a":nan,"b":-nan,"c":inf,"d":-inf}`:         `{"a":"NaN","b":"NaN","c":"Infinity","d":"-Infinity"}`,
		`{"a":-Infinity,"b":-1,"c":Infinity}`:         `{"a":"-Infinity","b":-1,"c":"Infinity"}`,
		`{"NaN":NaN,"b":"Infinity","c":"-","d":NaN,}`: `{"NaN":"NaN","b":"Infinity","c":"-","d":"NaN"}`,
	} {
		if got := string(tracefile.Strict([]byte(line))); got != want {
			t.Errorf("Strict(%s) = %q, want %q", line, got, want)
		}
	}
}

// DFTracer prints numbers as C++ streams do.
func TestParseNumbersOfStreams(t *testing.T) {
	for printed, want := range map[string]string{"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"} {
		var p tracefile.Parser
		var ev tracefile.Event
		err := p.Parse([]byte(`{"id":9,"name":"step","cat":"c","pid":1,"tid":1,"ts":7,"dur":2,"ph":"X","args":{"hhash":"h","loss":`+printed+`}}`), &ev)
		if a, _ := ev.Arg("loss"); err != nil || a.Text() != want || ev.Name != "step" || ev.Dur != 2 {
			t.Errorf("%s: %+v, %v; want a step with the loss %s", printed, ev, err, want)
		}
	}
}
