package straggler

// crossing is by how much a collective must outlast the span it began in to be
// of another lane: more than the resolution of clocks in files.
const crossing = 2_000

// findLanes gives collectives of the training thread a lane of their own where
// they cannot be of that thread, or may not be: files without threads have all
// spans on one. A thread ends what it began last, so that a collective that
// outlasts the forward or backward it began in runs beside it; and several
// collectives of all ranks in one of those may be blocking or not, which
// computeGoesOn finds out of collectives of other lanes. The spans are in the
// order of compareSpans.
func findLanes(all []Span) {
	for i := range all {
		work := &all[i]
		if work.Lane != 0 || work.End <= work.Start || work.Phase != Forward && work.Phase != Backward {
			continue
		}
		inside, crosses := 0, false
		for j := i + 1; j < len(all) && all[j].Start < work.End; j++ {
			if c := &all[j]; c.oneOfAll() {
				inside++
				crosses = crosses || c.End > work.End+crossing
			}
		}
		if inside < 2 && !crosses {
			continue
		}
		for j := i + 1; j < len(all) && all[j].Start < work.End; j++ {
			if c := &all[j]; c.oneOfAll() {
				c.Lane = 1
			}
		}
	}
}

// oneOfAll says that a span is a collective of all ranks on the training
// thread, and ended.
func (sp *Span) oneOfAll() bool {
	return sp.Phase == Communication && sp.Lane == 0 && sp.Group == "" && sp.End > sp.Start
}
