package simjob

import (
	"fmt"
	"strconv"
)

// Layout is the distribution of the work over the ranks.
type Layout string

// Layouts.
const (
	DP       Layout = "dp"       // one all-reduce after backward
	Accum    Layout = "accum"    // the same with four micro-batches
	TPDP     Layout = "tpdp"     // tensor-parallel groups of up to 4, synchronized in each layer
	PP       Layout = "pp"       // a pipeline, 1F1B
	FSDP     Layout = "fsdp"     // gathers and scatters in each layer
	MoE      Layout = "moe"      // all-to-all in each layer
	Buckets  Layout = "buckets"  // gradients reduced during backward
	DPLoss   Layout = "dploss"   // dp, and an all-reduce of the loss at the end
	Prefetch Layout = "prefetch" // dp, with a queue after the loader
	GPU      Layout = "gpu"      // hosts launch, devices work: DistributedDataParallel
	GPUTP    Layout = "gputp"    // the same with tensor-parallel pairs
)

// Layouts lists all layouts.
var Layouts = []Layout{DP, Accum, TPDP, PP, FSDP, MoE, Buckets, DPLoss, Prefetch, GPU, GPUTP}

const (
	layers  = 4
	micros  = 4
	hostTID = 1
	commTID = 2
	devTID  = 1 << 30
)

// usual are the milliseconds of a phase in a step.
var usual = map[string]float64{Input: 5, Transfer: 1.5, Forward: 68, Backward: 106, Optimizer: 8, Checkpoint: 60, Host: 2.5, Launch: 60}

// program writes the program of one lane.
type program struct {
	j      *Job
	l      *lane
	rank   int
	step   int
	pieces map[string]int // of the step, by phase
	met    map[string]int // by group, since the start
}

func (p *program) add(o op) { p.l.ops = append(p.l.ops, o) }

func (p *program) next(step int) { p.step, p.pieces = step, map[string]int{} }

func (p *program) work(phase string, share float64) {
	n := p.pieces[phase]
	p.pieces[phase]++
	o := op{kind: work, dur: p.j.took(p.rank, p.step, phase, n, usual[phase], share)}
	o.stuck = p.j.stops(p.rank, p.step, phase, "")
	p.add(o)
}

func (p *program) span(cat, name string, numbered bool, do func(), args ...arg) {
	p.spanOf(key{}, cat, name, numbered, do, args...)
}

func (p *program) spanOf(launch key, cat, name string, numbered bool, do func(), args ...arg) {
	m := &mark{cat: cat, name: name, step: -1, args: args}
	if numbered {
		m.step = p.step
	}
	p.add(op{kind: begin, span: m, key: launch})
	do()
	p.add(op{kind: end})
}

// collective adds a collective of a group; what is the name of its span, if
// any.
func (p *program) collective(what, group string, size int, ms float64) {
	n := p.met[group]
	p.met[group]++
	id := key{what: group, a: n, b: int(p.l.thread)}
	o := op{kind: meet, key: id, n: size, dur: p.j.sent(group, p.step, n, ms), stuck: p.j.stops(p.rank, p.step, "", group)}
	if what == "" || p.j.Unrecorded {
		p.add(o)
		return
	}
	cat, numbered := "comm", p.l.thread >= devTID
	if numbered {
		cat = "device"
	}
	p.span(cat, what, numbered, func() { p.add(o) }, arg{"pg", group}, arg{"group_size", size})
}

func (p *program) signal(k key, ms float64) {
	d := int64(0)
	if ms > 0 {
		d = p.j.sent(k.what, p.step, k.c, ms)
	}
	p.add(op{kind: signal, key: k, dur: d})
}

func (p *program) await(k key, idle bool) { p.add(op{kind: await, key: k, idle: idle}) }

// iteration adds the parts that all layouts have around forward and backward.
func (p *program) iteration(body, update func()) {
	j := p.j
	p.span("dataloader", "fetch.iter", true, func() {
		if j.Queue > 0 {
			p.await(key{"ready", p.rank, p.step, 0}, false)
			p.add(op{kind: work, dur: 50})
			p.signal(key{"taken", p.rank, p.step, 0}, 0)
		} else {
			p.work(Input, 1)
		}
	})
	var args []arg
	for _, f := range j.Faults {
		if f.What == Tokens && f.Recorded {
			args = append(args, arg{"tokens", int(2048 * j.tokens(p.rank, max(p.step, 1)))})
			break
		}
	}
	p.span("pipeline", "train.iteration", true, func() {
		body()
		update()
	}, args...)
	if j.Save > 0 && (p.step+1)%j.Save == 0 {
		p.span("checkpoint", "capture", false, func() { p.work(Checkpoint, 1) }, arg{"current_iteration", p.step + 1})
	}
	p.work(Host, 1)
	p.add(op{kind: end}) // of the step
}

