package straggler

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/internal/robust"
)

// groupTransfers compares the transfer of each sub-group to that of the groups
// like it: those whose names differ in their last number only,
// among ranks of one role.
func (a *analysis) groupTransfers() {
	names := a.rd.names
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
		// A group of one says nothing, unless its other ranks are without data.
		if role, ok := a.oneRole(members[name]); ok && (len(members[name]) > 1 || len(a.missing) > 0) {
			family := strings.TrimRight(name, "0123456789") + "\x00" + strconv.Itoa(role)
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

// oneRole gives the role that all ranks have. What ranks of different roles
// exchange is no collective among equals: the wait for a pipeline's
// neighbour is part of its time.
func (a *analysis) oneRole(ranks []int) (int, bool) {
	for _, r := range ranks {
		if a.rd.roleOf[r] != a.rd.roleOf[ranks[0]] {
			return 0, false
		}
	}
	return a.rd.roleOf[ranks[0]], true
}

// linkedRoles says whether ranks of different roles work for each other within a
// step, as the stages of a pipeline do: there is a sub-group of several roles.
func (a *analysis) linkedRoles() bool {
	if len(a.rd.roles) < 2 {
		return false
	}
	role := map[uint16]int{}
	for r := range a.rd.n() {
		for _, id := range a.rd.groups[r] {
			if id == 0 {
				continue
			}
			if was, ok := role[id]; ok && was != a.rd.roleOf[r] {
				return true
			}
			role[id] = a.rd.roleOf[r]
		}
	}
	return false
}

// waitsUnseen says that ranks of different roles spend a tenth or more of the
// step in no span, and none for what they exchange is on record: they may
// wait for each other there.
func (a *analysis) waitsUnseen() bool {
	if len(a.rd.roles) < 2 || a.linkedRoles() {
		return false
	}
	for _, ranks := range a.rd.roles {
		if levelOf(a.common(a.phase[Host], ranks)) > 0.1*a.rd.typical {
			return true
		}
	}
	return false
}

// groupFamily are groups that should take the same time.
type groupFamily struct {
	names   []string
	series  [][]float64 // transfer by group and round
	members map[string][]int
	over    []float64 // of the group that is looked at, over the others
}

// largest gives the number of ranks of the largest group.
func (f groupFamily) largest() int {
	n := 0
	for _, name := range f.names {
		n = max(n, len(f.members[name]))
	}
	return n
}

func (a *analysis) compareGroups(f groupFamily) {
	like, series := f.names, f.series
	m := a.rd.m()
	all := newMatrix(len(like), m)
	for i := range like {
		for s, v := range series[i] {
			all.set(i, s, v)
		}
	}
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
		const (
			factor = 1.5 // groups on different links differ by a few tenths
			share  = hotShare
		)
		usual := levelOf(ref)
		least := max((factor-1)*usual, share*a.rd.typical)
		from, to := highest(over, i, all, least)
		if from < 0 {
			continue
		}
		if len(a.missing) > 0 && len(f.members[like[i]]) < f.largest() {
			// A member may be among the ranks without data: then the shortest
			// time of the others may be a wait for it.
			a.remark(ReasonMissingRank)
			continue
		}
		f.over = over
		a.fileGroup(i, f, change{from, to, levelOf(series[i][from:to]), usual})
	}
}

// highest gives the stretch in which x, which belongs to group i, lies above
// least, from the first level that noise does not explain to the last; from is
// -1 where there is none. all holds the transfers of the groups.
func highest(x []float64, i int, all matrix, least float64) (from, to int) {
	groups := make([]int, len(all.v)/all.m)
	for k := range groups {
		groups[k] = k
	}
	noiseOf := func(lo, hi int) *noise { return withoutFault(all, groups, i, lo, hi, ramp{}) }
	if len(groups) > fewRanks {
		ns := rankNoise(all, groups)
		noiseOf = func(int, int) *noise { return ns }
	}
	segs := segments(x, splitNoise(x), least/2)
	from = -1
	for k := 0; k < len(segs); k++ {
		// Neighbouring high levels are one excursion.
		j, total := k, 0.0
		for j < len(segs) && segs[j].level > least {
			total += segs[j].level * float64(segs[j].to-segs[j].from)
			j++
		}
		if j == k {
			continue
		}
		lo, hi := segs[k].from, segs[j-1].to
		if ns := noiseOf(lo, hi); total > ns.z*ns.mean(hi-lo)*float64(hi-lo) {
			if from < 0 {
				from = lo
			}
			to = hi
		}
		k = j - 1
	}
	return from, to
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
