package torch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/trainspan/trainspan/internal/platform/display"
)

// RankReport is how the ranks of one profiler window were put on one time axis.
// Its slices with one entry per rank are in the order of Ranks.
type RankReport struct {
	// Ranks lists the ranks, lowest first.
	Ranks []int64 `json:"ranks"`
	// Matched counts collectives found on at least two ranks.
	Matched int `json:"matched_collectives"`
	// Inconsistent counts those whose ends differ too much to derive waits from
	// them.
	Inconsistent int `json:"inconsistent_collectives"`
	// Offsets were added to each rank's times in the middle of its window;
	// Estimated is the estimate from the ends of the collectives, also if it was
	// too small to apply.
	Offsets   []time.Duration `json:"offsets_ns"`
	Estimated []time.Duration `json:"estimated_offsets_ns"`
	// Drifts is by how many microseconds per second each clock is slow.
	Drifts []float64 `json:"drifts_ppm"`
	// Residuals is the remaining difference of the ends of the collectives, as a
	// robust standard deviation.
	Residuals []time.Duration `json:"residuals_ns"`
	// Confidence is how certain the position of each rank is: "none", "medium",
	// "high", "reference" or "same host". Reasons has why a rank with "none" was
	// not moved.
	Confidence []string `json:"confidence"`
	Reasons    []string `json:"reasons"`
	// EndSpread is the largest difference between the ends of one collective over
	// the ranks after alignment, StartSpread the same for starts.
	EndSpread   time.Duration `json:"end_spread_ns"`
	StartSpread time.Duration `json:"start_spread_ns"`
	// Collectives has one entry per matched collective, in order of time, at
	// most ten thousand.
	Collectives []CollectiveSkew `json:"collectives,omitempty"`
	// Note is a sentence if ranks could not be aligned.
	Note string `json:"note,omitempty"`
}

// CollectiveSkew describes one collective over the compared ranks.
type CollectiveSkew struct {
	// Op is the operation, Group its process group, "" if not recorded.
	Op    string `json:"op"`
	Group string `json:"group,omitempty"`
	// GroupSize is the number of ranks in the group, -1 if unknown; Ranks is how
	// many of them were compared.
	GroupSize int64 `json:"group_size"`
	Ranks     int   `json:"ranks_compared"`
	// Start is the first arrival.
	Start time.Time `json:"start"`
	// StartSpread is how long the first rank waited for the last, EndSpread the
	// residual skew of the clocks.
	StartSpread time.Duration `json:"start_spread_ns"`
	EndSpread   time.Duration `json:"end_spread_ns"`
	// LastRank is the last of the compared ranks to arrive, -1 if the next to last
	// was too close for the clocks to decide.
	LastRank int64 `json:"last_rank"`
}

const maxSkews = 10_000

// alignRanks matches the collectives of the processes, shifts differing clocks,
// and determines who waited for whom.
func alignRanks(procs []*process, opts *Options) *RankReport {
	if len(procs) < 2 {
		return nil
	}
	n := len(procs)
	rep := &RankReport{
		Offsets: make([]time.Duration, n), Estimated: make([]time.Duration, n), Drifts: make([]float64, n), Residuals: make([]time.Duration, n),
		Confidence: make([]string, n), Reasons: make([]string, n),
	}
	for _, p := range procs {
		rep.Ranks = append(rep.Ranks, p.rank)
	}
	all, ambiguous := matchCollectives(procs)
	rep.Matched = len(all)
	al := newAligner(procs, all)
	al.run()
	al.bridge()
	al.apply(opts, rep)
	al.skews(rep)
	rep.Note = al.note(ambiguous)
	return rep
}

// note summarizes why ranks were not aligned.
func (al *aligner) note(ambiguous int) string {
	placed, axes := 0, map[int]bool{}
	for _, p := range al.places {
		if p.confidence != confidenceNone {
			placed++
			axes[p.axis] = true
		}
	}
	var notes []string
	if ambiguous > 0 {
		notes = append(notes, fmt.Sprintf("%d collectives name a process group that more ranks use than it has; the trace does not list its ranks", ambiguous))
	}
	switch {
	case placed == 0 && len(al.all) == 0:
		notes = append(notes, "no collective is on two ranks: the clocks were not shifted")
	case placed == 0:
		notes = append(notes, "the evidence is too weak to compare clocks: they were not shifted")
	case len(axes) > 1:
		notes = append(notes, fmt.Sprintf("the ranks form %d sets without common collectives; times are comparable only within a set", len(axes)))
	}
	return strings.Join(notes, "; ")
}

func (r *RankReport) text(b *strings.Builder) {
	display.Fprintf(b, "ranks %v: %d collectives in common\n", r.Ranks, r.Matched)
	if r.Note != "" {
		display.Fprintf(b, "  %s\n", r.Note)
	}
	for i, d := range r.Estimated {
		switch r.Confidence[i] {
		case confidenceNone:
			display.Fprintf(b, "  rank %d: not shifted: %s\n", r.Ranks[i], r.Reasons[i])
		case confidenceReference:
			display.Fprintf(b, "  rank %d: its clock is the reference\n", r.Ranks[i])
		default:
			display.Fprintf(b, "  rank %d: clock differs by %s%s, shifted by %s; confidence %s, residual %s\n", r.Ranks[i], -d, driftText(-r.Drifts[i]), r.Offsets[i], r.Confidence[i], r.Residuals[i])
		}
	}
	if len(r.Collectives) > 0 {
		display.Fprintf(b, "  arrivals spread by up to %s, ends by up to %s\n", r.StartSpread, r.EndSpread)
	}
	if r.Inconsistent > 0 {
		display.Fprintf(b, "  %d collectives end too far apart to decide which rank waited\n", r.Inconsistent)
	}
	last, close, partial := map[int64]int{}, 0, 0
	for _, c := range r.Collectives {
		if c.GroupSize > int64(c.Ranks) {
			partial++
		}
		if c.LastRank < 0 {
			close++
			continue
		}
		last[c.LastRank]++
	}
	for _, rank := range slices.Sorted(maps.Keys(last)) {
		display.Fprintf(b, "  rank %d arrived last %d times\n", rank, last[rank])
	}
	if close > 0 {
		display.Fprintf(b, "  %d times the last two arrived too close together to decide\n", close)
	}
	if partial > 0 {
		display.Fprintf(b, "  %d collectives have ranks that were not imported and may have arrived later\n", partial)
	}
}
