package extsort

import "testing"

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
