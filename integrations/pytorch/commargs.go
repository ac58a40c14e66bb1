package pytorch

// waited adds what the other ranks tell about a collective.
func (o *out) waited(c *collective, row int64) {
	w, ok := o.p.waits[row]
	if !ok {
		return
	}
	o.us("wait_us", max(w.wait, 0))
	o.known("last_rank", w.lastRank)
	if c.groupSize > int64(w.ranks) {
		o.int("ranks_compared", int64(w.ranks))
	}
}

// commArgs adds what is known of a collective.
func (o *out) commArgs(c *collective) {
	o.text("coll", c.coll)
	o.text("pg", c.pg)
	o.text("pg_desc", c.pgDesc)
	o.known("group_size", c.groupSize)
	o.text("dtype", c.dtype)
	o.known("in_bytes", c.inBytes)
	o.known("out_bytes", c.outBytes)
	if c.inBytes < 0 {
		o.known("in_elements", c.inElems)
	}
	o.known("seq", c.seq)
	o.known("src", c.src)
	o.known("dst", c.dst)
}
