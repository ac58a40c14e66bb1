package dftracer_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/recovery"
	"github.com/trainspan/trainspan/internal/tracefile/validate"
)

func TestValidateFindsDefects(t *testing.T) {
	var text strings.Builder
	w, err := dftracer.NewWriter(&text, fixed(dftracer.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	writeEverything(t, w)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	good := text.String()
	replace := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("the trace has no %s to change", old)
		}
		return strings.Replace(good, old, new, 1)
	}
	for _, test := range []struct{ name, text, want string }{
		{"json", replace(`"name":"read"`, `"name":"re"ad"`), "not valid JSON"},
		{"no opening", strings.TrimPrefix(good, "[\n"), "first line is not an opening bracket"},
		{"no closing", strings.TrimSuffix(good, "]"), "no closing bracket"},
		{"after the end", good + "\n{}", "closing bracket is not the end"},
		{"no end", good[:strings.LastIndex(good, "\n{")+1] + "]", "no end event"},
		{"order", replace(`"name":"HH"`, `"name":"CM"`), "the first records are"},
		{"float", replace(`"dur":20`, `"dur":20.5`), "dur is 20.5"},
		{"string", replace(`"tid":1028567,"ts":1744611912990010`, `"tid":"7","ts":1744611912990010`), `tid is "7"`},
		{"no hhash", replace(`"args":{"hhash":"88fe0d6c9e446319","level":2,"p_idx":7,"epoch":1`, `"args":{"level":2,"p_idx":7,"epoch":1`), "no hhash"},
		{"twice", replace(`"id":17,`, `"id":16,`), "id 16 is used twice"},
		{"parent", replace(`"p_idx":7,"epoch"`, `"p_idx":70,"epoch"`), "p_idx 70 refers to no event"},
		{"parent is a fact", replace(`"p_idx":7,"epoch"`, `"p_idx":9,"epoch"`), "p_idx 9 refers to no event"},
		{"outside", replace(`"dur":20`, `"dur":2000`), "not inside its parent"},
		{"level", replace(`"level":2,"p_idx":7,"epoch"`, `"level":3,"p_idx":7,"epoch"`), "has level 3, its parent"},
		{"lane", replace(`"ts":1744611912990040`, `"ts":1744611912990028`), "partially overlaps"},
		{"blank", replace("\n", "\n\n"), "line is empty"},
		{"cut", good[:len(good)-30], "not valid JSON"},
		{"ph", replace(`"ph":"C"`, `"ph":"Q"`), "unknown ph"},
		{"missing", replace(`"cat":"sys",`, ``), "cat is missing"},
	} {
		r, err := validate.Stream(strings.NewReader(test.text), nil)
		if err != nil {
			t.Fatal(err)
		}
		if e := r.Err(); e == nil || !strings.Contains(e.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, e, test.want)
		}
	}
	unfinished := good[:strings.LastIndex(good, "\n{")+1]
	r, err := validate.Stream(strings.NewReader(unfinished), &dftracer.ValidateOptions{AllowUnfinished: true})
	if err != nil || !r.OK() {
		t.Errorf("%v %v; want a valid trace", err, r.Err())
	}
}

func TestRecoverClosesOpenSpans(t *testing.T) {
	for _, d := range []dftracer.Dialect{dftracer.V1, dftracer.V2, dftracer.V22} {
		for _, bare := range []bool{false, true} {
			var text strings.Builder
			w, err := dftracer.NewWriter(&text, fixed(dftracer.Options{Dialect: d, NoMetadata: bare}))
			if err != nil {
				t.Fatal(err)
			}
			const ts = 1744611912990000
			outer := &dftracer.Event{ID: w.NextID(), Name: "train", Cat: "pipeline", TID: 9, TS: ts, Level: 1, Args: []dftracer.Arg{dftracer.Int("epoch", 4)}}
			inner := &dftracer.Event{ID: w.NextID(), Name: "save \"x\"", Cat: "checkpoint", TID: 9, TS: ts + 30, Level: 2, Parent: int64(outer.ID)}
			closed := &dftracer.Event{ID: w.NextID(), Name: "fetch", Cat: "data", TID: 9, TS: ts + 10, Level: 2, Parent: int64(outer.ID)}
			async := &dftracer.Event{ID: w.NextID(), Name: "async", Cat: "data", TID: 9, TS: ts + 15, Level: 2, Parent: int64(outer.ID)}
			for _, ev := range []*dftracer.Event{outer, closed, async, inner} {
				tracefile.WriteBegin(w, ev)
			}
			closed.Dur = 10 // overlaps async; a real writer would have moved it to another lane
			w.Write(closed)
			if err := w.FlushContext(context.Background()); err != nil {
				t.Fatal(err)
			}
			path := t.TempDir() + "/trace.pfw"
			writeFile(t, path, text.String()+`{"id":99,"name":"torn`)
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			before, err := dftracer.ValidateFile(path, &dftracer.ValidateOptions{AllowForeign: true, AllowMissingParents: true})
			if err != nil || before.Open != 3 {
				t.Errorf("%d spans are open, want 3; %v", before.Open, err)
			}
			report, err := recovery.File(path, nil)
			if err != nil || report.Closed != 3 || report.Clean || report.CutBytes != 21 {
				t.Errorf("recovery: %v, %+v; want 3 closed, 21 bytes cut", err, report)
			}
			v, err := dftracer.ValidateFile(path, nil)
			if err != nil || !v.OK() || v.Open != 0 || v.Orphans != 0 {
				t.Errorf("%v %v: %v %v; want a valid trace without open spans and orphans", d, bare, err, v.Err())
			}
			for _, name := range []string{"pipeline/train/X", "checkpoint/save \"x\"/X", "data/async/X", "data/fetch/X", "dftracer/end/X"} {
				if v.Counts[name] != 1 {
					t.Errorf("%s is there %d times, want 1", name, v.Counts[name])
				}
			}
		}
	}
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// With NoTIDs every record has tid 0, and overlaps are not reported.
func TestNoTIDs(t *testing.T) {
	for _, d := range []dftracer.Dialect{dftracer.V1, dftracer.V2, dftracer.V22} {
		var text strings.Builder
		w, err := dftracer.NewWriter(&text, fixed(dftracer.Options{Dialect: d, NoTIDs: true}))
		if err != nil {
			t.Fatal(err)
		}
		key := dftracer.NewKey("cat", "name")
		for lane := range int64(3) {
			w.WriteComplete(&key, dftracer.Span{TID: 7 + lane, TS: 1744611912990000 + 10*lane, Dur: 25, Parent: dftracer.NoParent})
		}
		w.Write(&dftracer.Event{Phase: dftracer.PhaseCounter, Cat: "sys", Name: "mem", TID: 9, TS: 1744611912990000, Args: []dftracer.Arg{dftracer.Int("used", 1)}})
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if n, zero := strings.Count(text.String(), `"tid":`), strings.Count(text.String(), `"tid":0,`); n < 7 || zero != n {
			t.Errorf("%v: %d of %d tids are 0, want all of 7 or more", d, zero, n)
		}
		if r, err := validate.Stream(strings.NewReader(text.String()), nil); err != nil || !r.OK() || r.Lanes != 0 {
			t.Errorf("%v: %v %+v; want a valid trace without lanes", d, err, r)
		}
	}
}
