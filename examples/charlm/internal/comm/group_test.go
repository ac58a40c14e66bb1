package comm_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/trainspan/trainspan/examples/charlm/internal/comm"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAllReduceSum(t *testing.T) {
	for _, size := range []int{1, 2, 3, 5} {
		for _, n := range []int{0, 1, 2, 7, 1000} {
			t.Run(fmt.Sprintf("ranks=%d/values=%d", size, n), func(t *testing.T) {
				g, err := comm.NewGroup(size)
				if err != nil {
					t.Fatal(err)
				}
				bufs := make([][]float32, size)
				for r := range bufs {
					bufs[r] = make([]float32, n)
				}
				const rounds = 20
				var wg sync.WaitGroup
				for r := range size {
					wg.Go(func() {
						for round := range rounds {
							for i := range bufs[r] {
								bufs[r][i] = float32(r + i + round)
							}
							if err := g.AllReduceSum(r, bufs[r]); err != nil {
								t.Error(err)
							}
							for i, got := range bufs[r] {
								if want := float32(size*(i+round) + size*(size-1)/2); got != want {
									t.Errorf("round %d: rank %d value %d is %g, want %g", round, r, i, got, want)
									return
								}
							}
						}
					})
				}
				wg.Wait()
			})
		}
	}
}

func TestAllReduceRefusesUnequalBuffers(t *testing.T) {
	g, err := comm.NewGroup(2)
	if err != nil {
		t.Fatal(err)
	}
	bufs := [][]float32{{1, 2, 3}, {4, 5}}
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for r := range 2 {
		wg.Go(func() { errs[r] = g.AllReduceSum(r, bufs[r]) })
	}
	wg.Wait()
	for r, err := range errs {
		if err == nil {
			t.Errorf("rank %d got no error for an unequal buffer", r)
		}
	}
	if bufs[0][0] != 1 || bufs[1][0] != 4 {
		t.Error("the refused AllReduce changed a buffer")
	}
}

func TestBadGroups(t *testing.T) {
	if _, err := comm.NewGroup(0); err == nil {
		t.Error("got a group without ranks, want an error")
	}
	g, err := comm.NewGroup(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.AllReduceSum(1, nil); err == nil {
		t.Error("rank 1 of 1 was accepted")
	}
	g.Barrier()
}
