// Package model is a small character-level language model in plain Go: a
// character embedding, one or more tanh layers, softmax cross entropy, a
// hand-written backward pass and the Adam optimizer.
//
// All weights of a [Net] lie in one flat slice, and so do its gradients. That
// makes an all-reduce, an optimizer step and a checkpoint each one pass over
// one slice.
package model

import (
	"errors"
	"fmt"
)

// Config is the shape of a network. Two networks with equal configs have
// weights of the same length in the same order.
type Config struct {
	Vocab   int `json:"vocab"`   // number of different characters
	Context int `json:"context"` // characters the model sees before it predicts the next one
	Embed   int `json:"embed"`   // numbers per embedded character
	Hidden  int `json:"hidden"`  // width of each hidden layer
	Layers  int `json:"layers"`  // number of hidden layers, at least one
}

// maxParams prevents a damaged or absurd config from allocating all memory.
const maxParams = 1 << 28

// Validate names every field that is out of range.
func (c Config) Validate() error {
	var errs []error
	check := func(name string, v, most int) {
		if v < 1 || v > most {
			errs = append(errs, fmt.Errorf("model: %s is %d, want 1 to %d", name, v, most))
		}
	}
	check("vocab", c.Vocab, 256)
	check("context", c.Context, 4096)
	check("embed", c.Embed, 4096)
	check("hidden", c.Hidden, 1<<14)
	check("layers", c.Layers, 64)
	if len(errs) == 0 && c.NumParams() > maxParams {
		errs = append(errs, fmt.Errorf("model: %d weights, want at most %d", c.NumParams(), maxParams))
	}
	return errors.Join(errs...)
}

// NumParams returns the number of weights, the embedding table included.
func (c Config) NumParams() int {
	n := c.Vocab * c.Embed
	for i := range c.Layers + 1 {
		in, out := c.layer(i)
		n += in*out + out
	}
	return n
}

// ForwardFLOPsPerSample counts the floating point operations of one prediction.
//
// A linear layer with in inputs and out outputs multiplies and adds in*out
// times, which is 2*in*out operations. Embedding rows are copied, not
// computed; the activations and the softmax are left out, as is the custom,
// because they grow with the width and not with its square.
func (c Config) ForwardFLOPsPerSample() int64 {
	var n int64
	for i := range c.Layers + 1 {
		in, out := c.layer(i)
		n += 2 * int64(in) * int64(out)
	}
	return n
}

// FLOPsPerSample counts the operations of training on one sample: forward plus
// backward.
//
// The backward pass does two products of the forward pass's size in every
// layer: dW = dY^T X for the weights and dX = dY W for the layer below. The
// first layer's dX is needed as well, since it is the gradient of the embedding.
// So training costs three times the forward pass:
//
//	6 * (context*embed*hidden + (layers-1)*hidden^2 + hidden*vocab)
func (c Config) FLOPsPerSample() int64 { return 3 * c.ForwardFLOPsPerSample() }

// layer returns the sizes of linear layer i; the last one makes the logits.
func (c Config) layer(i int) (in, out int) {
	in, out = c.Hidden, c.Hidden
	if i == 0 {
		in = c.Context * c.Embed
	}
	if i == c.Layers {
		out = c.Vocab
	}
	return in, out
}
