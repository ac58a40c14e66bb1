package straggler

import (
	"cmp"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/platform/stats"
)

// A repair of a rank sets its work, of the kinds that make it late, to the time that the other ranks of its
// role need in that round.
const (
	repairPart = 0.02 // of the excess: kinds of work below this are not repaired
	causePart  = 0.25 // of the excess: kinds of work below this are not named as a cause
)

// rowsOf returns the kinds of work that make a rank late between two rounds, the largest first. It omits
// kinds with at most the fraction least of the excess over usual.
func (j *job) rowsOf(r int, usual *reference, from, to int, least float64) []int {
	type part struct {
		row  int
		mean float64
	}
	var parts []part
	all := 0.0
	for row := range rows {
		if j.row[row] == nil {
			continue
		}
		others := usual.medians(row, j.roleOf[r])
		if more := j.mean(row, r, from, to) - stats.Mean(others[from-j.from:to-j.from]); more > 0 {
			parts = append(parts, part{row, more})
			all += more
		}
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.mean, a.mean) })
	var out []int
	for _, p := range parts {
		if p.mean > least*all {
			out = append(out, p.row)
		}
	}
	return out
}

// repairRanks returns a repair that sets the work of some ranks of a set, while they are late, to the median
// time of the other ranks, split among intervals as the ranks that are not late split it.
func (j *job) repairRanks(late *lateSet, ranks []int) repair {
	usual := late.without(j, ranks)
	return repair{ranks: ranks, like: late.like, work: func(s, r, row int) float64 {
		own := j.time(row, s, r)
		if s < late.first || s >= late.end || own == 0 || !slices.Contains(late.rows[r], row) {
			return 1
		}
		return usual.medians(row, j.roleOf[r])[s-j.from] / own
	}}
}

// repairInput returns a repair in which every batch is available on request.
func (j *job) repairInput() repair {
	return repair{work: func(_, _, row int) float64 {
		if row%int(phases) == int(Input) {
			return 0
		}
		return 1
	}}
}

// repairBalance returns a repair that sets all work, interval by interval, to the mean of its role. The wait for
// a batch from a queue is no work.
func (j *job) repairBalance() repair {
	at := -1
	mean := make([]float64, len(j.roles)*rows)
	return repair{like: j.likeOthers(nil), work: func(s, r, row int) float64 {
		if s != at {
			at = s
			clear(mean)
			for i := range j.ranks {
				n := float64(len(j.roles[j.roleOf[i]]))
				for k := range rows {
					if j.row[k] != nil {
						mean[j.roleOf[i]*rows+k] += j.time(k, s, i) / n
					}
				}
			}
		}
		own := j.time(row, s, r)
		if own == 0 || row == rowOf(false, Input) && j.slack != nil {
			return 1
		}
		return mean[j.roleOf[r]*rows+row] / own
	}}
}

// repairLevels returns a repair that restores work to its level before the rises.
func (j *job) repairLevels(of []rise) repair {
	return repair{work: func(s, r, row int) float64 {
		for _, l := range of {
			if l.role == j.roleOf[r] && l.row == row {
				return l.factor(s)
			}
		}
		return 1
	}}
}

// repairTransfer returns a repair that replaces the time of the transfers of a group, on all lanes.
func repairTransfer(group int, of func(s int, t float64) float64) repair {
	return repair{transfer: func(s int, m *meeting, t float64) float64 {
		if m.group != group {
			return t
		}
		return of(s, t)
	}}
}

// families returns sets of groups that should have equal transfer times: their names differ only in the last
// number, they have the same number of members, and they share no rank. Names may be only numbers, so groups of
// another purpose are known by the last two. The messages of two ranks are no transfers of a group.
func (g *graph) families() (out [][]int) {
	prefix := func(i int) string { return strings.TrimRight(g.groups[i].name, "0123456789") }
	for i := range g.groups {
		of := &g.groups[i]
		if len(of.members) < 2 || strings.HasPrefix(of.name, peerPrefix) {
			continue
		}
		in := slices.IndexFunc(out, func(family []int) bool {
			return prefix(family[0]) == prefix(i) && !slices.ContainsFunc(family, func(k int) bool {
				o := &g.groups[k]
				return len(o.members) != len(of.members) || slices.ContainsFunc(of.members, func(r int) bool { return slices.Contains(o.members, r) })
			})
		})
		if in < 0 {
			in, out = len(out), append(out, nil)
		}
		out[in] = append(out[in], i)
	}
	return out
}
