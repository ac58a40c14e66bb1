package account

import "testing"

// TestOpenIDs checks that each open span is found by its id until it is closed, for few and
// many open spans and in any order, and that many open spans are not kept in a list.
func TestOpenIDs(t *testing.T) {
	for _, n := range []int32{1, fewOpen, fewOpen + 1, 10 * fewOpen} {
		for name, at := range map[string]func(i int32) int32{"first in, first out": func(i int32) int32 { return i }, "last in, first out": func(i int32) int32 { return n - 1 - i }} {
			var o openIDs
			for slot := range n {
				o.open(slot, uint64(slot)+100)
			}
			if len(o.list) > fewOpen || n > fewOpen && len(o.list) > 0 {
				t.Errorf("%d spans are open, %d of them in the list; want at most %d there, and none when more are open", n, len(o.list), fewOpen)
			}
			for i := range n {
				slot := at(i)
				if got := o.find(uint64(slot) + 100); got != slot {
					t.Errorf("%s of %d: find(%d) = %d, want %d", name, n, slot+100, got, slot)
				}
				o.close(slot)
				if got := o.find(uint64(slot) + 100); got != none {
					t.Errorf("%s of %d: find(%d) = %d after it was closed, want none", name, n, slot+100, got)
				}
			}
		}
	}
}
