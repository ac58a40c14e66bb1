package ai_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/ai"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/testkit/goldentrace"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// This file has the test program of DFTracer's AI logging in Go: a small
// training job that uses every kind of node, and writes the same trace as the
// original, record for record. The same program in Python is in
// integrations/python/testdata.

// loggingOptions are the settings of the program.
type loggingOptions struct {
	files    int // one per step of an epoch
	epochs   int
	metadata bool   // epochs are metadata records, not events
	disable  string // the disabled category, or "all"
	dialect  string // v1, v2 or v22
}

// dialects are options for the program's trace.
var dialects = map[string]*dftracer.Options{
	"v1": {Dialect: dftracer.V1},
	"v2": {Dialect: dftracer.V2},
	// That generation of DFTracer deletes a file without events.
	"v22": {Dialect: dftracer.V22, RemoveEmpty: true},
}

// categories returns the nodes that can be switched off.
func categories(t *ai.Tree) map[string]*ai.Node {
	return map[string]*ai.Node{
		"all": t.Root, "compute": t.Compute.Node, "data": t.Data.Node, "dataloader": t.DataLoader.Node,
		"comm": t.Comm.Node, "device": t.Device.Node, "checkpoint": t.Checkpoint.Node, "ckpt": t.Checkpoint.Node,
		"pipeline": t.Pipeline.Node,
	}
}

// width is the number of weights.
const width = 256

// loggingJob is a linear model that learns to predict 1 for every input.
type loggingJob struct {
	ai      *ai.Tree
	opts    loggingOptions
	dir     string
	weights []float64

	collate *ai.Node
	reduce  *ai.Node
	forward func(context.Context, []float64) (float64, error)
}

// newLoggingJob returns the job with its data and model.
func newLoggingJob(t *ai.Tree, o loggingOptions, dir string) (*loggingJob, error) {
	j := &loggingJob{
		ai: t, opts: o, dir: dir, weights: make([]float64, width),
		collate: t.Data.Preprocess.Derive("collate"),
		reduce:  t.Comm.AllReduce.ForceOff(), // there is only one rank
	}
	j.forward = ai.WrapCall(t.Compute.Forward, j.predict)
	for i := range o.files {
		data := make([]byte, 0, 8*width)
		for k := range width {
			data = binary.LittleEndian.AppendUint64(data, math.Float64bits(math.Sin(float64(i*width+k))))
		}
		if err := os.WriteFile(j.file(i), data, 0o600); err != nil {
			return nil, err
		}
	}
	return j, nil
}

func (j *loggingJob) file(i int) string { return filepath.Join(j.dir, fmt.Sprintf("data-%d.bin", i)) }

func (j *loggingJob) checkpoint() string { return filepath.Join(j.dir, "weights.bin") }

// main runs the program: checkpoints around the training.
func (j *loggingJob) main(ctx context.Context) error {
	ctx, train := j.ai.Pipeline.Train.StartContext(ctx)
	defer train.End()
	if err := j.ai.Checkpoint.Init().Do(ctx, j.save); err != nil {
		return err
	}
	if err := j.ai.Checkpoint.Restart.Do(ctx, j.restore); err != nil {
		return err
	}
	var err error
	if j.opts.metadata {
		err = j.epochsAsMetadata(ctx)
	} else {
		err = j.epochs(ctx)
	}
	if err != nil {
		return err
	}
	return j.ai.Checkpoint.Capture.Do(ctx, j.save)
}

func (j *loggingJob) epochs(ctx context.Context) error {
	for epoch := range j.ai.Pipeline.Epoch.Range(ctx, j.opts.epochs) {
		if err := j.epoch(ctx, epoch); err != nil {
			return err
		}
	}
	return nil
}

func (j *loggingJob) epochsAsMetadata(ctx context.Context) error {
	for epoch := range j.opts.epochs {
		j.ai.Pipeline.Epoch.NoteStart(ctx)
		if err := j.epoch(ctx, epoch); err != nil {
			return err
		}
		j.ai.Pipeline.Epoch.NoteEnd(ctx)
	}
	return nil
}

func (j *loggingJob) epoch(ctx context.Context, epoch int) error {
	var step int
	var failed error
	batches := ai.Wrap(j.ai.DataLoader.Fetch, j.batches)(ctx, &failed)
	for batch := range ai.Iter(ctx, j.ai.DataLoader.Fetch, batches) {
		if err := j.step(ctx, batch); err != nil {
			return err
		}
		j.ai.Root.Update(ai.Epoch(epoch), ai.Step(step))
		step++
	}
	return failed
}

// batches yields the contents of the files one by one. Its call is the event
// "fetch".
func (j *loggingJob) batches(ctx context.Context, failed *error) iter.Seq[[]float64] {
	return func(yield func([]float64) bool) {
		for i := range j.opts.files {
			batch, err := j.item(ctx, i)
			if err != nil {
				*failed = err
				return
			}
			if !yield(batch) {
				return
			}
		}
	}
}

// item reads a file.
func (j *loggingJob) item(ctx context.Context, i int) ([]float64, error) {
	defer j.ai.Data.Item.Start(ctx).End()
	return readFloats(j.file(i))
}

