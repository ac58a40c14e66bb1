package straggler

import (
	"maps"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/robust"
)

// groupTransfers compares the transfer of each sub-group to that of the groups
// like it: those whose names differ in their last number only.
func (a *analysis) groupTransfers() {
	names := make([]string, len(a.s.groups)+1)
	for name, id := range a.s.groups {
		names[id] = name
	}
	members := map[string][]int{}
	slot := map[string]int{}
	for r := range a.rd.n() {
		for i, id := range a.rd.groups[r] {
			if id != 0 {
				members[names[id]] = append(members[names[id]], r)
				slot[names[id]] = i
			}
		}
	}
	families := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if len(members[name]) > 1 {
			family := strings.TrimRight(name, "0123456789")
			families[family] = append(families[family], name)
		}
	}
	for _, family := range slices.Sorted(maps.Keys(families)) {
		if like := families[family]; len(like) > 1 {
			series := make([][]float64, len(like))
			for i, name := range like {
				series[i] = a.shortest(a.rd.group[slot[name]], members[name])
			}
			a.compareGroups(groupFamily{names: like, series: series, members: members})
		}
	}
}

// groupFamily are groups that should take the same time.
type groupFamily struct {
	names   []string
	series  [][]float64 // transfer by group and round
	members map[string][]int
	over    []float64 // of the group that is looked at, over the others
}

func (a *analysis) compareGroups(f groupFamily) {
	like, series := f.names, f.series
	m := a.rd.m()
	var buf []float64
	for i := range like {
		// The reference is made of the other groups: of two groups, one.
		over, ref := make([]float64, m), make([]float64, m)
		for s := range m {
			buf = buf[:0]
			for j := range like {
				if j != i && series[j][s] == series[j][s] {
					buf = append(buf, series[j][s])
				}
			}
			ref[s] = robust.LowerMedian(buf)
			over[s] = series[i][s] - ref[s]
		}
		ns := measureNoise([][]float64{over}, m, 1)
		const (
			factor = 1.5 // groups on different links differ by a few tenths
			share  = hotShare
		)
		usual := levelOf(ref)
		least := max((factor-1)*usual, share*a.rd.typical)
		from, to := -1, 0
		for _, sg := range segments(over, ns, least/2) {
			if sg.level > least && sg.level > evidenceZ*ns.mean(sg.to-sg.from) {
				if from < 0 {
					from = sg.from
				}
				to = sg.to
			}
		}
		if from < 0 {
			continue
		}
		f.over = over
		a.fileGroup(i, f, change{from, to, levelOf(series[i][from:to]), usual})
	}
}

// fileGroup files group i, whose transfer takes longer. Its members reach the
// next collective of all ranks that much later, as far as nobody else is later
// still.
func (a *analysis) fileGroup(i int, f groupFamily, c change) {
	gain := make([]float64, a.rd.m())
	for s := c.from; s < c.to; s++ {
		var was, now float64
		for j, name := range f.names {
			for _, r := range f.members[name] {
				reach := a.own.at(r, s) + f.series[j][s]
				was = max(was, reach)
				if j == i {
					reach -= max(f.over[s], 0)
				}
				now = max(now, reach)
			}
		}
		gain[s] = was - now
	}
	a.add(Finding{Kind: SlowCommunication, Cause: CauseCommunication, Ranks: a.realRanks(f.members[f.names[i]]), Evidence: &Evidence{
		Affected: c.to - c.from, Excess: levelOf(f.over[c.from:c.to]) / 1e6, Level: c.level / 1e6, Before: c.before / 1e6,
	}}, gain, c.from, c.to)
}
