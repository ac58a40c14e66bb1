package data

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Vocab is the number of different characters: the 128 of ASCII and [Unknown].
const Vocab = 129

// Unknown stands for every byte outside ASCII.
const Unknown = 128

// Encode turns text into characters of the vocabulary, in place.
func Encode(text []byte) {
	for i, c := range text {
		text[i] = min(c, Unknown)
	}
}

const (
	maxFile   = 256 << 10 // larger source files are generated tables
	pieceSize = 16 << 10  // a single text file is cut into pieces of this size
)

// Piece is a run of bytes of one file: a whole source file, or a part of a
// single large text.
type Piece struct {
	Path   string
	Offset int64
	Length int64
}

// Corpus is the text split by file, so that validation and test text is never
// used for training.
type Corpus struct {
	Root        string
	Train       []Piece
	Validation  []Piece
	Test        []Piece
	Fingerprint uint64 // of names, lengths and split: equal means the same batches
}

// Open lists the text below root, a directory with Go files or a single text
// file, and splits it: every tenth piece of an order shuffled with seed goes to
// validation, every tenth to the test. minLength is the length of the shortest
// usable piece in bytes.
//
// It records an OpenTelemetry span with the tracer provider of ctx, like a
// library that does not depend on the telemetry in use.
func Open(ctx context.Context, root string, seed uint64, minLength int64) (*Corpus, error) {
	ctx, span := trace.SpanFromContext(ctx).TracerProvider().Tracer("charlm/reader").Start(ctx, "reader.open")
	defer span.End()
	c, err := open(ctx, root, seed, minLength)
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
	return c, err
}

func open(ctx context.Context, root string, seed uint64, minLength int64) (*Corpus, error) {
	info, err := os.Stat(root)
	if err != nil {
		return nil, fmt.Errorf("data: %w: %w", ErrNoText, err)
	}
	var pieces []Piece
	if info.IsDir() {
		pieces, err = listDir(ctx, root, minLength)
	} else {
		pieces = cut(root, info.Size(), minLength)
	}
	if err != nil {
		return nil, fmt.Errorf("data: list %s: %w", root, err)
	}
	if len(pieces) < 3 {
		return nil, fmt.Errorf("data: %w: %s gives %d usable pieces of at least %d bytes, training, validation and test need one each; name a larger text with -text",
			ErrNoText, root, len(pieces), minLength)
	}
	rng := rand.New(rand.NewPCG(seed, 0x73706c6974))
	rng.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
	tenth := max(1, len(pieces)/10)
	c := &Corpus{Root: root, Validation: pieces[:tenth], Test: pieces[tenth : 2*tenth], Train: pieces[2*tenth:]}
	h := fnv.New64a()
	for _, p := range pieces {
		name, _ := filepath.Rel(root, p.Path)
		fmt.Fprintf(h, "%s %d %d\n", filepath.ToSlash(name), p.Offset, p.Length)
	}
	c.Fingerprint = h.Sum64()
	return c, nil
}

// Bytes returns the length of all pieces together.
func Bytes(pieces []Piece) int64 {
	var n int64
	for _, p := range pieces {
		n += p.Length
	}
	return n
}

// listDir selects the library's own code: no tests, test data, commands or
// vendored modules, and no files large enough to be a generated table.
func listDir(ctx context.Context, root string, minLength int64) ([]Piece, error) {
	var pieces []Piece
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != root && (name == "testdata" || name == "vendor" || name == "cmd" || strings.HasPrefix(name, ".")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || !isSource(name) {
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed since the directory was read
		}
		if err != nil {
			return err
		}
		if n := info.Size(); n >= minLength && n <= maxFile {
			pieces = append(pieces, Piece{Path: path, Length: n})
		}
		return nil
	})
	return pieces, err
}

// isSource excludes the generated lists of constants and system calls, such as
// zerrors_linux_amd64.go, which exist for every platform.
func isSource(name string) bool {
	return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") &&
		!strings.HasPrefix(name, "zerrors_") && !strings.HasPrefix(name, "zsys") && !strings.HasPrefix(name, "ztypes_")
}

// cut divides one file so that even a short one has enough pieces for the
// split.
func cut(path string, size, minLength int64) []Piece {
	length := max(minLength, min(pieceSize, size/20))
	if length < 1 {
		return nil
	}
	var pieces []Piece
	for at := int64(0); at+length <= size; at += length {
		pieces = append(pieces, Piece{Path: path, Offset: at, Length: length})
	}
	return pieces
}
