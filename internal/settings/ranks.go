package settings

import (
	"cmp"
	"errors"
	"slices"

	"github.com/trainspan/trainspan/config"
)

// Ranks returns what [config.DetectRanks] finds for what r leaves open. Where one of
// rank, local rank and world size is given, all three count as given.
func Ranks(r config.Ranks, lookup func(name string) (string, bool)) (config.Ranks, error) {
	found, err := config.DetectRanks(lookup)
	if r.Rank.IsSet() || r.LocalRank.IsSet() || r.WorldSize.IsSet() {
		found.Rank, found.LocalRank, found.WorldSize = r.Rank, r.LocalRank, r.WorldSize
		if bad := (*config.ValidationError)(nil); errors.As(err, &bad) {
			bad.Problems = slices.DeleteFunc(bad.Problems, func(p config.Problem) bool { return p.Field != "attempt" })
			if len(bad.Problems) == 0 {
				err = nil
			}
		}
	}
	if r.Attempt.IsSet() {
		found.Attempt = r.Attempt
	}
	if r.Job != "" || r.Run != "" {
		found.Job, found.Run = cmp.Or(r.Job, r.Run), cmp.Or(r.Run, r.Job)
	}
	return found, err
}
