package pytorch_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/integrations/pytorch"
)

// handlerTrace writes what a Python handler would: PP events counted from the
// start of the profiler, next to others on the wall clock.
func handlerTrace(t *testing.T, shift int64, rename string) []byte {
	t.Helper()
	c, _ := load(t, &pytorch.Options{StarSteps: true}, "era_relative_base_first.json")
	var buf bytes.Buffer
	w, err := dftracer.NewWriter(&buf, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range c.pick("PP", "") {
		if arg(e, "kind") != "" {
			continue // the handler has host events
		}
		e.ID, e.Parent, e.Args = 0, dftracer.NoParent, nil
		e.TS -= shift
		e.Name += rename
		w.Write(&e)
	}
	w.Write(&dftracer.Event{Cat: "compute", Name: "forward", TS: stepStart, Dur: 5})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestPPClock(t *testing.T) {
	srcs, err := pytorch.Files("testdata/era_relative_base_first.json")
	if err != nil {
		t.Fatal(err)
	}
	const shift = stepStart - 86
	for _, tc := range []struct {
		name    string
		data    []byte
		profile *pytorch.Source
		known   bool
		says    string
	}{
		{"with the profile", handlerTrace(t, shift, ""), &srcs[0], true, "were moved"},
		{"without", handlerTrace(t, shift, ""), nil, false, "give the Kineto trace"},
		{"another run", handlerTrace(t, shift, "x"), &srcs[0], false, "give the Kineto trace"},
		{"absolute", handlerTrace(t, 0, ""), &srcs[0], false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := pytorch.FindPPClock(t.Context(), fromBytes("t.pfw.gz", tc.data), tc.profile)
			if err != nil {
				t.Fatal(err)
			}
			if c.Known != tc.known || tc.known && c.Offset != shift || !strings.Contains(c.Warning(), tc.says) || (tc.says == "") != (c.Warning() == "") {
				t.Errorf("%+v: %s", c, c.Warning())
			}
			ev := dftracer.Event{Phase: dftracer.PhaseComplete, Cat: "PP", TS: 86}
			if c.Fix(&ev) != tc.known || tc.known && ev.TS != stepStart {
				t.Errorf("fixed to %d", ev.TS)
			}
			other := dftracer.Event{Phase: dftracer.PhaseComplete, Cat: "compute", TS: 86}
			if c.Fix(&other) || other.TS != 86 {
				t.Error("an event of another category was moved")
			}
		})
	}
}