func readFloats(path string) ([]float64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	list := make([]float64, len(data)/8)
	for k := range list {
		list[k] = math.Float64frombits(binary.LittleEndian.Uint64(data[8*k:]))
	}
	return list, nil
}

// step trains on one batch. The node step is recorded by hooks, as a framework
// would call them.
func (j *loggingJob) step(ctx context.Context, batch []float64) (err error) {
	j.ai.Compute.Step.Begin(ctx)
	defer j.ai.Compute.Step.StopErr(ctx, &err)

	scope := j.collate.Start(ctx)
	batch = slices.Clone(batch)
	scope.End()

	scope = j.ai.Device.Transfer.Start(ctx)
	copied := append(make([]float64, 0, len(batch)), batch...)
	scope.End()

	return j.ai.Compute.Do(ctx, func(ctx context.Context) error {
		residual, err := j.forward(ctx, copied)
		if err != nil {
			return err
		}
		for k, g := range j.backward(ctx, copied, residual) {
			j.weights[k] -= 0.001 * g
		}
		return nil
	})
}

// predict runs the forward pass and returns the error of the prediction.
func (j *loggingJob) predict(_ context.Context, batch []float64) (float64, error) {
	if len(batch) != width {
		return 0, fmt.Errorf("a batch has %d numbers, not %d", len(batch), width)
	}
	const want = 1
	var got float64
	for k, x := range batch {
		got += j.weights[k] * x
	}
	return got - want, nil
}

func (j *loggingJob) backward(ctx context.Context, batch []float64, residual float64) []float64 {
	ctx, scope := j.ai.Compute.Backward.StartContext(ctx)
	defer scope.End()
	defer j.reduce.Start(ctx).End()
	gradient := make([]float64, width)
	for k, x := range batch {
		gradient[k] = 2 * residual * x
	}
	return gradient
}

func (j *loggingJob) save(context.Context) error {
	data := make([]byte, 0, 8*width)
	for _, w := range j.weights {
		data = binary.LittleEndian.AppendUint64(data, math.Float64bits(w))
	}
	return os.WriteFile(j.checkpoint(), data, 0o600)
}

func (j *loggingJob) restore(context.Context) error {
	weights, err := readFloats(j.checkpoint())
	if err == nil {
		j.weights = weights
	}
	return err
}