// host adds the program of a rank's training thread.
func (p *program) host() {
	for s := range p.j.Steps {
		p.next(s)
		if p.j.onGPU() {
			p.launches()
			continue
		}
		p.iteration(func() {
			p.span("device", "transfer", true, func() { p.work(Transfer, 1) })
			p.model()
		}, func() { p.span("compute", "step", true, func() { p.work(Optimizer, 1) }) })
	}
}

// model adds forward, backward and the collectives of a step.
func (p *program) model() {
	j, n := p.j, p.j.Ranks
	whole := func(phase string) {
		p.span("compute", phase, true, func() { p.work(phase, 1) })
	}
	layered := func(phase string, each func()) {
		p.span("compute", phase, true, func() {
			for range layers {
				p.work(phase, 1.0/layers)
				each()
			}
		})
	}
	switch j.Layout {
	case Accum:
		for range micros {
			p.span("compute", Forward, true, func() { p.work(Forward, 1.0/micros) })
			p.span("compute", Backward, true, func() { p.work(Backward, 1.0/micros) })
		}
		p.collective("all_reduce", "world", n, 14)
	case TPDP:
		size := j.inner()
		tp, dp := "tp"+strconv.Itoa(p.rank/size), "dp"+strconv.Itoa(p.rank%size)
		both := func() { p.collective("all_reduce", tp, size, 0.6) }
		layered(Forward, both)
		layered(Backward, both)
		if n > size {
			p.collective("reduce_scatter", dp, n/size, 12)
		}
		p.collective("all_reduce", "world", n, 0.4)
	case PP:
		p.pipeline()
	case FSDP:
		layered(Forward, func() { p.collective("all_gather", "world", n, 1.5) })
		p.span("compute", Backward, true, func() {
			for range layers {
				p.collective("all_gather", "world", n, 1.5)
				p.work(Backward, 1.0/layers)
				p.collective("reduce_scatter", "world", n, 2)
			}
		})
	case MoE:
		both := func() { p.collective("all_to_all", "world", n, 1.2) }
		layered(Forward, both)
		layered(Backward, both)
		p.collective("all_reduce", "world", n, 8)
	case Buckets:
		whole(Forward)
		launch := 0
		layered(Backward, func() {
			p.signal(key{"launch", p.rank, p.step, launch}, 0)
			launch++
		})
		done := key{"reduced", p.rank, p.step, 0}
		if j.JoinSpan {
			p.span("comm", "wait", false, func() { p.await(done, true) })
		} else {
			p.await(done, true)
		}
	default:
		whole(Forward)
		whole(Backward)
		p.collective("all_reduce", "world", n, 16)
	}
	if j.Layout == DPLoss || j.Layout == Buckets && j.Loss {
		p.collective("all_reduce", "world", n, 0.4)
	}
}

// pipeline adds one step of 1F1B: rank r is in stage r % stages.
func (p *program) pipeline() {
	j := p.j
	stages := j.inner()
	stage, replica := p.rank%stages, p.rank/stages
	message := func(what string, to, i int) key {
		return key{what, replica*1000 + to, p.step, i}
	}
	comm := func(name string, do func()) {
		if j.Unrecorded {
			do()
		} else {
			p.span("comm", name, false, do)
		}
	}
	forward := func(i int) {
		if stage > 0 {
			comm("recv", func() { p.await(message("activation", stage, i), true) })
		}
		p.span("compute", Forward, true, func() { p.work(Forward, 1.0/micros) })
		if stage < stages-1 {
			comm("send", func() { p.add(op{kind: work, dur: 50}); p.signal(message("activation", stage+1, i), 0.1) })
		}
	}
	backward := func(i int) {
		if stage < stages-1 {
			comm("recv", func() { p.await(message("gradient", stage, i), true) })
		}
		p.span("compute", Backward, true, func() { p.work(Backward, 1.0/micros) })
		if stage > 0 {
			comm("send", func() { p.add(op{kind: work, dur: 50}); p.signal(message("gradient", stage-1, i), 0.1) })
		}
	}
	warm := min(stages-1-stage, micros)
	for i := range warm {
		forward(i)
	}
	for i := range micros - warm {
		forward(warm + i)
		backward(i)
	}
	for i := range warm {
		backward(micros - warm + i)
	}
	// The following spans are recorded even if the messages are not.
	was := j.Unrecorded
	j.Unrecorded = false
	if j.Ranks > stages {
		p.collective("all_reduce", "dp"+strconv.Itoa(stage), j.Ranks/stages, 10)
	}
	p.collective("all_reduce", "world", j.Ranks, 0.4)
	j.Unrecorded = was
}

