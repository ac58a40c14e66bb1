package pytorch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trainspan/trainspan/integrations/pytorch/kineto"
)

// maxCollectives bounds how many collectives of one rank are matched with
// those of the others.
const maxCollectives = 1 << 20

// rankCollective is a collective of one rank, times with the base added.
type rankCollective struct {
	key        collectiveKey
	start, end int64
	seq        int64 // of the row, to find it again
	symmetric  bool
}

// collectiveKey names a collective across ranks: its process group, operation
// and position.
type collectiveKey struct {
	pg, op  string
	ordinal int64
}

// commWait is what only the other ranks tell about a collective.
type commWait struct {
	wait     int64 // ns until the last rank arrived
	lastRank int64
}

// collectCollectives lists the collectives of the process in order of start.
func (p *process) collectCollectives(ctx context.Context) error {
	if p.hasComm {
		it := p.device.Iter()
		for n := 0; len(p.collectives) < maxCollectives; n++ {
			if n&0xfff == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			r := it.Next()
			if r == nil {
				break
			}
			if r.kind != kineto.KindKernel || r.extra == "" {
				continue
			}
			c := decodeCollective(r.extra)
			p.addCollective(&c, r)
		}
		if err := it.Err(); err != nil {
			return err
		}
	}
	slices.SortFunc(p.collectives, func(a, b rankCollective) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.seq, b.seq))
	})
	next := map[collectiveKey]int64{}
	for i := range p.collectives {
		k := &p.collectives[i].key
		if k.ordinal >= 0 {
			continue
		}
		k.ordinal = 0
		group := collectiveKey{pg: k.pg}
		k.ordinal = next[group]
		next[group]++
	}
	return nil
}

func (p *process) addCollective(c *collective, r *row) {
	key := collectiveKey{pg: c.pg, op: c.op, ordinal: -1}
	if c.seq >= 0 && c.op != "send" && c.op != "receive" {
		key.ordinal = c.seq
	}
	p.collectives = append(p.collectives, rankCollective{
		key: key, start: r.start + p.base, end: r.end + p.base, seq: r.seq, symmetric: c.symmetric(),
	})
}

// RankReport says how the ranks of a job were put on one time axis.
type RankReport struct {
	// Ranks lists the ranks in the order of the files.
	Ranks []int64
	// Matched counts collectives found on every rank.
	Matched int
	// Offsets were added to each rank's times; Estimated is what the ends of
	// the collectives said, also where it was too small to act on.
	Offsets, Estimated []time.Duration
	// EndSpread is the largest difference between the ends of one collective
	// over the ranks after alignment, StartSpread the same for starts.
	EndSpread, StartSpread time.Duration
	// Collectives has one entry per matched collective, in order of time, at
	// most ten thousand.
	Collectives []CollectiveSkew
	// Note is a sentence when ranks could not be aligned.
	Note string
}

// CollectiveSkew describes one collective over all ranks.
type CollectiveSkew struct {
	// Op is the operation, Group its process group, "" when not recorded.
	Op, Group string
	// Start is the first arrival.
	Start time.Time
	// StartSpread is how long the first rank waited for the last, EndSpread the
	// residual skew of the clocks.
	StartSpread, EndSpread time.Duration
	// LastRank arrived last.
	LastRank int64
}

const maxSkews = 10_000

// windows groups the traces that belong together: the first of every rank, the
// second of every rank, and so on. Traces without a rank stand alone.
func windows(procs []*process) [][]*process {
	var out [][]*process
	byRank := map[int64][]*process{}
	for _, p := range procs {
		if p.rank >= 0 {
			byRank[p.rank] = append(byRank[p.rank], p)
		}
	}
	for _, rank := range sortedRanks(byRank) {
		list := byRank[rank]
		slices.SortStableFunc(list, func(a, b *process) int { return cmp.Compare(a.window[0]+a.base, b.window[0]+b.base) })
		for i, p := range list {
			if i == len(out) {
				out = append(out, nil)
			}
			out[i] = append(out[i], p)
		}
	}
	return out
}

