package main

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"strings"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/trainspan/trainspan/integrations/iofs"
)

// vocabulary is the number of characters: ASCII.
const vocabulary = 128

// maxText limits the bytes of text.
const maxText = 1 << 20

// readText reads the Go files of a directory, or generates text if it has none.
func readText(files *iofs.Files, dir string) ([]byte, error) {
	fsys := files.FS(os.DirFS(dir), dir)
	var text []byte
	err := fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || len(text) > maxText {
			return err
		}
		data, err := fs.ReadFile(fsys, path)
		text = append(text, data...)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for i := 0; len(text) < 1<<16; i++ {
		text = fmt.Appendf(text, "func f%d(x int) int { return %d*x + %d }\n", i, i%7, i%13)
	}
	for i, c := range text {
		text[i] = min(c, vocabulary-1)
	}
	return text, nil
}

// texts is a dataset of windows of a text, each with the character that follows
// it.
type texts struct {
	name    string
	text    []byte
	o       *options
	batches int // in a pass; 0 is no end
	seed    uint64
}

// newTexts splits a text: its last tenth is for validation.
func newTexts(text []byte, o *options) (learn, valid *texts) {
	cut := len(text) * 9 / 10
	return &texts{name: "text", text: text[:cut], o: o, seed: 1}, &texts{name: "validation", text: text[cut:], o: o, batches: 5, seed: 2}
}

// Name implements train.Dataset.
func (t *texts) Name() string { return t.name }

// Iter implements train.Dataset.
func (t *texts) Iter() iter.Seq2[train.Batch, error] {
	return func(yield func(train.Batch, error) bool) {
		rng := rand.New(rand.NewPCG(t.seed, 0))
		for n := 0; t.batches == 0 || n < t.batches; n++ {
			chars := make([]int32, 0, t.o.batch*t.o.context)
			next := make([]int32, 0, t.o.batch)
			for range t.o.batch {
				at := rng.IntN(len(t.text) - t.o.context)
				for _, c := range t.text[at : at+t.o.context] {
					chars = append(chars, int32(c))
				}
				next = append(next, int32(t.text[at+t.o.context]))
			}
			b := train.Batch{
				Inputs: []*tensors.Tensor{tensors.FromFlatDataAndDimensions(chars, t.o.batch, t.o.context)},
				Labels: []*tensors.Tensor{tensors.FromFlatDataAndDimensions(next, t.o.batch, 1)},
			}
			if !yield(b, nil) {
				return
			}
		}
	}
}