// runLogging runs the program and returns the path of the trace and its physical lines,
// as Python's readlines counts them; -1 without a file.
func runLogging(t *testing.T, o loggingOptions) (path string, lines int) {
	t.Helper()
	tree, tel, path := newTree(t, "trace.pfw", &pfw.Options{
		NoBegin: true, // DFTracer has no records of open spans
		Trace:   dialects[o.dialect],
	})
	if o.disable != "" {
		categories(tree)[o.disable].Disable()
	}
	j, err := newLoggingJob(tree, o, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := j.main(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return path, -1
	}
	if err != nil {
		t.Fatal(err)
	}
	lines = bytes.Count(data, []byte("\n"))
	if len(data) > 0 && data[len(data)-1] != '\n' {
		lines++
	}
	return path, lines
}

// checkLogging checks the lines and the records of the program; lines is -1 if
// there should be no file.
func checkLogging(t *testing.T, o loggingOptions, lines int) {
	t.Helper()
	path, got := runLogging(t, o)
	if got != lines {
		t.Errorf("%d lines, want %d", got, lines)
	}
	if got < 0 {
		return
	}
	dftest.Check(t, path)
	if got, want := countRecords(t, path), o.records(); !maps.Equal(got, want) {
		t.Errorf("records are\n%v, want\n%v", got, want)
	}
}

// records returns how many records of each category, name and phase DFTracer
// writes, without framing.
func (o loggingOptions) records() map[string]int {
	epochs, steps, disabled := o.epochs, o.files*o.epochs, o.disable
	all := map[string]int{
		"checkpoint/checkpoint.init/X": 1,
		"checkpoint/restart/X":         1,
		"checkpoint/capture/X":         1,
		"pipeline/train/X":             1,
		"pipeline/epoch.iter/X":        epochs,
		"pipeline/epoch.block/X":       epochs,
		"dataloader/fetch/X":           epochs,
		"dataloader/fetch.iter/X":      steps,
		"dataloader/fetch.block/X":     steps,
		"data/item/X":                  steps,
		"data/preprocess.collate/X":    steps,
		"device/transfer/X":            steps,
		"compute/forward/X":            steps,
		"compute/backward/X":           steps,
		"compute/compute/X":            steps,
		"compute/step/X":               steps,
	}
	if o.metadata {
		delete(all, "pipeline/epoch.iter/X")
		delete(all, "pipeline/epoch.block/X")
		if disabled != "pipeline" && disabled != "all" {
			all["CM/epoch.start/M"] = epochs
			all["CM/epoch.end/M"] = epochs
		}
	}
	maps.DeleteFunc(all, func(key string, n int) bool {
		cat, _, _ := strings.Cut(key, "/")
		return n == 0 || disabled == "all" || disabled == cat || disabled == "ckpt" && cat == "checkpoint"
	})
	return all
}

func countRecords(t *testing.T, path string) map[string]int {
	t.Helper()
	all := make(map[string]int)
	for _, ev := range dftest.Events(t, path) {
		cat, name := ev.Cat, ev.Name
		if cat == dftracer.CatDFTracer {
			key, value := ev.Meta()
			if name != tracefile.NameCustom || key == "time_metric" {
				continue
			}
			cat, name = name, key
			if us, err := strconv.ParseInt(value, 10, 64); err != nil || us < 1e15 {
				t.Errorf("%s has the value %q, want a time in µs", key, value)
			}
		}
		all[cat+"/"+name+"/"+ev.Phase.String()]++
	}
	return all
}

// The line counts of each setting in DFTracer's own tests.
func TestLoggingLines(t *testing.T) {
	for name, o := range map[string]loggingOptions{
		"normal": {}, "epoch_as_metadata": {metadata: true}, "disable_all": {disable: "all"}, "disable_dataloader": {disable: "dataloader"},
		"disable_device": {disable: "device"}, "disable_compute": {disable: "compute"}, "disable_ckpt": {disable: "ckpt"},
	} {
		t.Run(name, func(t *testing.T) {
			o.files, o.epochs, o.dialect = 2, 3, "v2"
			path, _ := runLogging(t, o)
			goldentrace.Check(t, path, filepath.Join("testdata", "logging", name+".golden"), *update)
		})
	}
}

// Line counts that DFTracer's own tests assert, for each of its generations.
func TestLoggingLinesOfTheOriginal(t *testing.T) {
	for _, c := range []struct {
		name, disable string
		metadata      bool
		v2, v22       int // physical lines; -1 if there is no file
	}{
		{"normal", "", false, 76, 75},
		{"epoch as metadata", "", true, 76, 75},
		{"all disabled", "all", false, 9, -1},
		{"dataloader disabled", "dataloader", false, 61, 60},
		{"device disabled", "device", false, 70, 69},
		{"compute disabled", "compute", false, 52, 51},
		{"checkpoint disabled", "ckpt", false, 73, 72},
		{"comm disabled", "comm", false, 76, 75},
	} {
		for dialect, want := range map[string]int{"v2": c.v2, "v22": c.v22} {
			t.Run(c.name+" "+dialect, func(t *testing.T) {
				o := loggingOptions{files: 2, epochs: 3, metadata: c.metadata, disable: c.disable, dialect: dialect}
				checkLogging(t, o, want)
			})
		}
	}
}

func TestLoggingOfOtherSizes(t *testing.T) {
	for _, p := range []struct{ files, epochs int }{{0, 0}, {0, 3}, {1, 1}, {5, 2}, {40, 10}} {
		for _, disabled := range []string{"", "pipeline", "data"} {
			for _, metadata := range []bool{false, true} {
				for dialect, framing := range map[string]int{"v1": 8, "v2": 9, "v22": 8} {
					if disabled == "data" && dialect != "v2" {
						continue
					}
					t.Run(fmt.Sprint(p, disabled, metadata, dialect), func(t *testing.T) {
						o := loggingOptions{files: p.files, epochs: p.epochs, metadata: metadata, disable: disabled, dialect: dialect}
						total := framing
						for _, n := range o.records() {
							total += n
						}
						notes := o.records()["CM/epoch.start/M"] + o.records()["CM/epoch.end/M"]
						if events := total - framing - notes; dialect == "v22" && events < 3 {
							total = -1 // fewer than five events, including start and end
						}
						checkLogging(t, o, total)
					})
				}
			}
		}
	}
}

// Epoch, step and count have their values at the end of an event, and count
// never remains from an earlier one.
func TestLoggingArguments(t *testing.T) {
	path, _ := runLogging(t, loggingOptions{files: 2, epochs: 3, dialect: "v2"})
	steps := make(map[string]int)
	for _, ev := range dftest.Events(t, path) {
		n, counted := ev.Arg("count")
		loop := strings.HasSuffix(ev.Name, ".iter") || strings.HasSuffix(ev.Name, ".block")
		if counted != loop {
			t.Errorf("%s: count is %v, want %v", ev.Name, counted, loop)
		}
		if most := map[string]int64{"epoch": 3, "fetch": 2}[strings.SplitN(ev.Name, ".", 2)[0]]; loop && (n.Int64() < 1 || n.Int64() > most) {
			t.Errorf("%s has count %d, want 1 to %d", ev.Name, n.Int64(), most)
		}
		if ev.Name == "step" {
			e, known := ev.Arg("epoch")
			s, _ := ev.Arg("step")
			if known {
				steps[e.Text()+"."+s.Text()]++
			} else {
				steps["unknown"]++
			}
		}
	}
	// The program updates at the end of a step, like the original: each step has
	// the numbers of the one before.
	if want := map[string]int{"unknown": 1, "0.0": 1, "0.1": 1, "1.0": 1, "1.1": 1, "2.0": 1}; !maps.Equal(steps, want) {
		t.Errorf("steps are %v, want %v", steps, want)
	}
}
