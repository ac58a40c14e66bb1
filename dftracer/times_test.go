package dftracer_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/validate"
)

// frame returns the start and the end event of a trace.
func frame(t *testing.T, data []byte) (start, end dftracer.Event) {
	t.Helper()
	r, err := dftracer.NewReader(bytes.NewReader(data), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // only read
	for ev, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case ev.Cat == dftracer.CatDFTracer && ev.Name == tracefile.NameStart:
			start = copied(ev)
		case ev.Cat == dftracer.CatDFTracer && ev.Name == tracefile.NameEnd:
			end = copied(ev)
		}
	}
	return start, end
}

func copied(ev *dftracer.Event) dftracer.Event {
	c := *ev
	c.Args = slices.Clone(ev.Args)
	return c
}

func TestTimesOfAnImport(t *testing.T) {
	began := time.Date(2022, 4, 1, 12, 0, 0, 0, time.UTC)
	now := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	last := began.Add(time.Hour)
	for _, c := range []struct {
		name     string
		explicit time.Time
		want     time.Time
	}{{"latest event", time.Time{}, last}, {"as said", began.Add(2 * time.Hour), began.Add(2 * time.Hour)}} {
		t.Run(c.name, func(t *testing.T) {
			var buf bytes.Buffer
			attempt := 3
			w, err := dftracer.NewWriter(&buf, &dftracer.Options{Start: began, Now: func() time.Time { return now },
				Process: dftracer.Process{WorldSize: 8, Attempt: &attempt, JobID: "job-7", SessionTag: "tag"}})
			if err != nil {
				t.Fatal(err)
			}
			key := dftracer.NewKey("compute", "step")
			w.WriteComplete(&key, dftracer.Span{TID: 1, TS: last.Add(-time.Minute).UnixMicro(), Dur: time.Minute.Microseconds()})
			w.Write(&dftracer.Event{Name: "x", Cat: "y", TID: 2, TS: began.UnixMicro(), Dur: 5})
			if !c.explicit.IsZero() {
				w.SetEnd(c.explicit)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if r, err := validate.Stream(bytes.NewReader(buf.Bytes()), nil); err != nil || !r.OK() {
				t.Errorf("%v %v; want a valid trace", err, r.Err())
			}
			start, end := frame(t, buf.Bytes())
			if start.TS != began.UnixMicro() || end.TS != c.want.UnixMicro() {
				t.Errorf("trace lasts from %v to %v, want %v to %v", time.UnixMicro(start.TS).UTC(), time.UnixMicro(end.TS).UTC(), began, c.want)
			}
			for _, ev := range []dftracer.Event{start, end} {
				if a, _ := ev.Arg("written_ts"); a.Int64() != now.UnixMicro() {
					t.Errorf("%s has written_ts %d, want %d", ev.Name, a.Int64(), now.UnixMicro())
				}
			}
			for key, want := range map[string]string{"world_size": "8", "attempt": "3", "job_id": "job-7", "session_tag": "tag", "date": "Fri Apr  1 12:00:00 2022"} {
				if a, _ := start.Arg(key); a.Text() != want {
					t.Errorf("%s is %q, want %q", key, a.Text(), want)
				}
			}
		})
	}
}

func TestTimesOfALiveTrace(t *testing.T) {
	now := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	var buf bytes.Buffer
	w, err := dftracer.NewWriter(&buf, &dftracer.Options{Now: func() time.Time { return now }, Process: dftracer.Process{WorldSize: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	start, end := frame(t, buf.Bytes())
	if start.TS != now.UnixMicro() || end.TS != now.UnixMicro() {
		t.Errorf("start at %d, end at %d, want both at %d", start.TS, end.TS, now.UnixMicro())
	}
	for _, key := range []string{"world_size", "attempt", "job_id", "session_tag", "written_ts"} {
		if _, ok := start.Arg(key); ok {
			t.Errorf("start event has the argument %s, want it only in an import", key)
		}
	}
}
