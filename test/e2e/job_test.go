package e2e

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/trainspan/trainspan/callbacks"
)

// network is a small neural network that learns: one hidden layer, squared
// error, plain gradient descent.
type network struct {
	in, hidden, batch  int
	w1, w2, g1, g2     []float32
	x, y, h, out, back []float32
	random             *rand.Rand
}

func newNetwork(in, hidden, batch int) *network {
	n := &network{in: in, hidden: hidden, batch: batch, random: rand.New(rand.NewPCG(1, 2))}
	n.w1, n.g1 = make([]float32, in*hidden), make([]float32, in*hidden)
	n.w2, n.g2 = make([]float32, hidden), make([]float32, hidden)
	n.x, n.y = make([]float32, batch*in), make([]float32, batch)
	n.h, n.out, n.back = make([]float32, batch*hidden), make([]float32, batch), make([]float32, hidden)
	for _, w := range [][]float32{n.w1, n.w2} {
		for i := range w {
			w[i] = float32(n.random.NormFloat64() * 0.1)
		}
	}
	return n
}

// load makes a batch of samples of a function.
func (n *network) load() {
	for b := range n.batch {
		var sum float64
		for i := range n.in {
			v := n.random.Float64()*2 - 1
			n.x[b*n.in+i] = float32(v)
			sum += v * float64(i%3-1)
		}
		n.y[b] = float32(math.Tanh(sum))
	}
}

func (n *network) forward() (loss float64) {
	for b := range n.batch {
		x, h := n.x[b*n.in:][:n.in], n.h[b*n.hidden:][:n.hidden]
		var out float32
		for j := range h {
			var sum float32
			for i, w := range n.w1[j*n.in:][:n.in] {
				sum += w * x[i]
			}
			h[j] = max(0, sum)
			out += h[j] * n.w2[j]
		}
		n.out[b] = out
		loss += float64(out-n.y[b]) * float64(out-n.y[b])
	}
	return loss / float64(n.batch)
}

func (n *network) zeroGrad() {
	clear(n.g1)
	clear(n.g2)
}

func (n *network) backward() {
	for b := range n.batch {
		x, h := n.x[b*n.in:][:n.in], n.h[b*n.hidden:][:n.hidden]
		d := 2 * (n.out[b] - n.y[b]) / float32(n.batch)
		for j := range h {
			n.g2[j] += d * h[j]
			if h[j] <= 0 {
				continue
			}
			e := d * n.w2[j]
			for i, v := range x {
				n.g1[j*n.in+i] += e * v
			}
		}
	}
}

func (n *network) update() {
	for i, g := range n.g1 {
		n.w1[i] -= 0.01 * g
	}
	for i, g := range n.g2 {
		n.w2[i] -= 0.01 * g
	}
}

// loop trains with callbacks and measures each of them.
type loop struct {
	net   *network
	cb    *callbacks.Callbacks
	watch *stopwatch // nil: no measurement
}

// step runs one training iteration and returns its loss.
func (l *loop) step(ctx context.Context) (loss float64) {
	l.watch.around(func() { l.cb.OnTrainingSingleIterationStart(ctx) })
	l.watch.around(func() { l.cb.OnDataLoadingStart(ctx) })
	l.net.load()
	l.watch.around(func() { l.cb.OnDataLoadingEnd(ctx) })
	l.watch.around(func() { l.cb.OnModelForwardStart(ctx) })
	loss = l.net.forward()
	l.watch.around(func() { l.cb.OnModelForwardEnd(ctx) })
	l.watch.around(func() { l.cb.OnZeroGradStart(ctx) })
	l.net.zeroGrad()
	l.watch.around(func() { l.cb.OnZeroGradEnd(ctx) })
	l.watch.around(func() { l.cb.OnModelBackwardStart(ctx) })
	l.net.backward()
	l.watch.around(func() { l.cb.OnModelBackwardEnd(ctx) })
	l.watch.around(func() { l.cb.OnOptimizerUpdateStart(ctx) })
	l.net.update()
	l.watch.around(func() { l.cb.OnOptimizerUpdateEnd(ctx) })
	l.watch.around(func() {
		l.cb.OnTrainingSingleIterationEnd(ctx, callbacks.IterationEnd{Loss: callbacks.Some(loss)})
	})
	return loss
}

// spansPerStep is the number of spans in a step.
const spansPerStep = 6

// stopwatch measures single callbacks, by wall time and by the CPU time of the
// thread: on a busy machine wall time includes the time of other programs.
type stopwatch struct {
	calls           int
	worst, worstCPU time.Duration
	worstOwn        time.Duration // of those without preemption
	total, totalCPU time.Duration
	outside         time.Duration // time of the measurement itself
	instead         time.Duration // time to busy-wait in place of a callback
}

func (w *stopwatch) around(callback func()) {
	if w == nil {
		callback()
		return
	}
	first := time.Now()
	taken, cpu, start := timesTaken(), threadTime(), time.Now()
	if w.instead > 0 {
		for time.Since(start) < w.instead {
		}
	} else {
		callback()
	}
	d := time.Since(start)
	cpu = threadTime() - cpu
	w.calls++
	w.total += d
	w.totalCPU += cpu
	w.worst = max(w.worst, d)
	w.worstCPU = max(w.worstCPU, cpu)
	if timesTaken() == taken {
		w.worstOwn = max(w.worstOwn, d)
	}
	w.outside += time.Since(first) - d
}

// mean returns the mean time of a callback.
func (w *stopwatch) mean() time.Duration {
	return w.total / time.Duration(max(1, w.calls))
}
