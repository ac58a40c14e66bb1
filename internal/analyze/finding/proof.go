package finding

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/stats"
)

// Proof is the table that supports the sentence about ranks: a row for the named ranks and one for the
// others. Times are means over the affected steps, medians over all steps of a short profile, or totals of
// the whole run.
type Proof struct {
	Columns []string `json:"columns"`
	Rows    []Row    `json:"rows"`
	// OfRun reports whether the times are totals of the run.
	OfRun bool `json:"of_run,omitempty"`
}

// Row is a rank, or several similar ranks.
type Row struct {
	Name  string  `json:"name"` // "2", "0,1,3", "7 others"
	Ranks int     `json:"ranks"`
	Named bool    `json:"named"` // whether the sentence names it
	Times []int64 `json:"times_ns"`
	Late  string  `json:"late,omitempty"`
}

// mostNamed is the maximum number of ranks listed individually; more are merged into a group.
const mostNamed = 4

// groupName returns the numbers of the ranks if they are few, otherwise their count followed by word.
func groupName(ranks []int, word string) string {
	if len(ranks) <= mostNamed {
		return strings.ReplaceAll(strings.Trim(fmt.Sprint(ranks), "[]"), " ", ",")
	}
	return fmt.Sprintf("%s %s", display.Count(len(ranks)), word)
}

// NewProof returns a table with a row for each named rank, or one for all of them if they are many, and one
// for the other ranks with the medians of their times. It returns nil if all ranks are named or none is.
func NewProof(columns []string, all, named []int, times func(rank int) []int64) *Proof {
	median := func(ranks []int) (out []int64) {
		x := make([]float64, len(ranks))
		for c := range columns {
			for i, rank := range ranks {
				x[i] = float64(times(rank)[c])
			}
			out = append(out, int64(stats.Median(x)))
		}
		return out
	}
	var are, others []int
	for _, rank := range all {
		if slices.Contains(named, rank) {
			are = append(are, rank)
		} else {
			others = append(others, rank)
		}
	}
	if len(are) == 0 || len(others) == 0 {
		return nil
	}
	p := &Proof{Columns: columns}
	if len(are) <= mostNamed {
		for _, rank := range are {
			p.Rows = append(p.Rows, Row{Name: fmt.Sprint(rank), Ranks: 1, Named: true, Times: times(rank)})
		}
	} else {
		p.Rows = append(p.Rows, Row{Name: groupName(are, "ranks"), Ranks: len(are), Named: true, Times: median(are)})
	}
	p.Rows = append(p.Rows, Row{Name: groupName(others, "others"), Ranks: len(others), Times: median(others)})
	return p
}

// SetLate sets in the rows of the named ranks in how many steps they are late. It does nothing on a nil
// table.
func (p *Proof) SetLate(e *Evidence) {
	if p == nil || e == nil || e.Interval == 0 {
		return
	}
	for i := range p.Rows {
		if p.Rows[i].Named {
			p.Rows[i].Late = fmt.Sprintf("%d of %s", e.Affected, display.Plural(e.Interval, "step"))
		}
	}
}

// Named returns the row of the first named rank.
func (p *Proof) Named() *Row { return &p.Rows[0] }

// Rest returns the row of the other ranks.
func (p *Proof) Rest() *Row { return &p.Rows[len(p.Rows)-1] }

// Written formats a time of the table.
func (p *Proof) Written(ns int64) string {
	if p.OfRun {
		return display.Duration(ns)
	}
	return display.Milliseconds(float64(ns) / 1e6)
}
