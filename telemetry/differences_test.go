package telemetry_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/tracefile/onelogger"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
)

// The tests of this file are the list in docs/explain/differences.md: where
// one-logger has a fault, and what happens here instead.

func startTraining(t *testing.T, j *job) {
	t.Helper()
	started(t)(j.cb.OnAppStart(j.ctx))
	started(t)(j.cb.OnTrainStart(j.ctx, callbacks.TrainStart{}))
}

func TestExportAllWorks(t *testing.T) {
	j := newJob(t, exportAll)
	startTraining(t, j)
	j.iteration(t, time.Second)
	if !slices.Contains(j.mem.kinds(), "stop training_single_iteration") {
		t.Errorf("the iteration was not exported: %v, want \"stop training_single_iteration\" in it", j.mem.kinds())
	}
}

func TestSavingWithMetricsDisabledWorks(t *testing.T) {
	j := newJob(t, func(c *config.Base, _ *telemetry.TrainingTelemetryBuilder) {
		c.Training.IsSaveCheckpointEnabled = config.Value(false)
	})
	startTraining(t, j)
	started(t)(j.cb.OnSaveCheckpointStart(j.ctx, callbacks.SaveStart{GlobalStep: 1}))
	check(t, j.cb.OnSaveCheckpointSuccess(j.ctx, callbacks.SaveSuccess{GlobalStep: 1}))
	check(t, j.cb.OnSaveCheckpointEnd(j.ctx))
	if !slices.Contains(j.mem.kinds(), "stop checkpoint_save_sync") {
		t.Errorf("the save was not recorded: %v, want \"stop checkpoint_save_sync\" in it", j.mem.kinds())
	}
	if got := j.mem.events(spans.EventSaveCheckpointSuccess); len(got) != 0 {
		t.Errorf("metrics that are disabled were recorded: %v, want none", got)
	}
}

