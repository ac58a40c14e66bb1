package extsort

import (
	"errors"
	"io"
	"testing"
)

// TestSorterFullPlaces checks that a sorter spills before the number of a chunk has
// more bits than a place has for it.
func TestSorterFullPlaces(t *testing.T) {
	s := New(Plain(func(v *int64) Key { return Key{First: *v} }), 1<<30, t.TempDir())
	for v := range int64(3) {
		if err := s.Add(&v); err != nil {
			t.Fatal(err)
		}
		if v == 1 {
			s.list = append(s.list, make([][]byte, maxChunks-len(s.list))...)
			s.next = maxChunks
		}
	}
	it := s.Iter()
	for want := range int64(3) {
		if v := it.Next(); v == nil || *v != want {
			t.Fatalf("row %d is %v, want the same number; error %v", want, v, it.Err())
		}
	}
	if s.Spilled() == 0 {
		t.Error("nothing was spilled, want the first two rows")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSorterLostRows checks that a file that is too short is an error, at any byte.
func TestSorterLostRows(t *testing.T) {
	s := New(Plain(func(v *int64) Key { return Key{First: *v} }), 0, t.TempDir())
	for v := range int64(100) {
		if err := s.Add(&v); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	for size := s.store.size - 1; size > s.store.size-30; size-- {
		if err := s.store.file.Truncate(size); err != nil {
			t.Fatal(err)
		}
		it, rows := s.Iter(), 0
		for it.Next() != nil {
			rows++
		}
		if rows == 100 || !errors.Is(it.Err(), io.ErrUnexpectedEOF) {
			t.Errorf("file of %d bytes: %d rows, error %v; want fewer than 100, unexpected EOF", size, rows, it.Err())
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
