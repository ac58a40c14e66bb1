package main

import (
	"math/rand/v2"
	"strings"

	"github.com/trainspan/trainspan/examples/charlm/internal/data"
)

// sample lets the model continue prompt by n characters.
func (t *trainer) sample(prompt string, n int, temperature float64) (string, error) {
	net := t.replicas[0].net
	rng := rand.New(rand.NewPCG(t.opts.seed, uint64(t.pos.Step)))
	window := []byte(strings.Repeat("\n", t.opts.context) + prompt)
	data.Encode(window)
	probs := make([]float32, data.Vocab)
	var out strings.Builder
	out.WriteString(prompt)
	for range n {
		if err := net.Predict(probs, window[len(window)-t.opts.context:], temperature); err != nil {
			return "", err
		}
		c := draw(probs, rng.Float32())
		window = append(window, c)
		if c >= data.Unknown || c < ' ' && c != '\n' && c != '\t' {
			c = '?'
		}
		out.WriteByte(c)
	}
	return out.String(), nil
}

// draw returns the character at which the running sum of probs exceeds u.
func draw(probs []float32, u float32) uint8 {
	best := 0
	for i, p := range probs {
		if u -= p; u < 0 {
			return uint8(i)
		}
		if p > probs[best] {
			best = i
		}
	}
	return uint8(best) // because of rounding, the sum stayed below u
}