func TestAnyStringIsASpanName(t *testing.T) {
	j := newJob(t)
	for _, name := range []string{"", "tokenize", "a \"b\"\n", "\xff", "training_loop2"} {
		_, s := j.tel.StartSpan(j.ctx, name)
		s.End()
		if err := s.Err(); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestSaveUsesItsExplicitStart(t *testing.T) {
	j := newJob(t)
	startTraining(t, j)
	at := j.clock.Now().Add(-250 * time.Millisecond)
	started(t)(j.cb.OnSaveCheckpointStart(j.ctx, callbacks.SaveStart{GlobalStep: 1, Time: at}))
	j.clock.pass(time.Second)
	check(t, j.cb.OnSaveCheckpointEnd(j.ctx))
	r := j.mem.all()
	stop := r[len(r)-1]
	if stop.Span.Start != at.UnixNano() || time.Duration(stop.Span.Stop-stop.Span.Start) != 1250*time.Millisecond {
		t.Errorf("the save lasts %v from %v, want 1.25 s from %v", time.Duration(stop.Span.Stop-stop.Span.Start), time.Unix(0, stop.Span.Start), at)
	}
}

func TestNoMillisecondIsLost(t *testing.T) {
	j := newJob(t)
	for ms := range int64(400) {
		_, s := j.tel.StartSpan(j.ctx, "x")
		start := j.clock.Now()
		s.EndWith(telemetry.End{Time: start.Add(time.Duration(ms) * time.Millisecond)})
		all := j.mem.all()
		if got := attrIn(all[len(all)-1].Span.Attributes, onelogger.DurationMsec); got != fmt.Sprint(ms) {
			t.Fatalf("%d ms are recorded as %s ms, want the same", ms, got)
		}
	}
}

func TestFailedIterationIsNotCounted(t *testing.T) {
	j := newJob(t)
	startTraining(t, j)
	failure := errors.New("out of memory")
	j.iteration(t, time.Second)
	j.iteration(t, 10*time.Second, callbacks.IterationEnd{Err: failure})
	j.iteration(t, time.Second)
	updates := j.mem.events(spans.EventTrainingMetricsUpdate)
	if len(updates) != 1 {
		t.Fatalf("%d updates, want 1 after the second iteration that ended well", len(updates))
	}
	for key, want := range map[string]string{
		"num_iterations": "2", "current_iteration": "1", "num_train_samples": "128",
		"total_iteration_time_sec": "2", "max_iteration_time_sec": "1", "failed_iterations": "1",
		"total_flops": "160000000000000",
	} {
		if got := attr(updates[0], key); got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}
}

// async makes saves asynchronous.
func async(c *config.Base, _ *telemetry.TrainingTelemetryBuilder) {
	c.Training.SaveCheckpointStrategy = config.CheckpointAsync
}

func (j *job) save(t *testing.T, step int) {
	t.Helper()
	started(t)(j.cb.OnSaveCheckpointStart(j.ctx, callbacks.SaveStart{GlobalStep: step}))
	j.clock.pass(100 * time.Millisecond)
	check(t, j.cb.OnSaveCheckpointEnd(j.ctx))
}

func TestLateSuccessNeverLowersProductivity(t *testing.T) {
	j := newJob(t, async)
	startTraining(t, j)
	j.iteration(t, time.Second)
	j.save(t, 1)
	j.iteration(t, time.Second)
	j.save(t, 2)
	check(t, j.cb.OnSaveCheckpointSuccess(j.ctx, callbacks.SaveSuccess{GlobalStep: 2}))
	check(t, j.cb.OnSaveCheckpointSuccess(j.ctx, callbacks.SaveSuccess{GlobalStep: 1}))
	got := j.mem.events(spans.EventSaveCheckpointSuccess)
	if len(got) != 2 {
		t.Fatalf("%d successes, want 2", len(got))
	}
	for key, want := range map[string]string{
		"current_iteration": "1", "productive_train_iterations": "2", "productive_train_samples": "128",
		"productive_train_iterations_sec": "2", "productive_train_tflops": "160", "save_checkpoint_success_count": "2",
	} {
		if v := attr(got[1], key); v != want {
			t.Errorf("%s of the late success is %s, want %s", key, v, want)
		}
	}
}

// A save before the first loop has 0 productive samples and operations, if the
// numbers of an iteration are known.
func TestSaveBeforeTheFirstLoop(t *testing.T) {
	j := newJob(t)
	started(t)(j.cb.OnAppStart(j.ctx))
	started(t)(j.cb.OnSaveCheckpointStart(j.ctx, callbacks.SaveStart{GlobalStep: 1}))
	check(t, j.cb.OnSaveCheckpointSuccess(j.ctx, callbacks.SaveSuccess{GlobalStep: 1}))
	got := j.mem.events(spans.EventSaveCheckpointSuccess)
	for _, key := range []string{"productive_train_samples", "productive_train_tflops"} {
		if len(got) != 1 || !strings.Contains(fmt.Sprint(got[0]), key) {
			t.Errorf("want one record with %s, got %v", key, got)
		}
	}
}

func TestUnknownOrRepeatedSuccessIsADataError(t *testing.T) {
	j := newJob(t, async)
	startTraining(t, j)
	j.save(t, 1)
	check(t, j.cb.OnSaveCheckpointSuccess(j.ctx, callbacks.SaveSuccess{GlobalStep: 1}))
	check(t, j.cb.OnSaveCheckpointSuccess(j.ctx, callbacks.SaveSuccess{GlobalStep: 1}))
	check(t, j.cb.OnSaveCheckpointSuccess(j.ctx, callbacks.SaveSuccess{GlobalStep: 7}))
	if got := j.mem.events(spans.EventSaveCheckpointSuccess); len(got) != 1 {
		t.Errorf("%d successes were recorded, want 1", len(got))
	}
	if got := j.mem.events(spans.EventTelemetryDataError); len(got) != 1 {
		t.Errorf("%d data errors were recorded, want 1 for the exporter", len(got))
	}
	if got := j.tel.Stats().DataErrors; got != 2 {
		t.Errorf("%d data errors were counted, want 2", got)
	}
}

func TestSecondLoopStartsAfresh(t *testing.T) {
	j := newJob(t)
	startTraining(t, j)
	j.iteration(t, time.Second)
	j.iteration(t, time.Second)
	check(t, j.cb.OnTrainEnd(j.ctx))
	started(t)(j.cb.OnTrainStart(j.ctx, callbacks.TrainStart{IterationsStart: 2}))
	j.iteration(t, 2*time.Second)
	j.iteration(t, 2*time.Second)
	started(t)(j.cb.OnSaveCheckpointStart(j.ctx, callbacks.SaveStart{GlobalStep: 4}))
	check(t, j.cb.OnSaveCheckpointSuccess(j.ctx, callbacks.SaveSuccess{GlobalStep: 4}))
	updates := j.mem.events(spans.EventTrainingMetricsUpdate)
	second := updates[len(updates)-1]
	for key, want := range map[string]string{
		"num_iterations": "2", "num_train_samples": "128", "total_iteration_time_sec": "4",
		"train_throughput_per_gpu": "5", "total_flops": "160000000000000", "current_iteration": "3",
	} {
		if got := attr(second, key); got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}
	success := j.mem.events(spans.EventSaveCheckpointSuccess)[0]
	for key, want := range map[string]string{
		"productive_train_samples": "256", "productive_train_iterations": "4", "productive_train_iterations_sec": "6",
	} {
		if got := attr(success, key); got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}
}

func TestClockThatStepsBackWedgesNothing(t *testing.T) {
	j := newJob(t)
	startTraining(t, j)
	j.iteration(t, -30*time.Second)
	j.iteration(t, time.Second)
	j.iteration(t, time.Second)
	j.iteration(t, time.Second)
	updates := j.mem.events(spans.EventTrainingMetricsUpdate)
	if len(updates) != 2 || attr(updates[1], "num_iterations") != "4" || attr(updates[1], "min_iteration_time_sec") != "0" {
		t.Errorf("updates %v, want two, the second of 4 iterations with a shortest time of 0", updates)
	}
	if got := j.tel.Stats().RepairedTimes; got != 1 {
		t.Errorf("%d repaired times were counted, want 1", got)
	}
}

func TestCallbacksAfterTheEndAreSilent(t *testing.T) {
	j := newJob(t)
	startTraining(t, j)
	check(t, j.cb.OnAppEnd(j.ctx))
	n := len(j.mem.all())
	j.iteration(t, time.Second)
	check(t, j.cb.OnTrainEnd(j.ctx))
	check(t, j.cb.OnAppEnd(j.ctx))
	started(t)(j.cb.OnAppStart(j.ctx))
	if got := len(j.mem.all()); got != n {
		t.Errorf("%d records were written after the end, want none", got-n)
	}
	if j.mem.shutdown != 1 {
		t.Errorf("the exporter was shut down %d times, want 1", j.mem.shutdown)
	}
	if s := j.tel.Stats(); s.Errors != 0 || s.SpansOpen != 0 {
		t.Errorf("stats %+v, want no errors and no open spans", s)
	}
}

func TestQuietDisableWritesAndCloses(t *testing.T) {
	j := newJob(t, func(c *config.Base, _ *telemetry.TrainingTelemetryBuilder) { c.ErrorStrategy = config.DisableQuietly })
	startTraining(t, j)
	if err := j.cb.OnValidationEnd(j.ctx); err != nil { // no loop is open
		t.Errorf("a quiet strategy gave the error %v", err)
	}
	if j.tel.Enabled() {
		t.Error("telemetry is on, want off")
	}
	if j.mem.shutdown != 1 {
		t.Errorf("the exporter was shut down %d times, want 1", j.mem.shutdown)
	}
	want := []string{"telemetry_data_error telemetry_data_error", "stop training_loop", "stop application"}
	if got := j.mem.kinds(); len(got) < 3 || !slices.Equal(got[len(got)-3:], want) {
		t.Errorf("the last records are %v, want %v", got, want)
	}
	j.iteration(t, time.Second) // this does nothing
}

func TestDiskFullIsSeen(t *testing.T) {
	j := newJob(t)
	started(t)(j.cb.OnAppStart(j.ctx))
	j.mem.mu.Lock()
	j.mem.fail = errors.New("no space left on device")
	j.mem.mu.Unlock()
	for range 8 {
		_, s := j.tel.StartSpan(j.ctx, "x")
		s.End()
	}
	stats := j.tel.Stats()
	h := stats.Outputs[0]
	if h.Failures != 16 || h.GivenUp || h.LastError == nil || stats.ExporterFailures != 16 {
		t.Errorf("health %+v, want 16 failures and the output kept", h)
	}
	j.mem.mu.Lock()
	j.mem.fail = nil
	j.mem.mu.Unlock()
	before := len(j.mem.all())
	_, s := j.tel.StartSpan(j.ctx, "x")
	s.End()
	if got := len(j.mem.all()) - before; got != 2 {
		t.Errorf("%d records after the disk works again, want 2", got)
	}
}

// TestOutputThatNeverWorkedIsGivenUp checks that five failures without a
// success are enough, and that the other outputs get a data error.
func TestOutputThatNeverWorkedIsGivenUp(t *testing.T) {
	broken := &memory{fail: errors.New("read-only file system")}
	j := newJob(t, func(_ *config.Base, b *telemetry.TrainingTelemetryBuilder) { b.WithExporter(broken) })
	for range 8 {
		_, s := j.tel.StartSpan(j.ctx, "x")
		s.End()
	}
	h := j.tel.Stats().Outputs[1]
	if h.Failures != 5 || !h.GivenUp || h.Dropped != 11 {
		t.Errorf("health %+v, want it given up after 5 failures, 11 records dropped", h)
	}
	got := j.mem.events(spans.EventTelemetryDataError)
	if len(got) != 1 || !got[0].Extension || !strings.Contains(attr(got[0], "error_message"), "was disabled") {
		t.Errorf("the other output got %+v, want one data error that it was disabled", got)
	}
}

func TestPartialIntervalIsReported(t *testing.T) {
	j := newJob(t)
	startTraining(t, j)
	for range 3 {
		j.iteration(t, time.Second)
	}
	check(t, j.cb.OnTrainEnd(j.ctx))
	updates := j.mem.events(spans.EventTrainingMetricsUpdate)
	if len(updates) != 2 {
		t.Fatalf("%d updates, want 2", len(updates))
	}
	last := updates[1]
	if !last.Extension || attr(last, "num_iterations") != "3" || attr(last, onelogger.PartialInterval) != "true" {
		t.Errorf("last update %+v, want an extension of 3 iterations, marked as partial", last)
	}
	if updates[0].Extension {
		t.Error("the regular update is marked as an extension")
	}
}

func TestIterationThroughput(t *testing.T) {
	j := newJob(t)
	startTraining(t, j)
	j.iteration(t, time.Second)
	j.iteration(t, 3*time.Second)
	u := j.mem.events(spans.EventTrainingMetricsUpdate)[0]
	// 64 samples of 1.25e12 operations on 8 ranks: 10 TFLOP/s for one second.
	for key, want := range map[string]string{
		"train_throughput_per_gpu": "5", "train_throughput_per_gpu_max": "10", "train_throughput_per_gpu_min": "5",
		onelogger.IterationThroughputPerGPUMax:  "10",
		onelogger.IterationThroughputPerGPUMin:  "3.3333333333333335",
		onelogger.IterationThroughputPerGPULast: "3.3333333333333335",
	} {
		if got := attr(u, key); got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}
}

func TestAsyncSaveTimes(t *testing.T) {
	j := newJob(t, async)
	startTraining(t, j)
	started(t)(j.cb.OnSaveCheckpointStart(j.ctx, callbacks.SaveStart{GlobalStep: 1}))
	j.clock.pass(time.Second)
	started(t)(j.cb.OnCheckpointFinalizationStart(j.ctx, callbacks.Finalization{GlobalStep: 1}))
	check(t, j.cb.OnSaveCheckpointEnd(j.ctx))
	j.save(t, 2) // another save while the first is still being written
	started(t)(j.cb.OnCheckpointFinalizationStart(j.ctx, callbacks.Finalization{GlobalStep: 2}))
	j.clock.pass(3900 * time.Millisecond)
	check(t, j.cb.OnCheckpointFinalizationEnd(j.ctx, callbacks.Finalization{GlobalStep: 1}))
	check(t, j.cb.OnCheckpointFinalizationEnd(j.ctx, callbacks.Finalization{GlobalStep: 2}))
	got := j.mem.events(spans.EventAsyncCheckpointMetricsUpdate)
	if len(got) != 2 {
		t.Fatalf("%d updates, want 2", len(got))
	}
	if b, w := attr(got[0], onelogger.CheckpointBlockingTimeSec), attr(got[0], onelogger.CheckpointBackgroundTimeSec); b != "1" || w != "4" {
		t.Errorf("blocking %s s and background %s s, want 1 and 4", b, w)
	}
	if !got[0].Extension {
		t.Error("the update is not marked as an extension")
	}
}

func TestFailureEvents(t *testing.T) {
	j := newJob(t)
	startTraining(t, j)
	_, save := j.tel.Start(j.ctx, spans.CheckpointSave, telemetry.SaveStart{GlobalStep: 3})
	failure := errors.New("disk on fire")
	save.EndErr(&failure)
	got := j.mem.events(spans.EventSaveCheckpointFailure)
	if len(got) != 1 || !got[0].Extension || attr(got[0], "exception_message") != "disk on fire" || attr(got[0], "current_iteration") != "3" {
		t.Errorf(`failures %+v, want one extension, "disk on fire" in iteration 3`, got)
	}
	if err := j.cb.OnSaveCheckpointFailure(j.ctx, callbacks.SaveFailure{GlobalStep: 9, Err: failure}); err != nil {
		t.Error(err)
	}
	if got := j.mem.events(spans.EventSaveCheckpointFailure); len(got) != 2 {
		t.Errorf("%d failures, want 2", len(got))
	}
}

func TestEmptyErrorMessageIsRecorded(t *testing.T) {
	j := newJob(t)
	_, s := j.tel.StartSpan(j.ctx, "x")
	s.EndWith(telemetry.End{Err: errors.New("")})
	got := j.mem.events(spans.EventError)
	if len(got) != 1 || attr(got[0], "exception_type") != "*errors.errorString" || attr(got[0], "error_message") != "Error in x: " {
		t.Errorf(`errors %+v, want one of *errors.errorString with the text "Error in x: "`, got)
	}
}

func TestIterationThatCannotBeCountedIsEnded(t *testing.T) {
	j := newJob(t)
	started(t)(j.cb.OnAppStart(j.ctx))
	for range 5 { // without a training loop, an update has no span
		started(t)(j.cb.OnTrainingSingleIterationStart(j.ctx))
		j.clock.pass(time.Second)
		_ = j.cb.OnTrainingSingleIterationEnd(j.ctx)
	}
	if got := j.tel.Recorder().ActiveSpans(spans.TrainingIteration); len(got) != 0 {
		t.Errorf("%d iterations are still open, want 0", len(got))
	}
}

func TestCountersBeyondInt64(t *testing.T) {
	j := newJob(t, func(c *config.Base, _ *telemetry.TrainingTelemetryBuilder) {
		c.Training.GlobalBatchSize = config.Value(2048)
		c.Training.FlopsPerSample = config.Value(3440640000000000)
	})
	started(t)(j.cb.OnAppStart(j.ctx))
	ctx := started(t)(j.cb.OnTrainStart(j.ctx, callbacks.TrainStart{IterationsStart: 1000}))
	j.iteration(t, time.Second)
	j.iteration(t, time.Second)
	u := j.mem.events(spans.EventTrainingMetricsUpdate)[0]
	if got := attr(u, "completed_floating_point_operations_overall"); got != "7060523581440000000000" {
		t.Errorf("the file gets %s, want \"7060523581440000000000\"", got)
	}
	check(t, j.cb.OnTrainEnd(ctx))
	attrs := keyed(j.stub(t, spans.TrainingLoop).Attributes)
	if got := attrs["completed_floating_point_operations_overall"]; got != 7.04643072e21 {
		t.Errorf("OpenTelemetry gets %v, want 7.04643072e21", got)
	}
}

// TestLoopWithoutABatchSize checks that the loop runs, and that unknown values
// are not reported.
func TestLoopWithoutABatchSize(t *testing.T) {
	j := newJob(t, func(c *config.Base, _ *telemetry.TrainingTelemetryBuilder) {
		c.Training = &config.Training{LogEveryNTrainIterations: config.Value(2)}
	})
	startTraining(t, j)
	j.iteration(t, time.Second)
	j.iteration(t, time.Second)
	update := j.mem.events(spans.EventTrainingMetricsUpdate)
	if len(update) != 1 || attr(update[0], "num_iterations") != "2" || attr(update[0], "num_train_samples") != "" {
		t.Fatalf("updates %+v, want one of 2 iterations without samples", update)
	}
	j.iteration(t, time.Second, callbacks.IterationEnd{Samples: callbacks.Some[int64](3)})
	j.iteration(t, time.Second, callbacks.IterationEnd{Samples: callbacks.Some[int64](4)})
	if update = j.mem.events(spans.EventTrainingMetricsUpdate); attr(update[1], "num_train_samples") != "7" {
		t.Errorf("updates %+v, want 7 samples in the second", update)
	}
}
