package simjob

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"golang.org/x/sync/errgroup"
)

// Large is a job of one attempt with any number of ranks, for benchmarks and
// tests of scale. Each step of a rank has [SpansPerStep] spans: its data, the
// copy to the device, forward, backward, four buckets of gradients on another
// thread, the collective that all ranks wait in, zero_grad, the optimizer and
// the iteration itself.
//
// It is written one rank after the other, so that neither memory nor open files
// grow with the job.
type Large struct {
	Ranks, Steps int
	Slow         int     // the rank that gets Extra
	Extra        float64 // ms of data loading in each step
	Save         int     // steps between checkpoints
	First, Last  int     // the ranks to write, all if Last is 0
	Folder       int     // number of ranks in a folder, 0 for no folders
	Layers       int     // of sharded parameters: each has a gather and its work in forward, and both and a scatter in backward
	Seed         uint64
}

// SpansPerStep is the number of spans in a step of a rank of [Large] without
// layers.
const SpansPerStep = 12

// Spans returns the number of spans in a step of a rank.
func (l *Large) Spans() int { return SpansPerStep + 5*l.Layers }

// phases of a step of Large, in µs: input, copy, forward, backward, optimizer.
var largeBase = [5]float64{3000, 700, 14000, 26000, 4000}

var largeJitter = [5]float64{0.08, 0.05, 0.01, 0.01, 0.02}

const (
	largeTransfer = 6000 // of the collective, µs
	largeBegin    = 400_000
	largeSave     = 40_000
)

// Write writes the files of the job below dir.
func (l Large) Write(dir string) error {
	g := &large{Large: l, start: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC).UnixMicro()}
	if g.Last == 0 {
		g.Last = g.Ranks
	}
	g.plan()
	var ranks errgroup.Group
	ranks.SetLimit(runtime.GOMAXPROCS(0))
	for rank := g.First; rank < g.Last; rank++ {
		ranks.Go(func() error { return g.rank(dir, rank) })
	}
	return ranks.Wait()
}

type large struct {
	Large
	start    int64
	releases []int64 // µs, of the collective of each step
}

// plan computes when all ranks leave each collective: when the slowest has
// arrived. The work of a rank between two collectives does not depend on
// others.
func (g *large) plan() {
	n := runtime.GOMAXPROCS(0)
	longest := make([][]int64, n) // of each goroutine: every n-th rank
	var wait sync.WaitGroup
	for i := range longest {
		wait.Go(func() {
			longest[i] = make([]int64, g.Steps)
			for rank := i; rank < g.Ranks; rank += n {
				w := g.worker(rank)
				for step := range g.Steps {
					t := w.step(step)
					longest[i][step] = max(longest[i][step], t.untilCollective())
				}
			}
		})
	}
	wait.Wait()
	at := g.start + largeBegin
	for step := range g.Steps {
		var most int64
		for _, l := range longest {
			most = max(most, l[step])
		}
		at += most + largeTransfer
		g.releases = append(g.releases, at)
	}
}

// worker is a rank, which returns the times of its steps one after the other.
type worker struct {
	g    *large
	rank int
	rng  *rand.Rand
	opt  int64 // optimizer time of the previous step
}

func (g *large) worker(rank int) *worker {
	return &worker{g: g, rank: rank, rng: rand.New(rand.NewPCG(g.Seed+1, uint64(rank)))}
}

// times has the duration of each phase of a step of a rank, µs.
type times struct {
	before int64 // the optimizer of the previous step, and a checkpoint
	phase  [5]int64
}

// untilCollective returns the time from the last release to the next collective.
func (t *times) untilCollective() int64 {
	return t.before + t.phase[0] + t.phase[1] + t.phase[2] + t.phase[3]
}

