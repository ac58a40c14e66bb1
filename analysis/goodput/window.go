package goodput

import (
	"slices"

	"github.com/trainspan/trainspan/analysis/run"
)

// WindowSteps is how many iterations a window has at most. Windows begin at the
// same numbers on all ranks.
const WindowSteps = 100

// windowOutlier is how many times the median an iteration takes that is in no
// window.
const windowOutlier = 1.5

// Windows gives the same process with windows in place of iterations: of up to [WindowSteps] that follow each
// other, about 40 bytes a window. All sums stay exact; what is not is the order
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
	var t timeline
	var o opener
	if err := o.open(&a.packed, len(a.names), len(a.loops), &t); err != nil {
		return nil, err
	}
	a.packed = t.windows(&a).pack()
	return &Builder{done: &a}, nil
}

// windows gives the timeline with windows.
func (t *timeline) windows(a *attempt) *timeline {
	var own []int64
	for i := range t.iterations {
		own = append(own, t.iterations[i].own)
	}
	usual, _ := median(own)
	ends := make(map[int64]bool) // numbers after which a window ends
	for _, s := range a.saves {
		ends[s.through] = true
	}
	for _, l := range a.loops {
		ends[l.from-1] = true
	}
	out := &timeline{}
	place := make([]int32, len(t.iterations)) // the new index of each
	for i := range t.iterations {
		it := t.iterations[i]
		n := len(out.iterations)
		if i > 1 && it.follows(&t.iterations[i-1], usual) && t.iterations[i-1].plain(usual) && !ends[it.number-1] && it.number%WindowSteps != 0 {
			n--
			last := &out.iterations[n]
			last.end, last.own, last.more, last.least = it.end, last.own+it.own, last.more+1, min(last.least, it.own)
		} else {
			out.iterations = append(out.iterations, it)
		}
		place[i] = int32(n)
	}
	first := 0 // of t.iterations, for the medians
	for n := range out.iterations {
		w := &out.iterations[n]
		if count := int(w.more) + 1; count > 1 {
			own = own[:0]
			for _, it := range t.iterations[first : first+count] {
				own = append(own, it.own)
			}
			w.mid, _ = median(own)
		}
		first += int(w.more) + 1
	}
	out.replaceSegs(t, place, a.stop)
	out.replaceOverlaps(t, place)
	return out
}

// plain says that an iteration may be in a window.
func (it *iteration) plain(usual int64) bool {
	return it.end != run.NoEnd && it.number >= 0 && it.more == 0 && float64(it.own) <= windowOutlier*float64(usual)
}

// follows says that it comes next after a plain iteration of the same loop.
func (it *iteration) follows(before *iteration, usual int64) bool {
	return it.plain(usual) && it.number == before.number+1 && it.loop == before.loop && it.start >= before.end
}

// replaceSegs adds up what each window holds. The stretches of a window lie from
// its first iteration to its last.
func (t *timeline) replaceSegs(from *timeline, place []int32, stop int64) {
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
	// last is where each window has its last stretch.
	last := make(map[int32]int)
	for k, s := range from.segs {
		if n, ok := s.what.iteration(); ok && t.iterations[place[n]].more > 0 {
			last[place[n]] = k
		}
	}
	for k, s := range from.segs {
		w := s.what
		if n, ok := w.iteration(); ok {
			w = firstIteration + what(place[n])
			if at := place[n]; t.iterations[at].more > 0 && window != at {
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
		sums[i].ns += from.segEnd(k, stop) - s.start
		if last[window] == k {
			flush()
		}
	}
	flush()
}

// replaceOverlaps adds up what windows hide.
func (t *timeline) replaceOverlaps(from *timeline, place []int32) {
	sums := make(map[what]int) // index of an iteration's
	for _, o := range from.overlaps {
		n, ok := o.what.iteration()
		if !ok {
			t.overlaps = append(t.overlaps, o)
			continue
		}
		o.what = firstIteration + what(place[n])
		if t.iterations[place[n]].more == 0 {
			t.overlaps = append(t.overlaps, o)
			continue
		}
		i, found := sums[o.what]
		if !found {
			sums[o.what] = len(t.overlaps)
			t.overlaps = append(t.overlaps, o)
			continue
		}
		t.overlaps[i].to += o.to - o.from
	}
}
