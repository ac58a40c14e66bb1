package data_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/examples/charlm/internal/data"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// writeTree makes n source files in which every character identifies its file
// and, with its neighbors, its position.
func writeTree(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	for i := range n {
		var b strings.Builder
		for j := range 40 {
			fmt.Fprintf(&b, "f%03d:%03d;", i, j)
		}
		write(t, filepath.Join(dir, fmt.Sprintf("pkg%d", i%3), fmt.Sprintf("file%d.go", i)), b.String())
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, root string) *data.Corpus {
	t.Helper()
	c, err := data.Open(t.Context(), root, 1, 20)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newLoader(t *testing.T, pieces []data.Piece, workers int) *data.Loader {
	t.Helper()
	l, err := data.NewLoader(data.LoaderConfig{Pieces: pieces, Rows: 16, Context: 9, Workers: workers, Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func collect(t *testing.T, l *data.Loader, epoch, first, count int) []data.Batch {
	t.Helper()
	it := l.Epoch(t.Context(), epoch, first, count)
	defer it.Close()
	var out []data.Batch
	for b, err := range it.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

func TestSplitIsByFileAndRepeatable(t *testing.T) {
	dir := writeTree(t, 40)
	for _, skipped := range []string{"x_test.go", "zsysnum_plan9.go", "notes.txt", "testdata/a.go", "vendor/b.go", "cmd/c.go", ".git/d.go"} {
		write(t, filepath.Join(dir, skipped), strings.Repeat("never read ", 20))
	}
	write(t, filepath.Join(dir, "short.go"), "package x")
	write(t, filepath.Join(dir, "tables.go"), strings.Repeat("0x00, ", 100_000))
	c := open(t, dir)
	seen := map[string]int{}
	for _, part := range [][]data.Piece{c.Train, c.Validation, c.Test} {
		for _, p := range part {
			seen[p.Path]++
		}
	}
	if len(seen) != 40 || len(c.Train) != 32 || len(c.Validation) != 4 || len(c.Test) != 4 {
		t.Errorf("%d files: %d train, %d validation, %d test; want 40: 32, 4, 4", len(seen), len(c.Train), len(c.Validation), len(c.Test))
	}
	for path, times := range seen {
		if times != 1 || !strings.HasPrefix(filepath.Base(path), "file") {
			t.Errorf("%s is used %d times, want once", path, times)
		}
	}
	if again := open(t, dir); !reflect.DeepEqual(c, again) {
		t.Error("opening again gave another split, want the same")
	}
	other, err := data.Open(t.Context(), dir, 2, 20)
	if err != nil {
		t.Fatal(err)
	}
	if reflect.DeepEqual(c.Train, other.Train) || c.Fingerprint == other.Fingerprint {
		t.Error("another seed gave the same split")
	}
}

func TestSingleFileIsCutIntoPieces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "poem.txt")
	write(t, path, strings.Repeat("all work and no play ", 100))
	c := open(t, path)
	covered := map[int64]bool{}
	for _, part := range [][]data.Piece{c.Train, c.Validation, c.Test} {
		for _, p := range part {
			if p.Path != path || covered[p.Offset] {
				t.Errorf("piece %+v, want each part of %s once", p, path)
			}
			covered[p.Offset] = true
		}
	}
	if len(covered) != 20 || len(c.Validation) != 2 {
		t.Errorf("%d pieces, %d of them validation; want 20, 2", len(covered), len(c.Validation))
	}
	collect(t, newLoader(t, c.Train, 2), 0, 0, 3)
}

func TestOpenErrors(t *testing.T) {
	empty := t.TempDir()
	tiny := filepath.Join(t.TempDir(), "tiny.txt")
	write(t, tiny, "only this")
	for _, root := range []string{filepath.Join(empty, "missing"), empty, tiny} {
		if _, err := data.Open(t.Context(), root, 1, 20); !errors.Is(err, data.ErrNoText) {
			t.Errorf("%s: error %v, want ErrNoText", root, err)
		}
	}
}

// TestSamplesAreRealText checks that every sample, with its target, is in its
// file.
func TestSamplesAreRealText(t *testing.T) {
	c := open(t, writeTree(t, 30))
	var all []string
	for _, p := range c.Train {
		text, err := os.ReadFile(p.Path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
	joined := strings.Join(all, "\x00")
	for _, b := range collect(t, newLoader(t, c.Train, 2), 0, 0, 5) {
		if b.Rows != 16 || len(b.Inputs) != 16*9 || len(b.Targets) != 16 || b.Bytes != 8*40*9 {
			t.Fatalf("batch %d: %d rows, %d inputs, %d targets, %d bytes; want 16, %d, 16, %d", b.Index, b.Rows, len(b.Inputs), len(b.Targets), b.Bytes, 16*9, 8*40*9)
		}
		for r := range b.Rows {
			sample := string(b.Inputs[r*9:(r+1)*9]) + string(b.Targets[r:r+1])
			if !strings.Contains(joined, sample) {
				t.Fatalf("batch %d row %d: %q is not in a training file", b.Index, r, sample)
			}
		}
	}
}

func TestBatchesDependOnlyOnSeedEpochAndIndex(t *testing.T) {
	c := open(t, writeTree(t, 30)) // 24 to train: a new round every third batch
	want := collect(t, newLoader(t, c.Train, 1), 3, 0, 10)
	if len(want) != 10 {
		t.Fatalf("%d batches, want 10", len(want))
	}
	if got := collect(t, newLoader(t, c.Train, 4), 3, 0, 10); !reflect.DeepEqual(got, want) {
		t.Error("four workers gave other batches than one, want the same")
	}
	if got := collect(t, newLoader(t, c.Train, 3), 3, 7, 3); !reflect.DeepEqual(got, want[7:]) {
		t.Error("starting in the middle gave other batches")
	}
	if got := collect(t, newLoader(t, c.Train, 1), 4, 0, 10); reflect.DeepEqual(got[0].Inputs, want[0].Inputs) {
		t.Error("the next epoch began with the same batch, want another")
	}
}

// TestOnePassReadsEveryFile counts the bytes read of each file by its
// characters.
func TestOnePassReadsEveryFile(t *testing.T) {
	c := open(t, writeTree(t, 30))
	l := newLoader(t, c.Train, 2)
	if l.PassLength() != 3 {
		t.Fatalf("a pass has %d batches over %d files, want 3", l.PassLength(), len(c.Train))
	}
	for _, p := range c.Train {
		if err := os.Remove(p.Path); err != nil {
			t.Fatal(err)
		}
		it := l.Epoch(t.Context(), 0, 0, 3)
		var failed error
		for _, err := range it.All(t.Context()) {
			failed = err
		}
		it.Close()
		if !errors.Is(failed, os.ErrNotExist) || !strings.Contains(failed.Error(), p.Path) {
			t.Fatalf("%s was not missed: %v", p.Path, failed)
		}
		write(t, p.Path, strings.Repeat("x", int(p.Length)))
	}
}

func TestErrorsStayAndWorkersEnd(t *testing.T) {
	c := open(t, writeTree(t, 30))
	l := newLoader(t, c.Train, 3)
	if err := os.Truncate(c.Train[0].Path, 3); err != nil {
		t.Fatal(err)
	}
	it := l.Epoch(t.Context(), 0, 0, 1000)
	var err error
	for err == nil {
		_, err = it.Next(t.Context())
	}
	if _, again := it.Next(t.Context()); !strings.Contains(err.Error(), c.Train[0].Path) || again != err {
		t.Errorf("error %v, then %v; want one that names the file, both times", err, again)
	}
	it.Close()
	it.Close()
	(*data.Iterator)(nil).Close()
}

func TestNextHonoursItsContext(t *testing.T) {
	c := open(t, writeTree(t, 30))
	it := newLoader(t, c.Train, 2).Epoch(t.Context(), 0, 0, 4)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := it.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want Canceled", err)
	}
	for i := range 4 { // nothing was lost
		if b, err := it.Next(t.Context()); err != nil || b.Index != i {
			t.Fatalf("batch %d, error %v, want batch %d", b.Index, err, i)
		}
	}
	if _, err := it.Next(t.Context()); err != io.EOF {
		t.Errorf("error %v after the last batch, want io.EOF", err)
	}
	it.Close()
}

func TestCancelledEpochEnds(t *testing.T) {
	c := open(t, writeTree(t, 30))
	ctx, cancel := context.WithCancel(t.Context())
	it := newLoader(t, c.Train, 2).Epoch(ctx, 0, 0, 1_000_000)
	if _, err := it.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	cancel()
	for { // delivers the ready batches, then ends
		_, err := it.Next(t.Context())
		if errors.Is(err, context.Canceled) {
			break
		}
		if err != nil {
			t.Fatalf("error %v, want Canceled: a cut epoch is not a finished one", err)
		}
	}
	it.Close()
}

func TestEncode(t *testing.T) {
	text := []byte("aé\x7f\x80")
	data.Encode(text)
	if want := []byte{'a', data.Unknown, data.Unknown, 0x7f, data.Unknown}; !reflect.DeepEqual(text, want) {
		t.Errorf("encoded %v, want %v", text, want)
	}
}

func TestNewLoaderErrors(t *testing.T) {
	p := []data.Piece{{Path: "x", Length: 10}}
	for _, cfg := range []data.LoaderConfig{
		{Rows: 1, Context: 1},
		{Pieces: p, Rows: 0, Context: 1},
		{Pieces: p, Rows: 1, Context: 0},
		{Pieces: p, Rows: 1, Context: 10},
		{Pieces: p, Rows: 1, Context: 1, Workers: -1},
	} {
		if _, err := data.NewLoader(cfg); err == nil {
			t.Errorf("NewLoader(%+v): no error, want one", cfg)
		}
	}
}

func TestFindText(t *testing.T) {
	dir, err := data.FindText(t.Context())
	if err != nil {
		t.Skipf("no Go sources on this machine: %v", err)
	}
	c := open(t, dir)
	if len(c.Train) < 1000 || data.Bytes(c.Train) < 1<<20 {
		t.Errorf("the standard library has %d files, %d bytes; want 1000, 1 MiB or more", len(c.Train), data.Bytes(c.Train))
	}
	t.Logf("%d training files, %d bytes", len(c.Train), data.Bytes(c.Train))
}
