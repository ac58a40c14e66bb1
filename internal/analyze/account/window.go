package account

import (
	"slices"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/stats"
)

// windowSteps is how many iterations a window has at most. Windows begin at the
// same numbers on all ranks.
const windowSteps = 100

// windowOutlier is how many times the median an iteration takes that is in no
// window.
const windowOutlier = 1.5

// Windows returns the same process with windows in place of iterations: of up to
// [windowSteps] that follow each other, about 40 bytes a window. All sums stay exact; what is not is the order
// in which the time of a window was spent, and the median of iterations, which is
// that of the windows' medians. Windows end where a saved checkpoint does, so
// that what a resume from it undoes is exact, too. The first iteration, those
// without an end or a number and those far longer than usual stay as they are.
// Neither builder takes more spans.
func (b *Builder) Windows() (*Builder, error) {
	if err := b.finish(); err != nil {
		return nil, err
	}
	a := *b.done
	a.packed = a.windows()
	return &Builder{done: &a}, nil
}

// windows returns the timeline with windows.
func (a *attempt) windows() packed {
	all, _ := a.packed.open(nil)
	var own []int64
	for i := range all {
		own = append(own, all[i].own)
	}
	usual := stats.MedianInt(own, job.Unknown)
	ends := make(map[int64]bool) // numbers after which a window ends
	for _, s := range a.saves {
		ends[s.through] = true
	}
	for _, l := range a.loops {
		ends[l.from-1] = true
	}
	out := newTimeline(a.names, nil)
	place := make([]int32, len(all)) // the new index of each
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
	first := 0 // of all, for the medians
	for n := range out.iterations {
		w := &out.iterations[n]
		own = own[:0]
		for _, it := range all[first : first+w.count()] {
			own = append(own, it.own)
		}
		mid := stats.MedianInt(own, job.Unknown)
		out.sketches = append(out.sketches, sketch{mid: mid, least: own[0]})
		w.own = 0 // its stretches add it up
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

// plain says that an iteration may be in a window.
func (it *iteration) plain(usual int64) bool {
	return it.end != job.NoEnd && it.number >= 0 && it.more == 0 && float64(it.own) <= windowOutlier*float64(usual)
}

// follows says that it comes next after a plain iteration of the same loop.
func (it *iteration) follows(before *iteration, usual int64) bool {
	return it.plain(usual) && it.number == before.number+1 && it.loop == before.loop && it.start >= before.end
}

// replaceStretches adds up what each window holds. The stretches of a window lie
// from its first iteration to its last.
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
	last := make([]int, len(t.iterations)) // where each window has its last stretch
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

// replaceOverlaps adds up what windows hide.
func (t *timeline) replaceOverlaps(a *attempt, place []int32) {
	var list []overlapped
	sums := make(map[what]int) // index of an iteration's
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

// replaceMeetings adds up the meetings of the iterations whose numbers belong to one window
// of all ranks, group by group: windows of ranks end at other numbers where one of their
// iterations takes long. They count for the last of these iterations, which is in the
// longest window as a rule.
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
