package straggler

// Starts returns the start times of the steps of a rank, given by its index, in nanoseconds of its own clock,
// followed by the end of the last step.
func (t *Table) Starts(rank int) []int64 {
	out := make([]int64, 0, len(t.Steps)+1)
	end := int64(0)
	c := t.j.st.ranks[t.Ranks[rank]].steps.cursor()
	for _, step := range t.j.steps[t.j.from:] {
		for c.ok && c.p.step < step {
			c.next()
		}
		out, end = append(out, c.p.start*1000), c.p.end*1000
	}
	return append(out, end)
}
