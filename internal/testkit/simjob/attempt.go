package simjob

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/trainspan/trainspan/dftracer"
)

// Attempt is one attempt of a data-parallel job of a few ranks, for the parts
// of a report besides the times of phases: attempts that continue each other,
// killed processes, missing files, checkpoints, tags. Its ranks leave each
// collective at the same time; a [Job] has other layouts and faults. The zero
// value of each field except Ranks and Steps is a healthy job.
type Attempt struct {
	Ranks, Steps int
	Number       int       // from 0
	First        int       // the first step
	Start        time.Time // of all ranks; zero is a fixed day
	Seed         uint64

	Scale   float64         // of all times; 0 is 1
	Slow    int             // the rank that Extra is added to
	Extra   [4]float64      // ms added to input, forward, backward and optimizer, from step SlowAt on
	SlowAt  int             //
	NoComm  bool            // no spans of collectives
	Device  bool            // the host launches, and events have the times of a device
	Save    int             // steps between checkpoints
	Async   bool            // written in the background
	Killed  bool            // the files are not closed; the last step has no end
	Skip    map[int]bool    // ranks without a file
	Plain   bool            // not compressed
	Tag     string          // of the session
	Weights map[int]float64 // tokens of a rank, 1 is normal; its forward and backward are proportional
}

// attemptBase are milliseconds of a step by phase: input, forward, backward,
// optimizer, and the transfer of the collective.
var attemptBase = [5]float64{3, 14, 26, 4, 6}

// Write writes a file for each rank and returns the end time of the attempt.
func (a Attempt) Write(dir string) (time.Time, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return time.Time{}, err
	}
	start := a.Start
	if start.IsZero() {
		start = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	}
	scale := a.Scale
	if scale == 0 {
		scale = 1
	}
	g := &attempt{Attempt: a, rng: rand.New(rand.NewPCG(a.Seed, uint64(a.Number))), scale: scale * 1000, start: start.UnixMicro()}
	if err := g.open(dir); err != nil {
		return start, err
	}
	g.train()
	return time.UnixMicro(g.release), g.close()
}

type attempt struct {
	Attempt
	rng     *rand.Rand
	scale   float64 // microseconds of a millisecond
	start   int64
	release int64
	ranks   []*attemptRank
}

type attemptRank struct {
	w    *dftracer.Writer
	path string
	n    int
	off  int64 // of its clock
	now  int64
	app  int64
	loop int64
	last int64 // start of its next data loading
}

func (g *attempt) open(dir string) error {
	ext := ".pfw.gz"
	if g.Plain {
		ext = ".pfw"
	}
	for n := range g.Ranks {
		r := &attemptRank{n: n, off: int64(n) * 137}
		g.ranks = append(g.ranks, r)
		if g.Skip[n] {
			continue
		}
		r.path = filepath.Join(dir, fmt.Sprintf("attempt%d-rank{rank}%s", g.Number, ext))
		number := g.Number
		w, err := dftracer.Create(r.path, &dftracer.Options{
			Start:   time.UnixMicro(g.start + r.off),
			Process: dftracer.Process{PID: 1000*(number+1) + n, Host: "node-" + string(rune('a'+n/4%26)) + strconv.Itoa(n/104), Rank: &n, WorldSize: g.Ranks, Attempt: &number, SessionTag: g.tag(), JobID: "4711"},
		})
		if err != nil {
			return err
		}
		r.path = w.Path()
		r.w, r.app, r.loop = w, int64(w.NextID()), int64(w.NextID())
	}
	return nil
}

func (g *attempt) tag() string {
	if g.Tag != "" {
		return g.Tag
	}
	return "made-up"
}

func (r *attemptRank) span(cat, name string, from, to, parent int64, level int, args ...dftracer.Arg) {
	if r.w != nil {
		r.w.Write(&dftracer.Event{Name: name, Cat: cat, TID: 1, TS: from + r.off, Dur: to - from, Level: level, Parent: parent, Args: args})
	}
}

// train runs the steps: all ranks leave each collective at the same time.
func (g *attempt) train() {
	begin := g.start + int64(400*g.scale)
	for _, r := range g.ranks {
		r.span("comm", "comm.init", g.start+1000, g.start+int64(120*g.scale), r.app, 2)
		r.span("compute", "compute.init", g.start+int64(130*g.scale), g.start+int64(300*g.scale), r.app, 2)
		if g.First > 0 {
			r.span("checkpoint", "restart", g.start+int64(310*g.scale), begin-1000, r.app, 2, dftracer.Int("current_iteration", int64(g.First)))
		}
		r.last = begin
	}
	g.release = begin
	for step := g.First; step < g.First+g.Steps; step++ {
		g.step(step, step-g.First)
		if g.Save > 0 && (step+1)%g.Save == 0 && !(g.Killed && step == g.First+g.Steps-1) {
			g.save(step)
		}
	}
	if g.Killed {
		return
	}
	for _, r := range g.ranks {
		if r.w == nil {
			continue
		}
		r.w.Write(&dftracer.Event{ID: uint64(r.loop), Name: "train", Cat: "pipeline", TID: 1, TS: begin + r.off, Dur: r.now - begin, Level: 2, Parent: r.app,
			Args: []dftracer.Arg{dftracer.Int("train_iterations_start", int64(g.First))}})
		r.w.Write(&dftracer.Event{ID: uint64(r.app), Name: "ai_root", Cat: "ai_root", TID: 1, TS: g.start + r.off, Dur: r.now - g.start + 1000, Level: 1})
		g.release = max(g.release, r.now+1000)
	}
}

