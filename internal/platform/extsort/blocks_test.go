package extsort

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestBlocks checks that blocks come back as they were put, from memory and from the file, and
// that the file has no name.
func TestBlocks(t *testing.T) {
	for _, limit := range []int64{0, 1000, 1 << 20} {
		dir := t.TempDir()
		b := NewBlocks(limit, dir)
		var of [8][]Block
		var all sync.WaitGroup
		for g := range of {
			all.Go(func() {
				for i := range 50 {
					of[g] = append(of[g], b.Put(fmt.Append(nil, strings.Repeat("x", i), g, i)))
				}
			})
		}
		all.Wait()
		inMemory := 0
		var buf []byte
		for g := range of {
			for i := range of[g] {
				if of[g][i].from == nil {
					inMemory += of[g][i].Size()
				}
				if got, want := of[g][i].Read(&buf), fmt.Append(nil, strings.Repeat("x", i), g, i); !bytes.Equal(got, want) || of[g][i].Size() != len(want) {
					t.Fatalf("limit %d: block %d of %d: got %q of %d bytes, want %q", limit, i, g, got, of[g][i].Size(), want)
				}
			}
		}
		if int64(inMemory) > limit || b.Err() != nil {
			t.Errorf("limit %d: %d bytes in memory, error %v; want at most the limit, nil", limit, inMemory, b.Err())
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("limit %d: %v in the folder, want none", limit, left)
		}
	}
}

// TestBlocksInMemory checks that the zero pointer needs no file.
func TestBlocksInMemory(t *testing.T) {
	var b *Blocks
	data := []byte("abc")
	block := b.Put(data)
	data[0] = 'x'
	if got := string(block.Read(nil)); got != "abc" || b.Err() != nil {
		t.Errorf("block is %q, error %v; want a copy of abc", got, b.Err())
	}
}

// TestBlocksNotWritten checks that a block that cannot be written is in memory, and that the
// error says so.
func TestBlocksNotWritten(t *testing.T) {
	b := NewBlocks(0, filepath.Join(t.TempDir(), "missing"))
	block := b.Put([]byte("abc"))
	if got := string(block.Read(nil)); got != "abc" || b.Err() == nil || !strings.Contains(b.Err().Error(), "missing") {
		t.Errorf(`block is %q, error %v; want abc and "missing"`, got, b.Err())
	}
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no /dev/full:", err)
	}
	b = NewBlocks(0, "")
	b.file = full
	block = b.Put([]byte("abc"))
	if got := string(block.Read(nil)); got != "abc" || b.Err() == nil || !strings.Contains(b.Err().Error(), "TMPDIR") {
		t.Errorf("full disk: got %q, error %v; want one that names TMPDIR", got, b.Err())
	}
}

// TestBlocksLost checks that a block of which the file system lost bytes is an error, not other
// bytes.
func TestBlocksLost(t *testing.T) {
	for name, lose := range map[string]func(f *os.File) error{
		"cut":     func(f *os.File) error { return f.Truncate(2) },
		"changed": func(f *os.File) error { _, err := f.WriteAt([]byte{0}, 1); return err },
	} {
		b := NewBlocks(0, t.TempDir())
		block := b.Put([]byte("abc"))
		if err := lose(b.file); err != nil {
			t.Fatal(err)
		}
		var buf []byte
		if got := block.Read(&buf); got != nil || b.Err() == nil {
			t.Errorf("%s: Read() = %q, error %v; want nil and an error", name, got, b.Err())
		}
	}
}
