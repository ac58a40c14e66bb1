package torch

import (
	"cmp"
	"maps"
	"slices"
)

// minShared is how many collectives two ranks have to share to compare their
// clocks.
const minShared = 3

// instance is one collective over its ranks.
type instance struct {
	first   *rankCollective
	members []member
	// anchored is true if a number or a step paired it, and not the order alone.
	anchored bool
}

type member struct {
	proc int
	c    *rankCollective
}

// matchCollectives finds each collective on the ranks of its group.
func matchCollectives(procs []*process) (list []*instance, ambiguous int) {
	type lane = map[int][]*rankCollective
	groups := map[string]lane{}
	for i, p := range procs {
		for k := range p.comms.list {
			c := &p.comms.list[k]
			if !c.symmetric {
				continue
			}
			if groups[c.group] == nil {
				groups[c.group] = lane{}
			}
			groups[c.group][i] = append(groups[c.group][i], c)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		g := groups[name]
		if len(g) < 2 {
			continue
		}
		in := slices.Sorted(maps.Keys(g))
		template, most := -1, 0
		for _, i := range in {
			if len(g[i]) > most {
				template, most = i, len(g[i])
			}
		}
		if size := g[template][0].size; size > 0 && len(g) > int(size) {
			// One name for several groups, whose ranks are unknown.
			ambiguous += most
			continue
		}
		found := make([]*instance, most)
		for _, i := range in {
			if i == template {
				continue
			}
			pairs, anchored := pairSequences(g[template], g[i])
			for _, x := range pairs {
				in := found[x[0]]
				if in == nil {
					c := g[template][x[0]]
					in = &instance{first: c, members: []member{{template, c}}, anchored: anchored}
					found[x[0]] = in
				}
				in.anchored = in.anchored && anchored
				in.members = append(in.members, member{i, g[i][x[1]]})
			}
		}
		for _, in := range found {
			if in != nil {
				slices.SortFunc(in.members, func(a, b member) int { return cmp.Compare(a.proc, b.proc) })
				list = append(list, in)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b *instance) int { return cmp.Compare(a.first.start, b.first.start) })
	return list, ambiguous
}

// pairSequences pairs the collectives of one group on two ranks: by their
// numbers, or by their order inside each step, or by their order. If the
// sequences differ, because a row is missing, the times decide.
func pairSequences(a, b []*rankCollective) (pairs [][2]int, anchored bool) {
	if numbered(a) && numbered(b) {
		return pairNumbers(a, b), true
	}
	stepsA, stepsB := byStep(a), byStep(b)
	if len(stepsA) == 0 || len(stepsB) == 0 {
		return pairOrdered(a, b, all(len(a)), all(len(b))), false
	}
	steps := 0
	for _, n := range slices.Sorted(maps.Keys(stepsA)) {
		if in := stepsB[n]; len(in) > 0 {
			found := pairOrdered(a, b, stepsA[n], in)
			pairs = append(pairs, found...)
			if len(found) > 0 {
				steps++
			}
		}
	}
	// In one or two steps, each rank may have lost another row at the ends.
	return pairs, steps >= 3
}

func numbered(list []*rankCollective) bool {
	return !slices.ContainsFunc(list, func(c *rankCollective) bool { return c.seq < 0 })
}

func all(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// byStep returns the positions of each step's collectives, without those
// outside steps.
func byStep(list []*rankCollective) map[int64][]int {
	out := map[int64][]int{}
	for i, c := range list {
		if c.step >= 0 {
			out[c.step] = append(out[c.step], i)
		}
	}
	return out
}

// pairNumbers pairs by the number that the group gave to each collective.
// Several kernels may have one number.
func pairNumbers(a, b []*rankCollective) (pairs [][2]int) {
	type key struct {
		seq   int64
		op    string
		count int
	}
	index := func(list []*rankCollective, visit func(key, int)) {
		seen := map[key]int{}
		for i, c := range list {
			k := key{seq: c.seq, op: c.op}
			seen[k]++
			visit(key{c.seq, c.op, seen[k]}, i)
		}
	}
	at := make(map[key]int, len(a))
	index(a, func(k key, i int) { at[k] = i })
	index(b, func(k key, j int) {
		if i, ok := at[k]; ok && a[i].sameAs(b[j]) {
			pairs = append(pairs, [2]int{i, j})
		}
	})
	return pairs
}

// pairOrdered pairs the collectives at the given positions by their order if
// both sides have the same ones, and by time otherwise.
func pairOrdered(a, b []*rankCollective, inA, inB []int) (pairs [][2]int) {
	same := len(inA) == len(inB)
	for k := 0; same && k < len(inA); k++ {
		same = a[inA[k]].sameAs(b[inB[k]])
	}
	if same {
		pts := make([]point, len(inA))
		for k := range inA {
			pairs = append(pairs, [2]int{inA[k], inB[k]})
			pts[k] = point{b[inB[k]].end, a[inA[k]].end - b[inB[k]].end}
		}
		tolerance := a[inA[0]].tolerance()
		if f := fitClock(pts, tolerance); len(pairs) < minShared || int64(f.scale) <= tolerance {
			return pairs
		}
	}
	const part = 64 // short enough to ignore drift inside it
	pairs = nil
	for from := 0; from < len(inA); from += part {
		to := min(from+part, len(inA))
		pairs = append(pairs, vote(a, b, inA[from:to], inB, from)...)
	}
	if 2*len(pairs) < min(len(inA), len(inB)) {
		return nil // too few to be representative
	}
	return pairs
}

// guess is a possible pair and the difference of its ends.
type guess struct {
	d    int64
	i, j int
}

// vote finds the clock difference for which most collectives of a part of a,
// which begins at position from, match one of b, and returns those pairs. It
// returns none if another difference would do nearly as well.
func vote(a, b []*rankCollective, inA, inB []int, from int) (pairs [][2]int) {
	reach := min(8+abs(int64(len(inA)-len(inB))), 64)
	var all []guess
	for k, i := range inA {
		mid := int64(from + k)
		for q := max(mid-reach, 0); q <= min(mid+reach, int64(len(inB)-1)); q++ {
			if j := inB[q]; a[i].sameAs(b[j]) {
				all = append(all, guess{a[i].end - b[j].end, i, j})
			}
		}
	}
	if len(all) < minShared {
		return nil
	}
	slices.SortFunc(all, func(x, y guess) int { return cmp.Compare(x.d, y.d) })
	width := 2 * a[inA[0]].tolerance()
	best, bestFrom := densest(all, width, 0, 0)
	if best < minShared || best*10 < min(len(inA), len(inB))*6 {
		return nil
	}
	low, high := all[bestFrom].d, all[bestFrom+best-1].d
	if second, _ := densest(all, width, low-width, high+width); second*10 > best*7 || best < 6 && second*2 > best {
		return nil
	}
	mid := all[bestFrom+best/2].d
	chosen := all[bestFrom : bestFrom+best]
	slices.SortStableFunc(chosen, func(x, y guess) int { return cmp.Compare(abs(x.d-mid), abs(y.d-mid)) })
	usedA, usedB := map[int]bool{}, map[int]bool{}
	for _, c := range chosen {
		if !usedA[c.i] && !usedB[c.j] {
			usedA[c.i], usedB[c.j] = true, true
			pairs = append(pairs, [2]int{c.i, c.j})
		}
	}
	return pairs
}

// densest returns the largest number of candidates, sorted by their
// differences, that are within width of each other and outside (low, high), and
// where they begin.
func densest(list []guess, width, low, high int64) (count, from int) {
	j := 0
	for i := range list {
		if low < high && list[i].d > low && list[i].d < high {
			continue
		}
		j = max(i, j)
		for j < len(list) && list[j].d-list[i].d <= width && !(low < high && list[j].d > low && list[j].d < high) {
			j++
		}
		if j-i > count {
			count, from = j-i, i
		}
	}
	return count, from
}
