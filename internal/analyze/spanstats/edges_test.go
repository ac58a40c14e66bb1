package spanstats_test

import (
	"slices"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/analyze/spanstats"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/spans"
)

// TestLabel checks that the name of a process comes only from its own record.
func TestLabel(t *testing.T) {
	agg := spanstats.New(nil)
	feed(agg, 10, "0", 1000, 100)
	meta := func(name, value string) {
		agg.Add(&dftracer.Event{Phase: dftracer.PhaseMetadata, Name: name, Cat: dftracer.CatDFTracer, PID: 10, HostHash: "h",
			Args: []dftracer.Arg{dftracer.String("name", value)}})
	}
	meta(tracefile.NameThreadName, "a lane")
	meta(tracefile.NameProcessName, "rank 0")
	meta(tracefile.NameThreadName, "another lane")
	if got := agg.Result().Processes[0].Label; got != "rank 0" {
		t.Errorf("it is called %q, want \"rank 0\"", got)
	}
}

// TestQuantileIsWithinItsBucket checks that a quantile is the middle of its
// bucket, whose width is a small part of the value, and within the range of the
// values.
func TestQuantileIsWithinItsBucket(t *testing.T) {
	for _, values := range [][]int64{{0}, {7}, {1000, 1001, 1002}, {1 << 20, 1<<20 + 999, 1 << 21}, {3, 1 << 40, 1 << 41}} {
		var h spanstats.Histogram
		for _, v := range values {
			h.Add(v)
		}
		slices.Sort(values)
		for i, v := range values {
			got := h.Quantile(float64(i+1) / float64(len(values)))
			if diff := max(got-v, v-got); diff > v/16 || got < values[0] || got > values[len(values)-1] {
				t.Errorf("%d of %v is %d, want %d", i+1, values, got, v)
			}
		}
	}
	for bits := 10; bits < 50; bits += 7 { // the last value of a bucket differs from its middle by at most half its width
		v, width := int64(1)<<bits-1, int64(1)<<(bits-1)>>6
		var h spanstats.Histogram
		for _, v := range []int64{1, v, 1 << 60} {
			h.Add(v)
		}
		if got := h.Quantile(0.5); got > v || got < v-width {
			t.Errorf("the median is %d, want at most %d below %d", got, width, v)
		}
	}
}

// TestStepsOfUpdates checks that steps are counted by the updates of metrics if
// no other record has them, and not by other records with the same name.
func TestStepsOfUpdates(t *testing.T) {
	for name, want := range map[string]int64{tracefile.NameCustom: 3, tracefile.NameProcessName: 0} {
		agg := spanstats.New(nil)
		agg.NextFile(nil)
		agg.Add(&dftracer.Event{Phase: dftracer.PhaseComplete, Cat: "pipeline", Name: "epoch.block", PID: 10, TID: 10, HostHash: "h", TS: 1_000_000, Dur: 500_000,
			Args: []dftracer.Arg{dftracer.Int("epoch", 0)}})
		update := (&job.Event{Name: spans.EventTrainingMetricsUpdate, Time: 1_400_000_000, Step: 2, Iterations: 3, Took: 300_000_000, Through: job.Unknown}).Record()
		update.Phase, update.Name, update.Cat, update.PID, update.HostHash = dftracer.PhaseMetadata, name, dftracer.CatDFTracer, 10, "h"
		agg.Add(update)
		if e := agg.Result().Epochs; len(e) != 1 || e[0].Steps != want {
			t.Errorf("%s: %+v, want %d steps", name, e, want)
		}
	}
}

// TestMetadataAndCountersAreNotEvents checks that metadata of any writer and counters are not
// events.
func TestMetadataAndCountersAreNotEvents(t *testing.T) {
	agg := spanstats.New(nil)
	for _, ev := range []dftracer.Event{
		{Phase: dftracer.PhaseMetadata, Name: "process_name", Args: []dftracer.Arg{dftracer.String("name", "python")}},
		{Phase: dftracer.PhaseMetadata, Cat: "mine", Name: "thread_name", Args: []dftracer.Arg{dftracer.String("name", "main")}},
		{Phase: dftracer.PhaseMetadata, Cat: dftracer.CatDFTracer, Name: tracefile.NameProcess, Args: []dftracer.Arg{dftracer.String("name", "rank"), dftracer.String("value", "3")}},
		{Phase: dftracer.PhaseCounter, Cat: "sys", Name: "cpu", TS: 5},
		{Phase: dftracer.PhaseComplete, Cat: "compute", Name: "forward", TS: 5, Dur: 2},
	} {
		ev.PID = 7
		agg.Add(&ev)
	}
	if r := agg.Result(); r.Events != 1 || r.Metadata != 3 || r.Counters != 1 || len(r.Processes) != 1 {
		t.Errorf("result %+v, want 1 event, 3 metadata records, 1 counter, 1 process", r)
	}
}