func (g *attempt) step(step, done int) {
	weigh := func(n int) float64 {
		if w := g.Weights[n]; w != 0 {
			return w
		}
		return 1
	}
	type times struct{ input, iter, forward, backward int64 }
	all := make([]times, len(g.ranks))
	var arrive int64
	for i, r := range g.ranks {
		extra := [4]float64{}
		if i == g.Slow && step >= g.SlowAt {
			extra = g.Extra
		}
		long := func(p int, jitter float64) int64 {
			ms := attemptBase[p]
			if p == 1 || p == 2 {
				ms *= weigh(i)
			}
			if done == 0 {
				ms *= 4 // the step compiles
			}
			return int64((ms + extra[p]) * (1 + jitter*g.rng.NormFloat64()) * g.scale)
		}
		t := &all[i]
		t.input = r.last
		t.iter = t.input + max(long(0, 0.08), 10)
		t.forward = t.iter + max(long(1, 0.01), 10)
		t.backward = t.forward + max(long(2, 0.01), 10)
		arrive = max(arrive, t.backward)
		r.now = t.backward
	}
	g.release = arrive + int64(attemptBase[4]*(1+0.05*g.rng.NormFloat64())*g.scale)
	for i, r := range g.ranks {
		t := all[i]
		end := g.release + int64((attemptBase[3]*(1+0.02*g.rng.NormFloat64()))*g.scale)
		if i == g.Slow && step >= g.SlowAt {
			end += int64(g.Extra[3] * g.scale)
		}
		id := int64(0)
		if r.w != nil {
			id = int64(r.w.NextID())
		}
		at := dftracer.Int("step", int64(step))
		r.span("dataloader", "fetch.iter", t.input, t.iter, r.loop, 3)
		switch {
		case g.Device:
			r.launch("forward", t.iter, t.forward, id, at)
			r.launch("backward", t.forward, g.release, id, at)
			r.device("wait", t.forward+launchTime, t.backward, g.release)
		case g.NoComm:
			r.span("compute", "forward", t.iter, t.forward, id, 4, at)
			r.span("compute", "backward", t.forward, g.release, id, 4, at)
		default:
			r.span("compute", "forward", t.iter, t.forward, id, 4, at)
			r.span("compute", "backward", t.forward, t.backward, id, 4, at)
			r.span("comm", "all_reduce", t.backward, g.release, id, 4, at, dftracer.String("pg", "0"), dftracer.Int("group_size", int64(g.Ranks)))
		}
		r.now, r.last = end, end
		if g.Killed && done == g.Steps-1 {
			continue
		}
		if g.Device {
			r.launch("step", g.release, end, id, at)
		} else {
			r.span("compute", "step", g.release, end, id, 4, at)
		}
		if r.w != nil {
			r.w.Write(&dftracer.Event{ID: uint64(id), Name: "train.iteration", Cat: "pipeline", TID: 1, TS: t.iter + r.off, Dur: end - t.iter, Level: 3, Parent: r.loop,
				Args: []dftracer.Arg{at, dftracer.Int("tokens", int64(2048*weigh(i)))}})
		}
	}
}

// launchTime is how long the host takes to launch work of the device, in
// microseconds.
const launchTime = 200

// launch writes a phase of the host, and the device's part of it.
func (r *attemptRank) launch(name string, from, to, parent int64, at dftracer.Arg) {
	r.span("compute", name, from, from+launchTime, parent, 4, at)
	r.device(name, from+1, from+launchTime/2, to)
}

// device writes work of the device that the host launched at the time asked.
func (r *attemptRank) device(name string, asked, from, to int64) {
	if r.w != nil {
		r.w.Write(&dftracer.Event{Name: name, Cat: "device", TID: 1 << 30, TS: from + r.off, Dur: to - from, Level: 1, Parent: dftracer.NoParent,
			Args: []dftracer.Arg{dftracer.Int("background", 1), dftracer.Float("lag_us", float64(from-asked))}})
	}
}

func (g *attempt) save(step int) {
	for _, r := range g.ranks {
		if r.w == nil {
			continue
		}
		id := r.w.NextID()
		number := dftracer.Int("current_iteration", int64(step+1))
		end := r.now + int64(40*g.scale)
		name := "capture"
		if g.Async {
			name, end = "capture.async", r.now+int64(8*g.scale)
			r.span("checkpoint", "capture.finalize", end, end+int64(120*g.scale), r.app, 2, number, dftracer.Int("background", 1))
		}
		r.w.Write(&dftracer.Event{ID: id, Name: name, Cat: "checkpoint", TID: 1, TS: r.now + r.off, Dur: end - r.now, Level: 3, Parent: r.loop, Args: []dftracer.Arg{number}})
		r.w.Write(&dftracer.Event{Phase: dftracer.PhaseMetadata, Name: "CM", Cat: "dftracer", Args: []dftracer.Arg{
			dftracer.String("name", "save_checkpoint_success"), dftracer.String("value", strconv.FormatInt(end+r.off, 10)),
			dftracer.Uint("span", id), number, dftracer.Int("productive_train_iterations", int64(step+1)),
		}})
		r.now, r.last = end, end
	}
}

func (g *attempt) close() error {
	var failed error
	for _, r := range g.ranks {
		if r.w == nil {
			continue
		}
		if !g.Killed {
			failed = errors.Join(failed, r.w.Close())
			continue
		}
		// The file of a killed process has the records written before.
		err := r.w.FlushContext(context.Background())
		text, readErr := os.ReadFile(r.path)
		failed = errors.Join(failed, err, readErr, r.w.Close())
		if readErr == nil {
			failed = errors.Join(failed, os.WriteFile(r.path, text, 0o644))
		}
	}
	return failed
}
