package rundir_test

import (
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/job/rundir"
)

func TestParseInjection(t *testing.T) {
	for text, want := range map[string]string{
		"rank=2,data=50ms,from=100":                   "rank 2, data 50 ms from step 100",
		"data=50ms":                                   "all ranks, data 50 ms",
		"rank=0,save=1.5s,every=2":                    "rank 0, save 1.5 s, once in 2",
		"forward=20ms, jitter=5ms ,to=9":              "all ranks, forward 20 ms +/- 5 ms from step 0 to 9",
		"rank=1,data=50ms,backward=1ms":               "rank 1, data 50 ms; rank 1, backward 1 ms",
		"evaluate=1s,code=2s,rank=3,from=5,to=5":      "rank 3, evaluate 1 s from step 5 to 5; rank 3, code 2 s from step 5 to 5",
		"rank=1048575,every=1,jitter=50ms,code=0.05s": "rank 1048575, code 50 ms +/- 50 ms",
	} {
		all, err := rundir.ParseInjection(text)
		var got []string
		for _, i := range all {
			got = append(got, i.Text)
			if i.Hook() == "" {
				t.Errorf("%s: no hook injects into %s", text, i.Phase)
			}
		}
		if err != nil || strings.Join(got, "; ") != want {
			t.Errorf("ParseInjection(%q) = %q, %v, want %q", text, strings.Join(got, "; "), err, want)
		}
	}
}

func TestParseInjectionErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "is not KEY=VALUE",
		"data":                            "is not KEY=VALUE",
		"rank=2":                          "has no phase to delay",
		"data=50":                         "data=50: give a time with its unit, such as 50ms or 1.5s",
		"data=-1ms":                       "give a time with its unit",
		"data=0s":                         "give a time with its unit",
		"data=2h":                         "the longest delay is one hour",
		"dat=50ms":                        `unknown key "dat"; use a phase (data, forward, backward, save, evaluate, code)`,
		"rank=two,data=1ms":               "rank=two: give a whole number from 0",
		"rank=-1,data=1ms":                "rank=-1: give a whole number from 0",
		"rank=1048576,data=1ms":           "the largest rank is 1048575",
		"data=1ms,every=0":                "every=0: give a whole number from 1",
		"data=1ms,data=2ms":               "data is given twice",
		"data=1ms,jitter=2ms":             "jitter=2ms is longer than the delay, data=1ms",
		"data=1ms,from=9,to=8":            "from=9,to=8 selects no step",
		"data=1ms,from=1.5":               "from=1.5: give a whole number from 0",
		"data=1ms,jitter=x":               "jitter=x: give a time with its unit",
		"data=1ms;rank=1":                 "data=1ms;rank=1: give a time with its unit",
		"data=1ms,to=9999999999999999999": "give a whole number from 0",
	} {
		all, err := rundir.ParseInjection(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseInjection(%q) = %v, %v, want an error with %q", text, all, err, want)
		}
	}
}
