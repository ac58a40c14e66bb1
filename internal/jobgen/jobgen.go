// Package jobgen writes the traces of made-up training jobs, for tests: several
// ranks that train in step, with faults whose truth is known.
package jobgen

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

// Attempt is one attempt of a job. The zero value of each field but Ranks and
// Steps is a healthy job.
type Attempt struct {
	Ranks, Steps int
	Number       int       // from 0
	First        int       // the first step
	Start        time.Time // of all ranks; zero is a fixed day
	Seed         uint64

	Scale   float64         // of all times; 0 is 1
	Slow    int             // the rank that Extra is added to
	Extra   [4]float64      // ms, to input, forward, backward and optimizer, from step SlowAt on
	SlowAt  int             //
	NoComm  bool            // no spans of collectives
	Device  bool            // the host launches, and events say what a device did
	Save    int             // a checkpoint after each so many steps
	Async   bool            // written behind the training
	Killed  bool            // the files are not closed; the last step lacks its end
	Skip    map[int]bool    // ranks without a file
	Plain   bool            // not compressed
	Tag     string          // of the session
	Weights map[int]float64 // tokens of a rank, 1 is usual; its forward and backward follow
}

// base are milliseconds of a step by phase: input, forward, backward,
// optimizer, and the transfer of the collective.
var base = [5]float64{3, 14, 26, 4, 6}

// Write writes a file for each rank and returns when the attempt ended.
func Write(dir string, a *Attempt) (time.Time, error) {
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
	g := &generator{a: a, rng: rand.New(rand.NewPCG(a.Seed, uint64(a.Number))), scale: scale * 1000, start: start.UnixMicro()}
	if err := g.open(dir); err != nil {
		return start, err
	}
	g.train()
	return time.UnixMicro(g.release), g.close()
}

type generator struct {
	a       *Attempt
	rng     *rand.Rand
	scale   float64 // microseconds of a millisecond
	start   int64
	release int64
	ranks   []*rank
}

type rank struct {
	w    *dftracer.Writer
	path string
	n    int
	off  int64 // of its clock
	now  int64
	app  int64
	loop int64
	last int64 // when its data loading may begin
}

func (g *generator) open(dir string) error {
	ext := ".pfw.gz"
	if g.a.Plain {
		ext = ".pfw"
	}
	for n := range g.a.Ranks {
		r := &rank{n: n, off: int64(n) * 137}
		g.ranks = append(g.ranks, r)
		if g.a.Skip[n] {
			continue
		}
		r.path = filepath.Join(dir, fmt.Sprintf("attempt%d-rank{rank}%s", g.a.Number, ext))
		number := g.a.Number
		w, err := dftracer.Create(r.path, &dftracer.Options{
			Start:   time.UnixMicro(g.start + r.off),
			Process: dftracer.Process{PID: 1000*(number+1) + n, Host: "node-" + string(rune('a'+n/4%26)) + strconv.Itoa(n/104), Rank: &n, WorldSize: g.a.Ranks, Attempt: &number, SessionTag: g.tag(), JobID: "4711"},
		})
		if err != nil {
			return err
		}
		r.path = w.Path()
		r.w, r.app, r.loop = w, int64(w.NextID()), int64(w.NextID())
	}
	return nil
}

func (g *generator) tag() string {
	if g.a.Tag != "" {
		return g.a.Tag
	}
	return "made-up"
}

func (r *rank) span(cat, name string, from, to, parent int64, level int, args ...dftracer.Arg) {
	if r.w != nil {
		r.w.Write(&dftracer.Event{Name: name, Cat: cat, TID: 1, TS: from + r.off, Dur: to - from, Level: level, Parent: parent, Args: args})
	}
}

// train goes through the steps: all ranks leave each collective together.
func (g *generator) train() {
	a := g.a
	begin := g.start + int64(400*g.scale)
	for _, r := range g.ranks {
		r.span("comm", "comm.init", g.start+1000, g.start+int64(120*g.scale), r.app, 2)
		r.span("compute", "compute.init", g.start+int64(130*g.scale), g.start+int64(300*g.scale), r.app, 2)
		if a.First > 0 {
			r.span("checkpoint", "restart", g.start+int64(310*g.scale), begin-1000, r.app, 2, dftracer.Int("current_iteration", int64(a.First)))
		}
		r.last = begin
	}
	g.release = begin
	for step := a.First; step < a.First+a.Steps; step++ {
		g.step(step, step-a.First)
		if a.Save > 0 && (step+1)%a.Save == 0 && !(a.Killed && step == a.First+a.Steps-1) {
			g.save(step)
		}
	}
	if a.Killed {
		return
	}
	for _, r := range g.ranks {
		if r.w == nil {
			continue
		}
		r.w.Write(&dftracer.Event{ID: uint64(r.loop), Name: "train", Cat: "pipeline", TID: 1, TS: begin + r.off, Dur: r.now - begin, Level: 2, Parent: r.app,
			Args: []dftracer.Arg{dftracer.Int("train_iterations_start", int64(a.First))}})
		r.w.Write(&dftracer.Event{ID: uint64(r.app), Name: "ai_root", Cat: "ai_root", TID: 1, TS: g.start + r.off, Dur: r.now - g.start + 1000, Level: 1})
		g.release = max(g.release, r.now+1000)
	}
}