// reducer adds the program of the lane that reduces gradient buckets one after
// the other.
func (p *program) reducer() {
	for s := range p.j.Steps {
		p.next(s)
		for i := range layers {
			p.await(key{"launch", p.rank, s, i}, false)
			p.collective("all_reduce", "world", p.j.Ranks, 3)
		}
		p.signal(key{"reduced", p.rank, s, 0}, 0)
	}
}

// loader adds the program of a worker that fills a queue.
func (p *program) loader() {
	for s := range p.j.Steps {
		p.next(s)
		if s >= p.j.Queue {
			p.await(key{"taken", p.rank, s - p.j.Queue, 0}, false)
		}
		p.add(op{kind: work, dur: p.j.took(p.rank, s, Input, 0, usual[Input]*p.j.fetch(), 1)})
		p.signal(key{"ready", p.rank, s, 0}, 0)
	}
}

// launches adds a step of the host of a GPU.
func (p *program) launches() {
	j, s := p.j, p.step
	asked := func(what string) { p.signal(key{what, p.rank, s, 0}, 0) }
	phase := func(name string, share float64, before, after func()) {
		asked(name)
		p.span("compute", name, true, func() {
			before()
			for i := range layers {
				p.work(Launch, share/layers)
				p.signal(key{name + " layer", p.rank, s, i}, 0)
			}
			after()
		})
	}
	p.iteration(func() {
		phase(Forward, 0.4, func() { // a launch waits while the queue of launches is full
			if s >= j.Ahead {
				p.await(key{"done", p.rank, s - j.Ahead, 0}, false)
			}
		}, func() {})
		phase(Backward, 0.45, func() {}, func() {
			asked("wait")
			p.span("comm", "wait", true, func() { p.add(op{kind: work, dur: 200}) })
		})
	}, func() {
		asked("step")
		p.span("compute", "step", true, func() { p.work(Launch, 0.15) })
		asked("launched")
		if j.Item > 0 && (s+1)%j.Item == 0 {
			p.await(key{"done", p.rank, s, 0}, false)
		}
	})
}

// device adds the program of the stream of a GPU.
func (p *program) device() {
	j := p.j
	on := func(name string, do func()) {
		k := key{name, p.rank, p.step, 0}
		p.await(k, false)
		p.spanOf(k, "device", name, true, do, arg{"background", 1})
	}
	layered := func(phase string) {
		for i := range layers {
			p.await(key{phase + " layer", p.rank, p.step, i}, false)
			p.work(phase, 1.0/layers)
			if j.Layout == GPUTP {
				p.collective("all_reduce", "tp"+strconv.Itoa(p.rank/2), 2, 1.2)
			}
		}
	}
	for s := range j.Steps {
		p.next(s)
		on(Forward, func() { layered(Forward) })
		on(Backward, func() {
			layered(Backward)
			on("wait", func() { p.collective("", "world", j.Ranks, 8) })
		})
		on("step", func() {
			p.await(key{"launched", p.rank, s, 0}, false)
			p.work(Optimizer, 1)
		})
		p.signal(key{"done", p.rank, s, 0}, 0)
		p.add(op{kind: end}) // of the step
	}
}

// engine returns an engine with the lanes of the job.
func (j *Job) engine() *engine {
	e := &engine{}
	for r := range j.Ranks {
		start := func(thread int64, write func(*program)) {
			l := &lane{rank: r, thread: thread}
			p := &program{j: j, l: l, rank: r, met: map[string]int{}}
			write(p)
			e.lanes = append(e.lanes, l)
		}
		start(hostTID, (*program).host)
		if j.Layout == Buckets {
			start(commTID, (*program).reducer)
		}
		if j.Queue > 0 {
			start(0, (*program).loader)
		}
		if j.onGPU() {
			start(devTID, (*program).device)
		}
	}
	return e
}

func (j *Job) onGPU() bool { return j.Layout == GPU || j.Layout == GPUTP }

// inner returns the size of a tensor-parallel group or the number of stages.
func (j *Job) inner() int {
	for _, n := range []int{4, 2} {
		if j.Ranks%n == 0 && (j.Ranks > n || n == 2 || j.Layout == PP) {
			return n
		}
	}
	panic(fmt.Sprintf("trainsim: %d ranks cannot be of layout %s", j.Ranks, j.Layout))
}
