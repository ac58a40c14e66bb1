package account_test

import (
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/testkit/growth"
	"github.com/trainspan/trainspan/spans"
)

// fill adds steps to a builder.
func fill(b *account.Builder, steps int) {
	for i := range int64(steps) {
		b.Span(&job.Span{ID: uint64(i + 1), Name: spans.TrainingIteration, Start: 1e18 + i*1000, End: 1e18 + i*1000 + 900, Step: i})
	}
}

// A file may have very many processes with few records each.
func TestProcessWithOneSpan(t *testing.T) {
	growth.Work(t, 200, 100, func() { // 1 MiB and 20 kB
		for range 64 {
			fill(account.NewBuilder(account.Process{Start: job.NoEnd}), 1)
		}
	})
	growth.Allocated(t, 1000, func(n int) {
		for range n {
			fill(account.NewBuilder(account.Process{Start: job.NoEnd}), 1)
		}
	})
	growth.Allocated(t, 2000, func(n int) { fill(account.NewBuilder(account.Process{Start: job.NoEnd}), n) })
}
