package account

import (
	"slices"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/stats"
)

// windowSteps is the largest number of iterations in a window. On all ranks windows
// begin at multiples of windowSteps.
const windowSteps = 100

// windowOutlier is the multiple of the median time above which an iteration is not
// put in a window.
const windowOutlier = 1.5

// Windows returns the same process with windows in place of iterations. A window
// merges up to windowSteps consecutive iterations and takes about 40 bytes. All sums
// stay exact. The order of the time within a window is lost, and the median of
// iterations becomes the median of the medians of windows. A window ends at the numbers in
// ends, so that the iterations undone by a resume stay exact: see AddEnds. The first
// iteration, iterations without an end or a number, and those much longer than usual are
// not merged. No spans may be added to either builder afterwards.
func (b *Builder) Windows(ends map[int64]bool) (*Builder, error) {
	if err := b.finish(); err != nil {
		return nil, err
	}
	a := *b.done
	a.packed = a.windows(ends)
	return &Builder{done: &a}, nil
}

// AddEnds adds the numbers of the iterations at which the windows of all processes of
// the job must end: the last ones in saved checkpoints, and those before a loop. Usually
// one rank saves for all.
func (b *Builder) AddEnds(ends map[int64]bool) error {
	if err := b.finish(); err != nil {
		return err
	}
	for _, s := range b.done.saves {
		ends[s.through] = true
	}
	for _, l := range b.done.loops {
		ends[l.from-1] = true
	}
	return nil
}

// windows returns the timeline with windows in place of iterations.
func (a *attempt) windows(ends map[int64]bool) packed {
	all, _ := a.packed.open(nil)
	var own []int64
	for i := range all {
		own = append(own, all[i].own)
	}
	usual := stats.MedianInt(own, job.Unknown)
	out := newTimeline(a.names, nil)
	place := make([]int32, len(all)) // the new index of each iteration
	for i, it := range all {
		n := len(out.iterations)
		if i > 1 && it.follows(&all[i-1], usual) && all[i-1].plain(usual) && !ends[it.number-1] && it.number%windowSteps != 0 {
			n--
			last := &out.iterations[n]
			last.end, last.more = it.end, last.more+1
		} else {
			out.iterations = append(out.iterations, it)
		}
		place[i] = int32(n)
	}
	first := 0 // index in all of the first iteration of a window
	for n := range out.iterations {
		w := &out.iterations[n]
		own = own[:0]
		for _, it := range all[first : first+w.count()] {
			own = append(own, it.own)
		}
		mid := stats.MedianInt(own, job.Unknown)
		out.sketches = append(out.sketches, sketch{mid: mid, least: own[0]})
		w.own = 0 // replaceStretches adds it up
		w.compute, w.meets = 0, 0
		for i := range all[first : first+w.count()] {
			w.compute, w.meets = w.compute+all[first+i].compute, w.meets+all[first+i].meets
		}
		first += w.count()
	}
	out.replaceStretches(a, place)
	out.replaceOverlaps(a, place)
	out.replaceMeetings(a, all, place)
	out.replaceMessages(a, all, place)
	p := out.pack()
	p.outside = a.packed.outside
	return p
}

// plain reports whether an iteration may be merged into a window.
func (it *iteration) plain(usual int64) bool {
	return it.end != job.NoEnd && it.number >= 0 && it.more == 0 && float64(it.own) <= windowOutlier*float64(usual)
}

// follows reports whether the iteration is plain and comes next after before in the
// same loop.
func (it *iteration) follows(before *iteration, usual int64) bool {
	return it.plain(usual) && it.number == before.number+1 && it.loop == before.loop && it.start >= before.end
}

// replaceStretches adds up the time of each window by its owner. A window reaches from
// the start of its first iteration to the end of its last one.
func (t *timeline) replaceStretches(a *attempt, place []int32) {
	type sum struct {
		what what
		ns   int64
	}
	var sums []sum
	window, start := int32(-1), int64(0)
	flush := func() {
		for _, s := range sums {
			t.extend(start, s.what)
			start += s.ns
		}
		sums, window = sums[:0], -1
	}
	last := make([]int, len(t.iterations)) // the index of the last interval of each window
	k := 0
	for s := range a.packed.stretches(a.stop) {
		if n, ok := s.what.iteration(); ok {
			last[place[n]] = k
		}
		k++
	}
	k = -1
	for s, end := range a.packed.stretches(a.stop) {
		k++
		w := s.what
		if n, ok := w.iteration(); ok {
			at := place[n]
			w = firstIteration + what(at)
			if t.iterations[at].more > 0 && window != at {
				flush()
				window, start = at, s.start
			}
		}
		if window < 0 {
			t.extend(s.start, w)
			continue
		}
		i := slices.IndexFunc(sums, func(s sum) bool { return s.what == w })
		if i < 0 {
			i = len(sums)
			sums = append(sums, sum{what: w})
		}
		sums[i].ns += end - s.start
		if last[window] == k {
			flush()
		}
	}
	flush()
	t.close(a.stop)
}

// replaceOverlaps adds up the overlaps of the iterations in each window.
func (t *timeline) replaceOverlaps(a *attempt, place []int32) {
	var list []overlapped
	sums := make(map[what]int) // by window: the index of its sum in list
	for o := range a.packed.hidden() {
		if n, ok := o.what.iteration(); ok {
			o.what = firstIteration + what(place[n])
			if i, found := sums[o.what]; found {
				list[i].to += o.to - o.from
				continue
			}
			if t.iterations[place[n]].more > 0 {
				sums[o.what] = len(list)
			}
		}
		list = append(list, o)
	}
	for _, o := range list {
		t.overlap(o)
	}
}

// replaceMeetings adds up the meetings of iterations by group and by the multiple of
// windowSteps of their anchor, which is the same on all ranks. The windows of one rank may
// end earlier, at an iteration that takes long. A sum is assigned to the window of the last
// of its iterations, which usually is the longest one.
func (t *timeline) replaceMeetings(a *attempt, all []iteration, place []int32) {
	type sum struct {
		kind, took int64
		group      uint16
	}
	var sums []sum
	groups := groups(a.meets)
	at, last := int64(-1), 0
	flush := func() {
		for _, s := range sums {
			t.met.inside.add(int64(place[last]), at, s.kind, windowed, s.took)
		}
		sums = sums[:0]
	}
	for cols, n := range a.packed.inside.blocks(insideColumns) {
		for i := range n {
			x := int(cols[0][i])
			if window := a.anchor(all, x) / windowSteps; window != at || len(sums) == 0 {
				flush()
				at = window
			}
			last = x
			group := groups[cols[2][i]-1]
			k := slices.IndexFunc(sums, func(s sum) bool { return s.group == group })
			if k < 0 {
				k = len(sums)
				sums = append(sums, sum{kind: cols[2][i], group: group})
			}
			sums[k].took += cols[4][i]
		}
	}
	flush()
}
