package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/trainspan/trainspan/ai"
	"github.com/trainspan/trainspan/integrations/iofs"
)

// filesPerBatch is how many pieces are read from disk for every batch: enough
// to mix several authors into it.
const filesPerBatch = 8

// Batch holds Rows samples: Context characters each, and the character that
// follows them.
type Batch struct {
	Index   int // within the epoch
	Rows    int
	Inputs  []uint8 // Rows*Context characters
	Targets []uint8 // Rows characters
	Bytes   int64   // read from disk for it
}

// LoaderConfig describes a loader.
type LoaderConfig struct {
	Pieces  []Piece
	Rows    int // samples per batch
	Context int // characters per sample
	Workers int // goroutines that read ahead; zero means one
	Seed    uint64
	Files   *iofs.Files // records the reads; nil records nothing
}

// Loader makes batches from pieces of text. The content of a batch depends only
// on the seed, the epoch and the batch's index, not on the number of workers
// nor on the step at which a run was resumed. A Loader is safe for concurrent
// use.
type Loader struct {
	cfg LoaderConfig
}

// NewLoader checks cfg and returns a loader. It starts no goroutine.
func NewLoader(cfg LoaderConfig) (*Loader, error) {
	if cfg.Rows < 1 || cfg.Context < 1 || cfg.Workers < 0 {
		return nil, fmt.Errorf("data: loader with %d rows, context %d, %d workers", cfg.Rows, cfg.Context, cfg.Workers)
	}
	if len(cfg.Pieces) == 0 {
		return nil, fmt.Errorf("data: loader: %w", ErrNoText)
	}
	for _, p := range cfg.Pieces {
		if p.Length <= int64(cfg.Context) {
			return nil, fmt.Errorf("data: %s has %d bytes, a sample needs %d", p.Path, p.Length, cfg.Context+1)
		}
	}
	cfg.Workers = max(1, cfg.Workers)
	return &Loader{cfg: cfg}, nil
}

// PassLength returns the number of batches that read every piece once.
func (l *Loader) PassLength() int {
	return (len(l.cfg.Pieces) + filesPerBatch - 1) / filesPerBatch
}

// job is one batch to make; its answer has a separate channel, which keeps the
// batches in order whatever the order in which the workers finish.
type job struct {
	epoch, index int
	pieces       []Piece
	answer       chan answer
}

type answer struct {
	batch Batch
	err   error
}

// plan assigns pieces to successive batches. Each round over all pieces has a
// new order.
type plan struct {
	cfg          *LoaderConfig
	epoch, index int
	round        int
	order        []int
}

func (p *plan) next() []Piece {
	n := len(p.cfg.Pieces)
	pieces := make([]Piece, filesPerBatch)
	for i := range pieces {
		at := p.index*filesPerBatch + i
		if round := at / n; p.order == nil || round != p.round {
			p.round = round
			p.order = rand.New(rand.NewPCG(p.cfg.Seed, mix(uint64(p.epoch), uint64(round)))).Perm(n)
		}
		pieces[i] = p.cfg.Pieces[p.order[at%n]]
	}
	p.index++
	return pieces
}

// mix combines two counters into one stream number of a generator.
func mix(a, b uint64) uint64 {
	x := a*0x9e3779b97f4a7c15 + b + 1
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	return x ^ x>>27
}

// read makes the batch of one job from disk.
func (l *Loader) read(ctx context.Context, j job) (Batch, error) {
	cfg := &l.cfg
	texts := make([][]byte, len(j.pieces))
	var starts int64 // possible starts of samples, in all texts
	b := Batch{Index: j.index, Rows: cfg.Rows}
	for i, p := range j.pieces {
		if err := ctx.Err(); err != nil {
			return Batch{}, err
		}
		text, err := l.readItem(ctx, p)
		if err != nil {
			return Batch{}, err
		}
		texts[i] = text
		b.Bytes += p.Length
		starts += p.Length - int64(cfg.Context)
	}
	b.Inputs = make([]uint8, 0, cfg.Rows*cfg.Context)
	b.Targets = make([]uint8, 0, cfg.Rows)
	rng := rand.New(rand.NewPCG(^cfg.Seed, mix(uint64(j.epoch), uint64(j.index))))
	for range cfg.Rows {
		at := rng.Int64N(starts)
		for _, text := range texts {
			here := int64(len(text) - cfg.Context)
			if at < here {
				end := int(at) + cfg.Context
				b.Inputs = append(b.Inputs, text[at:end]...)
				b.Targets = append(b.Targets, text[end])
				break
			}
			at -= here
		}
	}
	return b, nil
}

// readItem reads and encodes one piece. It runs on a worker's goroutine; its
// spans nest below the epoch of ctx.
func (l *Loader) readItem(ctx context.Context, p Piece) (text []byte, err error) {
	ctx, item := ai.Data.Item.StartContext(ctx)
	defer item.EndErr(&err)
	if text, err = readPiece(l.cfg.Files.With(ctx), p); err != nil {
		return nil, err
	}
	defer ai.Data.Preprocess.Start(ctx).End()
	Encode(text)
	return text, nil
}

func readPiece(files *iofs.Files, p Piece) ([]byte, error) {
	f, err := files.Open(p.Path)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	defer f.Close()
	text := make([]byte, p.Length)
	if _, err := f.ReadAt(text, p.Offset); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the file has become shorter")
		}
		return nil, fmt.Errorf("data: read %s: %w", p.Path, err)
	}
	return text, nil
}
