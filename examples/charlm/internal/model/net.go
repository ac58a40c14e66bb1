package model

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Net is one copy of the network with its gradients and the activations of the
// last forward pass. A Net belongs to one goroutine at a time.
type Net[T Float] struct {
	cfg    Config
	params []T
	grads  []T

	embed, dEmbed []T
	layers        []linear[T]

	maxRows int
	rows    int     // rows of the last forward pass
	inputs  []uint8 // borrowed from the caller until the next forward pass
	targets []uint8
	acts    [][]T // acts[i] is the input of layer i; the last one holds the logits
	deltas  [][]T // deltas[i] is the gradient of acts[i]
}

// linear is one layer's window on the flat weights and gradients.
type linear[T Float] struct {
	in, out      int
	w, b, dw, db []T
}

// New makes a network with zero weights for batches of at most maxRows samples.
func New[T Float](cfg Config, maxRows int) (*Net[T], error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if maxRows < 1 {
		return nil, fmt.Errorf("model: batch of %d rows, want at least 1", maxRows)
	}
	n := &Net[T]{cfg: cfg, maxRows: maxRows}
	n.params = make([]T, cfg.NumParams())
	n.grads = make([]T, cfg.NumParams())
	at := 0
	take := func(size int) (p, g []T) {
		p, g = n.params[at:at+size:at+size], n.grads[at:at+size:at+size]
		at += size
		return p, g
	}
	n.embed, n.dEmbed = take(cfg.Vocab * cfg.Embed)
	for i := range cfg.Layers + 1 {
		l := linear[T]{}
		l.in, l.out = cfg.layer(i)
		l.w, l.dw = take(l.in * l.out)
		l.b, l.db = take(l.out)
		n.layers = append(n.layers, l)
		n.acts = append(n.acts, make([]T, maxRows*l.in))
		n.deltas = append(n.deltas, make([]T, maxRows*l.in))
	}
	n.acts = append(n.acts, make([]T, maxRows*cfg.Vocab))
	n.deltas = append(n.deltas, make([]T, maxRows*cfg.Vocab))
	return n, nil
}

// Init draws the weights from seed: normal, scaled by the number of inputs of
// each layer so that activations neither fade nor saturate; biases are zero.
// Equal seeds give equal weights.
func (n *Net[T]) Init(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0x6d6f64656c))
	fill := func(w []T, scale float64) {
		for i := range w {
			w[i] = T(rng.NormFloat64() * scale)
		}
	}
	fill(n.embed, 0.5)
	for i, l := range n.layers {
		scale := 1 / math.Sqrt(float64(l.in))
		if i == len(n.layers)-1 {
			scale *= 0.1 // start near the uniform guess
		}
		fill(l.w, scale)
		clear(l.b)
	}
}

// Params returns the flat slice of the weights itself, not a copy.
func (n *Net[T]) Params() []T { return n.params }

// Grads returns the flat slice of the gradients itself, in the order of Params.
func (n *Net[T]) Grads() []T { return n.grads }

// ZeroGrad sets all gradients to zero. Backward adds to them.
func (n *Net[T]) ZeroGrad() { clear(n.grads) }

// Forward predicts the next character of len(targets) samples and returns the
// sum of their cross entropies in nats. inputs holds Config.Context characters
// per sample; both slices must stay unchanged until Backward has run.
func (n *Net[T]) Forward(inputs, targets []uint8) (float64, error) {
	if err := n.run(inputs, len(targets)); err != nil {
		return 0, err
	}
	n.rows = 0 // until all targets are valid
	v := n.cfg.Vocab
	logits := n.acts[len(n.layers)]
	probs := n.deltas[len(n.layers)]
	var loss float64
	for r, target := range targets {
		if int(target) >= v {
			return 0, fmt.Errorf("model: target %d of row %d is outside the vocabulary of %d", target, r, v)
		}
		softmax(probs[r*v:(r+1)*v], logits[r*v:(r+1)*v], 1)
		loss -= math.Log(max(float64(probs[r*v+int(target)]), math.SmallestNonzeroFloat64))
	}
	n.rows, n.inputs, n.targets = len(targets), inputs, targets
	return loss, nil
}

// Backward adds the gradient of scale times the last Forward's summed loss to
// Grads. A mean over the batch is scale = 1/rows.
func (n *Net[T]) Backward(scale T) {
	rows, v, top := n.rows, n.cfg.Vocab, len(n.layers)
	// The gradient of cross entropy after softmax is the probabilities, less
	// one at the target.
	d := n.deltas[top][:rows*v]
	for r, target := range n.targets[:rows] {
		d[r*v+int(target)]--
	}
	for i := range d {
		d[i] *= scale
	}
	for i := top - 1; i >= 0; i-- {
		l := &n.layers[i]
		linearBackwardWeights(l.dw, l.db, n.deltas[i+1], n.acts[i], rows, l.in, l.out)
		linearBackwardInput(n.deltas[i], n.deltas[i+1], l.w, rows, l.in, l.out)
		if i > 0 {
			h, dh := n.acts[i][:rows*l.in], n.deltas[i][:rows*l.in]
			for j, y := range h {
				dh[j] *= 1 - y*y
			}
		}
	}
	e := n.cfg.Embed
	dx := n.deltas[0]
	for i, c := range n.inputs[:rows*n.cfg.Context] {
		axpy(n.dEmbed[int(c)*e:(int(c)+1)*e], dx[i*e:(i+1)*e], 1)
	}
	n.rows = 0 // the probabilities are used up: a second Backward adds nothing
}

// Predict writes the probabilities of the character after context to probs,
// which must have room for Config.Vocab values. A temperature below one sharpens
// them. It overwrites the activations of the last Forward.
func (n *Net[T]) Predict(probs []T, context []uint8, temperature float64) error {
	n.rows = 0
	if err := n.run(context, 1); err != nil {
		return err
	}
	softmax(probs[:n.cfg.Vocab], n.acts[len(n.layers)][:n.cfg.Vocab], temperature)
	return nil
}

// run computes the logits of rows samples.
func (n *Net[T]) run(inputs []uint8, rows int) error {
	if rows < 1 || rows > n.maxRows {
		return fmt.Errorf("model: batch of %d rows, want 1 to %d", rows, n.maxRows)
	}
	if len(inputs) != rows*n.cfg.Context {
		return fmt.Errorf("model: %d input characters for %d rows of %d", len(inputs), rows, n.cfg.Context)
	}
	e := n.cfg.Embed
	x := n.acts[0]
	for i, c := range inputs {
		if int(c) >= n.cfg.Vocab {
			return fmt.Errorf("model: input %d at %d is outside the vocabulary of %d", c, i, n.cfg.Vocab)
		}
		copy(x[i*e:(i+1)*e], n.embed[int(c)*e:(int(c)+1)*e])
	}
	for i := range n.layers {
		l := &n.layers[i]
		y := n.acts[i+1][:rows*l.out]
		linearForward(y, n.acts[i], l.w, l.b, rows, l.in, l.out)
		if i < len(n.layers)-1 {
			for j, z := range y {
				y[j] = T(math.Tanh(float64(z)))
			}
		}
	}
	return nil
}

func softmax[T Float](dst, logits []T, temperature float64) {
	top := logits[0]
	for _, z := range logits {
		top = max(top, z)
	}
	var sum float64
	for i, z := range logits {
		p := math.Exp(float64(z-top) / temperature)
		dst[i] = T(p)
		sum += p
	}
	inv := T(1 / sum)
	for i := range dst {
		dst[i] *= inv
	}
}
