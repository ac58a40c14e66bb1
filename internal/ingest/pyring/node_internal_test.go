package pyring

import (
	"fmt"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/growth"
)

// updated sets n keys, one by one, on a node with 40 nodes below it, and
// reports whether some were left out.
func updated(n int) (root *node, full bool) {
	root = &node{epoch: -1, step: -1}
	for range 40 {
		root.below = append(root.below, &node{above: root, epoch: -1, step: -1})
	}
	for i := range n {
		full = !root.update(-1, int64(i), []dftracer.Arg{dftracer.Int(fmt.Sprint("key", i), 1)}) || full
	}
	return root, full
}

func TestGrowthOfUpdates(t *testing.T) {
	growth.Allocated(t, 2000, func(n int) { updated(n) })
}

func BenchmarkGrowthUpdates(b *testing.B) {
	growth.Bench(b, 2000, func(n int) { updated(n) })
}

// Arguments above the bound are left out, existing ones are still set, and
// nodes that were switched off keep their arguments.
func TestManyArgumentsOfNodes(t *testing.T) {
	if _, full := updated(maxNodeArgs); full {
		t.Error("arguments within the limit were dropped")
	}
	root, full := updated(1000)
	root.below[0].off = true
	again := !root.update(-1, -1, []dftracer.Arg{dftracer.Int("key5", -5), dftracer.Int("more", 1)})
	if !full || !again {
		t.Errorf("full %v, again %v; want true for both", full, again)
	}
	for i, d := range append(root.below[:2:2], root) {
		want := int64(-5)
		if i == 0 {
			want = 1
		}
		if len(d.args) != maxNodeArgs || d.args[5].Int64() != want || d.step != 999 {
			t.Errorf("node %d: %d arguments, key5 %d, step %d; want %d, %d, 999", i, len(d.args), d.args[5].Int64(), d.step, maxNodeArgs, want)
		}
	}
}