func (g *generator) step(step, done int) {
	a := g.a
	weigh := func(n int) float64 {
		if w := a.Weights[n]; w != 0 {
			return w
		}
		return 1
	}
	type times struct{ input, iter, forward, backward int64 }
	all := make([]times, len(g.ranks))
	var arrive int64
	for i, r := range g.ranks {
		extra := [4]float64{}
		if i == a.Slow && step >= a.SlowAt {
			extra = a.Extra
		}
		long := func(p int, jitter float64) int64 {
			ms := base[p]
			if p == 1 || p == 2 {
				ms *= weigh(i)
			}
			if done == 0 {
				ms *= 4 // compiles
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
	g.release = arrive + int64(base[4]*(1+0.05*g.rng.NormFloat64())*g.scale)
	for i, r := range g.ranks {
		t := all[i]
		end := g.release + int64((base[3]*(1+0.02*g.rng.NormFloat64()))*g.scale)
		if i == a.Slow && step >= a.SlowAt {
			end += int64(a.Extra[3] * g.scale)
		}
		id := int64(0)
		if r.w != nil {
			id = int64(r.w.NextID())
		}
		at := dftracer.Int("step", int64(step))
		r.span("dataloader", "fetch.iter", t.input, t.iter, r.loop, 3)
		switch {
		case a.Device:
			r.launch("forward", t.iter, t.forward, id, at)
			r.launch("backward", t.forward, g.release, id, at)
			r.device("wait", t.forward+launch, t.backward, g.release)
		case a.NoComm:
			r.span("compute", "forward", t.iter, t.forward, id, 4, at)
			r.span("compute", "backward", t.forward, g.release, id, 4, at)
		default:
			r.span("compute", "forward", t.iter, t.forward, id, 4, at)
			r.span("compute", "backward", t.forward, t.backward, id, 4, at)
			r.span("comm", "all_reduce", t.backward, g.release, id, 4, at, dftracer.String("pg", "0"), dftracer.Int("group_size", int64(a.Ranks)))
		}
		r.now, r.last = end, end
		if a.Killed && done == a.Steps-1 {
			continue
		}
		if a.Device {
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

// launch is how long the host takes to launch what the device does, in
// microseconds.
const launch = 200

// launch writes a phase of the host, and what the device did of it.
func (r *rank) launch(name string, from, to, parent int64, at dftracer.Arg) {
	r.span("compute", name, from, from+launch, parent, 4, at)
	r.device(name, from+1, from+launch/2, to)
}

// device writes what the device did of what the host asked for at a time.
func (r *rank) device(name string, asked, from, to int64) {
	if r.w != nil {
		r.w.Write(&dftracer.Event{Name: name, Cat: "device", TID: 1 << 30, TS: from + r.off, Dur: to - from, Level: 1, Parent: dftracer.NoParent,
			Args: []dftracer.Arg{dftracer.Int("background", 1), dftracer.Float("lag_us", float64(from-asked))}})
	}
}

func (g *generator) save(step int) {
	for _, r := range g.ranks {
		if r.w == nil {
			continue
		}
		id := r.w.NextID()
		number := dftracer.Int("current_iteration", int64(step+1))
		end := r.now + int64(40*g.scale)
		name := "capture"
		if g.a.Async {
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

func (g *generator) close() error {
	var failed error
	for _, r := range g.ranks {
		if r.w == nil {
			continue
		}
		if !g.a.Killed {
			failed = errors.Join(failed, r.w.Close())
			continue
		}
		// The file of a process that was killed is what was written before.
		err := r.w.FlushContext(context.Background())
		text, readErr := os.ReadFile(r.path)
		failed = errors.Join(failed, err, readErr, r.w.Close())
		if readErr == nil {
			failed = errors.Join(failed, os.WriteFile(r.path, text, 0o644))
		}
	}
	return failed
}
