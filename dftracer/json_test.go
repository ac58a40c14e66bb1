package dftracer_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile"
)

func TestJSON(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		v    any
		want string
	}{
		{[]any{int64(1), "x<y", true, nil}, `[1,"x<y",true,null]`},
		{[]float64{0.5, nan, math.Inf(1), math.Inf(-1)}, `[0.5,"NaN","Infinity","-Infinity"]`},
		{map[string]any{"b": []any{nan}, "a": map[string]any{"n": nil}}, `{"a":{"n":null},"b":["NaN"]}`},
		{[]any{[]byte{1, 2}, nan}, `["AQI=","NaN"]`},
		{[]any{}, `[]`},
		{nil, `null`},
		{make(chan int, 1), ``},
	} {
		got := tracefile.JSON(c.v)
		if c.want == "" { // not JSON: written as a string
			if len(got) < 3 || got[0] != '"' {
				t.Errorf("%v is written as %s, want a quoted text", c.v, got)
			}
			continue
		}
		if got != c.want {
			t.Errorf("%v: %s, want %s", c.v, got, c.want)
		}
	}
}

func TestFromJSON(t *testing.T) {
	for text, want := range map[string]dftracer.Arg{
		`3`: dftracer.Int("k", 3), `-4`: dftracer.Int("k", -4), `18446744073709551615`: dftracer.Uint("k", math.MaxUint64), `9007199254740993`: dftracer.Int("k", 9007199254740993),
		`2.5`: dftracer.Float("k", 2.5), `1e2`: dftracer.Float("k", 100), `"NaN"`: dftracer.String("k", "NaN"), `"a\nb"`: dftracer.String("k", "a\nb"),
		`true`: dftracer.Bool("k", true), `false`: dftracer.Int("k", 0), `null`: dftracer.Raw("k", "null"), ``: dftracer.Raw("k", "null"),
		`[1, {"a": null}]`: dftracer.Raw("k", `[1,{"a":null}]`),
	} {
		if got := tracefile.FromJSON("k", []byte(text)); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
		if text == "" {
			continue
		}
		for _, object := range []string{`{"k":` + text + `}`, ` { "a" : 1 , "k" : ` + text + ` } `, `{"k\u0061":[],"k":` + text + `}`} {
			got, ok := tracefile.AppendObject(nil, []byte(object))
			if last := len(got) - 1; !ok || last < 0 || got[last].Key != "k" || tracefile.KindOf(got[last]) != tracefile.KindOf(want) || got[last].Text() != want.Text() && tracefile.KindOf(want) != tracefile.KindRaw {
				t.Errorf("%s: AppendObject gave %+v, %v; want k with %v", object, got, ok, want)
			}
		}
	}
	before := []dftracer.Arg{dftracer.Int("x", 1)}
	for text, want := range map[string]int{`{}`: 1, `{"a":1}`: 2, `{"a":1,"b":}`: -2, `{"a":1`: -2, `[1]`: -1, ``: -1, `null`: -1, `{"a":nul}`: -1, "\v{}": -1} {
		if got, ok := tracefile.AppendObject(before, []byte(text)); len(got) != max(want, -want) || ok != (want > 0) {
			t.Errorf("%s: AppendObject gave %+v, %v; want %d members, success %v", text, got, ok, max(want, -want), want > 0)
		}
	}
}

// FuzzAppendObject compares the parser of objects with encoding/json.
func FuzzAppendObject(f *testing.F) {
	for _, text := range []string{`{}`, `{"a":1,"b":"x","c":[1,2],"d":null,"e":true,"f":1e3}`, ` {"a\n": -0.5}`, `{"a":1,"a":2}`, `{"a"}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		args, ok := tracefile.AppendObject(nil, text)
		var want map[string]json.RawMessage
		valid := json.Unmarshal(text, &want) == nil && want != nil
		if valid != ok {
			t.Fatalf("AppendObject(%q): %v, want %v as encoding/json", text, ok, valid)
		}
		if !valid {
			return
		}
		got := make(map[string]dftracer.Arg)
		for _, a := range args {
			got[a.Key] = a
		}
		if len(got) != len(want) {
			t.Fatalf("AppendObject(%q) = %+v, want %d members", text, args, len(want))
		}
		for key, raw := range want {
			if w := tracefile.FromJSON(key, raw); tracefile.KindOf(got[key]) != tracefile.KindOf(w) || tracefile.KindOf(w) != tracefile.KindRaw && got[key].Text() != w.Text() {
				t.Fatalf("%q: %+v, want %+v", text, got[key], w)
			}
		}
	})
}

// TestIntegersInAnyNotation checks that all notations of an integer give the same number, and
// that other values are refused.
func TestIntegersInAnyNotation(t *testing.T) {
	none := int64(-99)
	for _, c := range []struct {
		arg  dftracer.Arg
		want int64
	}{
		{dftracer.Int("", 7), 7}, {dftracer.Float("", 7), 7}, {dftracer.String("", " 7 "), 7}, {dftracer.String("", "7.0"), 7}, {dftracer.Uint("", 7), 7}, {dftracer.Int("", -1), -1},
		{dftracer.Int("", math.MaxInt64), math.MaxInt64}, {dftracer.String("", "9223372036854775807"), math.MaxInt64},
		{dftracer.Float("", 7.5), none}, {dftracer.Float("", math.NaN()), none}, {dftracer.Float("", math.Inf(1)), none}, {dftracer.Float("", 1e300), none},
		{dftracer.Uint("", math.MaxUint64), none}, {dftracer.String("", "seven"), none}, {dftracer.String("", ""), none}, {dftracer.String("", "1e300"), none}, {dftracer.Raw("", "[7]"), none},
	} {
		n, ok := tracefile.Whole(c.arg)
		if ok != (c.want != none) || ok && n != c.want {
			t.Errorf("%s: %d, %v, want %d", c.arg.Text(), n, ok, c.want)
		}
	}
}
