package report

import (
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/straggler/fromjob"
	"github.com/trainspan/trainspan/internal/job"
)

// TestFlagPlaces checks the words for the ranks and attempts of flags.
func TestFlagPlaces(t *testing.T) {
	for want, list := range map[string][]account.Flag{
		"rank 3":                         {{Rank: 3}},
		"rank 0, attempt 1":              {{Attempt: 1}},
		"ranks 0, 1, attempt 2":          {{Rank: 1, Attempt: 2}, {Rank: 0, Attempt: 2}},
		"ranks 0, 1, 2 attempts":         {{Rank: 1, Attempt: 2}, {Rank: 0, Attempt: 1}},
		"rank 0, attempt 1, 2 times":     {{Attempt: 1}, {Attempt: 1}},
		"ranks 0, 2, attempt 1, 5 times": {{Attempt: 1, Count: 3}, {Rank: 2, Attempt: 1}},
	} {
		if got := flagPlaces(list); got != want {
			t.Errorf("flagPlaces(%v) = %q, want %q", list, got, want)
		}
	}
}

// TestLongIterations checks that long iterations of the host are remarked, except if steps run on
// devices: the host then waits for the steps of several iterations in one of them.
func TestLongIterations(t *testing.T) {
	led := &account.Report{Flags: []account.Flag{{Kind: account.LongIteration, Attempt: 1}}}
	for device, want := range map[bool][]string{false: {"a step took more than ten times the usual time (rank 0, attempt 1)"}, true: nil} {
		j := &Job{Job: &job.Job{}, Attempts: []fromjob.Attempt{{Device: device}}}
		if got := j.quality(led).Remarks; !slices.Equal(got, want) {
			t.Errorf("steps on devices %v: remarks %q, want %q", device, got, want)
		}
	}
}
