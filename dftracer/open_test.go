package dftracer_test

import (
	"bytes"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trainspan/trainspan/dftracer"
)

func TestTrackedSpansShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{}
		w, err := dftracer.NewWriter(f, nil)
		if err != nil {
			t.Fatal(err)
		}
		key := dftracer.NewKey("pipeline", "train").WithType(dftracer.TypeMPI)
		var short, long, longer dftracer.OpenSpan
		track := func(o *dftracer.OpenSpan) dftracer.Span {
			s := dftracer.Span{ID: w.NextID(), TID: 5, TS: time.Now().UnixMicro(), Level: 1}
			w.Track(o, &key, s)
			return s
		}
		track(&short)
		w.Untrack(&short)
		s := track(&long)
		track(&longer)
		for range 3 { // one record each, however long it takes
			time.Sleep(time.Second)
			synctest.Wait()
		}
		w.Untrack(&long)
		w.Untrack(&long)
		s.Dur = time.Now().UnixMicro() - s.TS
		w.WriteComplete(&key, s)
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		report, err := dftracer.Validate(bytes.NewReader(f.bytes()), &dftracer.ValidateOptions{AllowUnfinished: true})
		if err != nil || !report.OK() || report.Open != 1 || report.Counts["dftracer/CM/M"] != 2 {
			t.Errorf("%v %v %+v", err, report.Err(), report)
		}
		w.Untrack(&longer)
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestTrackConcurrently(t *testing.T) {
	f := &flaky{}
	w, err := dftracer.NewWriter(f, &dftracer.Options{FlushInterval: 2 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	key := dftracer.NewKey("compute", "forward")
	var wg sync.WaitGroup
	for g := range int64(16) {
		wg.Go(func() {
			var spans [4]dftracer.OpenSpan
			for i := range 800 {
				o := &spans[i%len(spans)]
				s := dftracer.Span{ID: w.NextID(), TID: g, TS: int64(i), Dur: 1, Level: 1}
				w.Track(o, &key, s)
				if i%100 == 0 {
					time.Sleep(3 * time.Millisecond)
				}
				w.Untrack(o)
				w.WriteComplete(&key, s)
			}
		})
	}
	wg.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	report, err := dftracer.Validate(bytes.NewReader(f.bytes()), nil)
	if err != nil || !report.OK() || report.Open != 0 || report.Counts["compute/forward/X"] != 16*800 || report.Counts["dftracer/CM/M"] == 0 {
		t.Errorf("%v %v %+v", err, report.Err(), report)
	}
	var o dftracer.OpenSpan
	if n := testing.AllocsPerRun(1000, func() {
		w.Track(&o, &key, dftracer.Span{ID: 1})
		w.Untrack(&o)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkTrack(b *testing.B) {
	w := newBenchWriter(b, nil)
	key := dftracer.NewKey("compute", "forward")
	var o dftracer.OpenSpan
	for b.Loop() {
		w.Track(&o, &key, dftracer.Span{ID: 1})
		w.Untrack(&o)
	}
}
