package goodput

import "github.com/trainspan/trainspan/internal/run"

// Stretch is time of one rank that is of one category.
type Stretch struct {
	Rank int
	// Attempt is 0 before the first one of the rank. What comes between two
	// attempts belongs to the first of them.
	Attempt  int
	Category Category
	// Step is the number of the iteration, run.Unknown outside of one.
	Step int64
	// Start and End are nanoseconds since the Unix epoch.
	Start, End int64
}

// Stretches calls fn with all time of all ranks as it is known at the end: by
// rank, in the order of time, without gaps. By category the stretches add up to
// what [Ledger.Report] says of the zero [Query]. An error of fn ends it. The
// stretch is valid during the call.
func (l *Ledger) Stretches(fn func(*Stretch) error) error {
	v := l.see(final)
	for r := range v.visit() {
		var open Stretch
		var failed error
		give := func() {
			if failed == nil && open.End > open.Start {
				failed = fn(&open)
			}
		}
		v.each(r, v.start, v.end, func(from, to int64, c Category, attempt, iteration int) {
			s := Stretch{Rank: r.id, Category: c, Step: run.Unknown, Start: from, End: to}
			if attempt >= 0 {
				a := &r.attempts[attempt]
				s.Attempt = a.Attempt
				if iteration >= 0 {
					s.Step = a.iterations[iteration].number
				}
			}
			if open.End == from && open.Category == c && open.Attempt == s.Attempt && open.Step == s.Step {
				open.End = to
				return
			}
			give()
			open = s
		})
		if give(); failed != nil {
			return failed
		}
	}
	return nil
}