// alignRanks matches the collectives of the processes, moves their clocks when
// they differ, and fills in who waited for whom.
func alignRanks(procs []*process, opts *Options) *RankReport {
	if len(procs) < 2 {
		return nil
	}
	rep := &RankReport{Offsets: make([]time.Duration, len(procs)), Estimated: make([]time.Duration, len(procs))}
	for _, p := range procs {
		rep.Ranks = append(rep.Ranks, p.rank)
	}
	index := make([]map[collectiveKey]int, len(procs))
	for i, p := range procs {
		index[i] = make(map[collectiveKey]int, len(p.collectives))
		for k, c := range p.collectives {
			if _, dup := index[i][c.key]; !dup {
				index[i][c.key] = k
			}
		}
	}
	var matched [][]int // per collective, its index on every rank
	for k, c := range procs[0].collectives {
		if index[0][c.key] != k {
			continue
		}
		at := make([]int, len(procs))
		ok := true
		for i := range procs {
			if at[i], ok = index[i][c.key]; !ok {
				break
			}
		}
		if ok {
			matched = append(matched, at)
		}
	}
	rep.Matched = len(matched)
	if len(matched) == 0 {
		rep.Note = "no collective is on every rank: the clocks were left as they are"
		return rep
	}
	estimate(procs, matched, rep)
	if !opts.NoAlignment && rep.Note == "" {
		for i, p := range procs {
			if d := rep.Estimated[i]; d.Abs() > opts.MinSkew {
				rep.Offsets[i] = d
				p.offset = int64(d)
				p.report.ClockOffset = d
				p.report.guess(fmt.Sprintf("the clock was moved by %s so that collectives end together", d))
			}
		}
	}
	skews(procs, matched, rep)
	return rep
}

// estimate takes the median difference of the ends of symmetric collectives to
// those of the first rank.
func estimate(procs []*process, matched [][]int, rep *RankReport) {
	for i := 1; i < len(procs); i++ {
		var diffs []int64
		for _, at := range matched {
			if ref := procs[0].collectives[at[0]]; ref.symmetric {
				diffs = append(diffs, ref.end-procs[i].collectives[at[i]].end)
			}
		}
		if len(diffs) == 0 {
			rep.Note = "no collective that ends at one moment on all ranks: the clocks were left as they are"
			return
		}
		slices.Sort(diffs)
		rep.Estimated[i] = time.Duration(diffs[len(diffs)/2])
	}
}

func skews(procs []*process, matched [][]int, rep *RankReport) {
	for _, p := range procs {
		p.waits = make(map[int64]commWait, len(matched))
	}
	for _, at := range matched {
		first := procs[0].collectives[at[0]]
		sk := CollectiveSkew{Op: first.key.op, Group: first.key.pg}
		minStart, maxStart := first.start+procs[0].offset, first.start+procs[0].offset
		minEnd, maxEnd := first.end+procs[0].offset, first.end+procs[0].offset
		sk.LastRank = rankOf(procs, 0)
		for i := 1; i < len(procs); i++ {
			c := procs[i].collectives[at[i]]
			start, end := c.start+procs[i].offset, c.end+procs[i].offset
			if start > maxStart {
				maxStart, sk.LastRank = start, rankOf(procs, i)
			}
			minStart = min(minStart, start)
			minEnd, maxEnd = min(minEnd, end), max(maxEnd, end)
		}
		sk.Start = time.Unix(0, minStart)
		sk.StartSpread, sk.EndSpread = time.Duration(maxStart-minStart), time.Duration(maxEnd-minEnd)
		rep.StartSpread, rep.EndSpread = max(rep.StartSpread, sk.StartSpread), max(rep.EndSpread, sk.EndSpread)
		for i, p := range procs {
			c := p.collectives[at[i]]
			p.waits[c.seq] = commWait{wait: maxStart - c.start - p.offset, lastRank: sk.LastRank}
		}
		if len(rep.Collectives) < maxSkews {
			rep.Collectives = append(rep.Collectives, sk)
		}
	}
}

// rankOf returns the rank of a process, its position when it has none.
func rankOf(procs []*process, i int) int64 {
	if procs[i].rank >= 0 {
		return procs[i].rank
	}
	return int64(i)
}

func (r *RankReport) text(b *strings.Builder) {
	fmt.Fprintf(b, "ranks %v: %d collectives on all of them\n", r.Ranks, r.Matched)
	if r.Note != "" {
		fmt.Fprintf(b, "  %s\n", r.Note)
	}
	for i, d := range r.Estimated {
		fmt.Fprintf(b, "  rank %d: clock differs by %s, moved by %s\n", r.Ranks[i], -d, r.Offsets[i])
	}
	fmt.Fprintf(b, "  arrivals spread by up to %s, ends by up to %s\n", r.StartSpread, r.EndSpread)
	last := map[int64]int{}
	for _, c := range r.Collectives {
		last[c.LastRank]++
	}
	for _, rank := range sortedRanks(last) {
		fmt.Fprintf(b, "  rank %d arrived last %d times\n", rank, last[rank])
	}
}

func sortedRanks[V any](m map[int64]V) []int64 {
	keys := make([]int64, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
