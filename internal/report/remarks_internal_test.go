package report

import (
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/account"
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