func (w *worker) step(step int) times {
	t := times{before: w.opt}
	for p, base := range largeBase {
		if step == 0 {
			base *= 4 // the step compiles
		}
		if p == 0 && w.rank == w.g.Slow {
			base += 1000 * w.g.Extra
		}
		t.phase[p] = max(int64(base*(1+largeJitter[p]*w.rng.NormFloat64())), 20)
	}
	if w.g.saves(step - 1) {
		t.before += largeSave
	}
	w.opt = t.phase[4]
	return t
}

func (g *large) saves(step int) bool { return g.Save > 0 && step >= 0 && (step+1)%g.Save == 0 }

func (g *large) rank(dir string, rank int) error {
	if g.Folder > 0 {
		dir = filepath.Join(dir, fmt.Sprintf("node%04d", rank/g.Folder))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	attempt := 0
	f, err := dftracer.Create(filepath.Join(dir, "rank{rank}.pfw.gz"), &dftracer.Options{
		Start:   time.UnixMicro(g.start),
		Process: dftracer.Process{PID: 100 + rank, Host: "node" + strconv.Itoa(rank/8), Rank: &rank, WorldSize: g.Ranks, Attempt: &attempt, SessionTag: "large", JobID: "4712"},
	})
	if err != nil {
		return err
	}
	w := g.worker(rank)
	off := int64(rank) * 137 // of its clock
	app, loop := int64(f.NextID()), int64(f.NextID())
	span := func(id uint64, tid int64, cat, name string, from, to, parent int64, level int, args ...dftracer.Arg) {
		f.Write(&dftracer.Event{ID: id, Name: name, Cat: cat, TID: tid, TS: from + off, Dur: to - from, Level: level, Parent: parent, Args: args})
	}
	begin := g.start + largeBegin
	span(0, 1, "comm", "comm.init", g.start+1000, g.start+120_000, app, 2)
	span(0, 1, "compute", "compute.init", g.start+130_000, g.start+300_000, app, 2)
	pg, size := dftracer.String("pg", "0"), dftracer.Int("group_size", int64(g.Ranks))
	group, eight := dftracer.String("pg", "dp"+strconv.Itoa(rank/8)), dftracer.Int("group_size", 8)
	release := begin
	for step := range g.Steps {
		t := w.step(step)
		at := dftracer.Int("step", int64(step))
		iter := int64(f.NextID())
		from := release + t.before
		edge := [5]int64{from}
		for p := range 4 {
			edge[p+1] = edge[p] + t.phase[p]
		}
		release = g.releases[step]
		span(0, 1, "dataloader", "fetch.iter", edge[0], edge[1], loop, 3)
		span(0, 1, "device", "transfer", edge[1], edge[2], iter, 4, at)
		span(0, 1, "compute", "forward", edge[2], edge[3], iter, 4, at)
		span(0, 1, "compute", "backward", edge[3], edge[4], iter, 4, at)
		g.layers(edge[2], edge[3], "forward", 1, func(name, cat string, from, to int64) {
			span(0, 1, cat, name, from, to, iter, 5, at, pg, size)
		})
		g.layers(edge[3], edge[4], "backward", 2, func(name, cat string, from, to int64) {
			span(0, 1, cat, name, from, to, iter, 5, at, pg, size)
		})
		for k := range int64(4) {
			bucket := edge[3] + (edge[4]-edge[3])*k/4
			span(0, 2, "comm", "all_reduce", bucket, bucket+(edge[4]-edge[3])/8, iter, 4, at, group, eight)
		}
		span(0, 1, "comm", "all_reduce", edge[4], release, iter, 4, at, pg, size)
		end := release + t.phase[4]
		span(0, 1, "compute", "step.zero_grad", release, release+10, iter, 4, at)
		span(0, 1, "compute", "step", release+10, end, iter, 4, at)
		span(uint64(iter), 1, "pipeline", "train.iteration", edge[1], end, loop, 3, at, dftracer.Int("tokens", 2048))
		if g.saves(step) {
			span(0, 1, "checkpoint", "capture", end, end+largeSave, loop, 3, dftracer.Int("current_iteration", int64(step+1)))
		}
	}
	end := release + w.opt
	span(uint64(loop), 1, "pipeline", "train", begin, end, app, 2, dftracer.Int("train_iterations_start", 0))
	span(uint64(app), 1, "ai_root", "ai_root", g.start, end+1000, 0, 1)
	return f.Close()
}

// layers divides a phase of a step: in each layer a gather, work of a block,
// and in backward a scatter. They take the same time on all ranks, and differ
// by their position.
func (g *large) layers(from, to int64, phase string, parts int64, span func(name, cat string, from, to int64)) {
	n := int64(g.Layers)
	for k := range n {
		at, each := from+(to-from)*k/n, (to-from)/n/(parts+2)
		span("all_gather", "comm", at, at+each/2+k%7)
		at += each
		span(phase+".block", "compute", at, at+each-k%11)
		if parts > 1 {
			at += each
			span("reduce_scatter", "comm", at, at+each/2+k%5)
		}
	}
}

// ProfileBase is the wall time, in nanoseconds, to which the times of a profile
// are relative.
const ProfileBase = int64(1775078550000000000)

// WriteProfile writes a profile of PyTorch with n operators, each launching a
// kernel, in steps of a thousand operators: 3 n events, about 900 bytes per
// operator. It ignores errors of w.
func WriteProfile(w io.Writer, n, rank int) {
	fmt.Fprintf(w, "{\n  \"schemaVersion\": 1,\n  \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": %d, \"world_size\": 2},\n  \"baseTimeNanoseconds\": %d,\n  \"traceEvents\": [\n", rank, ProfileBase)
	us := func(ns int64) string { return fmt.Sprintf("%d.%03d", ns/1000, ns%1000) }
	t := int64(4203669604595407)
	const perStep = 1000
	for i := range n {
		ts := t + int64(i)*50_000
		if i%perStep == 0 {
			fmt.Fprintf(w, "  {\n    \"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"ProfilerStep#%d\", \"pid\": 4711, \"tid\": 4711,\n    \"ts\": %s, \"dur\": %s,\n    \"args\": {\n      \"External id\": 1\n    }\n  },\n",
				i/perStep+3, us(ts-10_000), us(perStep*50_000-20_000))
		}
		fmt.Fprintf(w, "  {\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::addmm\", \"pid\": 4711, \"tid\": 4711,\n    \"ts\": %s, \"dur\": 28.125,\n    \"args\": {\n      \"External id\": %d,\"Sequence number\": %d, \"Fwd thread id\": 0, \"Input type\": [\"float\", \"float\", \"float\"], \"Input Dims\": [[128], [5, 128], [128, 128]], \"Ev Idx\": %d\n    }\n  },\n",
			us(ts), i, i, i)
		fmt.Fprintf(w, "  {\n    \"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 4711, \"tid\": 4711,\n    \"ts\": %s, \"dur\": 4.250,\n    \"args\": {\n      \"External id\": %d,\"cbid\": 211, \"correlation\": %d\n    }\n  },\n",
			us(ts+5_000), i, i+1)
		sep := ","
		if i == n-1 {
			sep = ""
		}
		fmt.Fprintf(w, "  {\n    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"void gemm<128, 64>(int)\", \"pid\": 0, \"tid\": 7,\n    \"ts\": %s, \"dur\": 20.001,\n    \"args\": {\n      \"External id\": %d,\"queued\": 0, \"device\": 0, \"context\": 1,\n      \"stream\": 7, \"correlation\": %d,\n      \"registers per thread\": 16, \"grid\": [24, 1, 1], \"block\": [128, 1, 1]\n    }\n  }%s\n",
			us(ts+12_000), i, i+1, sep)
	}
	_, _ = io.WriteString(w, "  ],\n  \"traceName\": \"/tmp/x.json\"\n}\n")
}
