package hang

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/analyze/finding"
)

// Meeting is the combined result of the dumps of several ranks: the collective
// at which a group waits, and which ranks are in it.
type Meeting struct {
	// Ranks are the ranks that the others wait for: those that did not enter, or
	// entered another collective than most. It is empty if all entered the same, or
	// two collectives have equally many ranks.
	Ranks []int
	// Mismatch is set if ranks entered different collectives.
	Mismatch bool
	Text     string
}

// place is a rank at a collective.
type place struct {
	rank int
	op   Op
}

// stuck is a group at a collective that some of its ranks entered and did not
// complete.
type stuck struct {
	group   *Group
	seq     int64
	at      int64 // when the first rank enqueued it
	here    []place
	missing []int // they have a dump, and did not enter
	passed  []int // they completed it
}

// Meet returns the ranks that did not enter a collective. It is nil if the
// dumps show no waiting rank. Of several dumps of a rank it uses the newest.
func Meet(dumps []*Dump) *Meeting {
	newest := make(map[int]*Dump)
	for _, d := range dumps {
		if was := newest[d.Rank]; d.Rank >= 0 && (was == nil || was.At < d.At) {
			newest[d.Rank] = d
		}
	}
	all := standing(newest)
	if len(all) == 0 {
		return nil
	}
	// A rank that waits in another group, or for a message, did not stop by itself:
	// the rank that it waits for may have.
	waits := make(map[int]*stuck)
	for _, s := range all {
		for _, p := range s.here {
			if waits[p.rank] == nil {
				waits[p.rank] = s
			}
		}
	}
	for _, s := range all {
		absent := slices.DeleteFunc(slices.Clone(s.missing), func(r int) bool { return waits[r] != nil || newest[r].AtMessage })
		if len(absent) > 0 {
			return &Meeting{Ranks: absent, Text: fmt.Sprintf("%s did not enter %s, in which %s", finding.RankList(absent), s.name(s.here[0].op), s.who())}
		}
	}
	for _, s := range all {
		if m := s.differ(); m != nil {
			return m
		}
	}
	for _, s := range all {
		if m := s.ahead(); m != nil {
			return m
		}
	}
	for _, s := range all {
		if len(s.missing) == 0 {
			continue
		}
		// All wait, in different groups: none is first.
		m := &Meeting{Text: fmt.Sprintf("%s did not enter %s, in which %s", finding.RankList(s.missing), s.name(s.here[0].op), s.who())}
		other := waits[s.missing[0]]
		if other == nil {
			m.Text += fmt.Sprintf("; rank %d waits for a message", s.missing[0])
			return m
		}
		m.Mismatch = true
		m.Text += fmt.Sprintf(", but entered %s", other.name(other.opOf(s.missing[0])))
		if 2*len(s.missing) < len(s.missing)+len(s.here) {
			m.Ranks = s.missing
		}
		return m
	}
	s := all[0]
	return &Meeting{Text: fmt.Sprintf("all ranks with a dump entered %s, and it did not complete", s.name(s.here[0].op))}
}

// standing returns the waiting groups, those that wait for longest first.
func standing(dumps map[int]*Dump) (out []*stuck) {
	type key struct{ name, desc, ranks string }
	of := make(map[key]*stuck)
	seen := make(map[key][]int)
	each := func(fn func(k key, rank int, g *Group)) {
		for _, rank := range slices.Sorted(maps.Keys(dumps)) {
			for i := range dumps[rank].Groups {
				g := &dumps[rank].Groups[i]
				fn(key{g.Name, g.Desc, fmt.Sprint(g.Ranks)}, rank, g)
			}
		}
	}
	each(func(k key, rank int, g *Group) {
		seen[k] = append(seen[k], rank)
		if len(g.Open) == 0 {
			return
		}
		if s := of[k]; s == nil || g.Open[0].Seq < s.seq {
			of[k] = &stuck{group: g, seq: g.Open[0].Seq}
		}
	})
	each(func(k key, rank int, g *Group) {
		s := of[k]
		if s == nil {
			return
		}
		if i := slices.IndexFunc(g.Open, func(o Op) bool { return o.Seq == s.seq }); i >= 0 {
			if at := g.Open[i].At; len(s.here) == 0 || at < s.at {
				s.at = at
			}
			s.here = append(s.here, place{rank, g.Open[i]})
		} else if g.Enqueued < s.seq {
			s.missing = append(s.missing, rank)
		} else {
			s.passed = append(s.passed, rank)
		}
	})
	for k, s := range of {
		for rank := range dumps { // it is a member that never used the group, or too long ago
			if !slices.Contains(seen[k], rank) && slices.Contains(s.group.Ranks, rank) {
				s.missing = append(s.missing, rank)
			}
		}
		slices.Sort(s.missing)
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *stuck) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.group.Name, b.group.Name), cmp.Compare(a.group.Desc, b.group.Desc), slices.Compare(a.group.Ranks, b.group.Ranks))
	})
	return out
}

// ahead finds ranks that did not complete what others completed. It names them
// if they are the minority.
func (s *stuck) ahead() *Meeting {
	if len(s.passed) == 0 {
		return nil
	}
	var here []int
	for _, p := range s.here {
		here = append(here, p.rank)
	}
	m := &Meeting{Text: fmt.Sprintf("%s did not complete %s, which %s completed", finding.RankList(here), s.name(s.here[0].op), finding.RankList(s.passed))}
	if len(here) < len(s.passed)+len(s.missing) {
		m.Ranks = here
	}
	return m
}

// differ finds ranks that entered another collective than most of them.
func (s *stuck) differ() *Meeting {
	type what struct{ name, shape string }
	count := make(map[what]int)
	for _, p := range s.here {
		count[what{p.op.Name, p.op.Shape}]++
	}
	if len(count) < 2 {
		return nil
	}
	if !s.allSame(func(o Op) string { return o.Name }) { // their sizes may differ
		count = make(map[what]int)
		for _, p := range s.here {
			count[what{name: p.op.Name}]++
		}
	} else if unequal[s.here[0].op.Name] {
		return nil
	}
	m := &Meeting{Mismatch: true}
	var most what
	for w, n := range count {
		if 2*n > len(s.here) {
			most = w
		}
	}
	var parts []string
	for _, p := range s.here {
		if most != (what{}) && p.op.Name == most.name && (most.shape == "" || p.op.Shape == most.shape) {
			continue
		}
		if most != (what{}) {
			m.Ranks = append(m.Ranks, p.rank)
		}
		if len(parts) < 4 {
			parts = append(parts, fmt.Sprintf("rank %d with %s", p.rank, p.op.says()))
		} else if len(parts) == 4 {
			parts = append(parts, "…")
		}
	}
	m.Text = fmt.Sprintf("ranks entered number %d of group %s with different collectives: %s", s.seq, s.group.label(), strings.Join(parts, ", "))
	if most != (what{}) {
		m.Text += fmt.Sprintf("; most with %s", strings.TrimSpace(most.name+" "+most.shape))
	}
	return m
}

// unequal are the collectives in which sizes may differ between ranks.
var unequal = map[string]bool{"all_to_all": true, "alltoall": true, "alltoall_base": true, "all_to_allv": true, "gather": true, "scatter": true, "coalesced": true,
	"all_gather": true, "_all_gather_base": true, "reduce_scatter": true, "broadcast": true, "barrier": true}

func (s *stuck) allSame(of func(Op) string) bool {
	return !slices.ContainsFunc(s.here, func(p place) bool { return of(p.op) != of(s.here[0].op) })
}

func (s *stuck) opOf(rank int) Op {
	for _, p := range s.here {
		if p.rank == rank {
			return p.op
		}
	}
	return s.here[0].op
}

// name returns a collective with its number and group.
func (s *stuck) name(op Op) string {
	out := fmt.Sprintf("%s %d of group %s", op.Name, s.seq, s.group.label())
	if op.Where != "" {
		out += " (" + op.Where + ")"
	}
	return out
}

func (o *Op) says() string {
	out := strings.TrimSpace(o.Name + " " + o.Shape)
	if o.Where != "" {
		out += " at " + o.Where
	}
	return out
}

func (g *Group) label() string {
	if g.Desc == "" || g.Desc == "undefined" {
		return g.Name
	}
	return g.Desc
}

// who returns the ranks that entered.
func (s *stuck) who() string {
	var here []int
	for _, p := range s.here {
		here = append(here, p.rank)
	}
	if len(here) == 1 {
		return finding.RankList(here) + " waits"
	}
	return finding.RankList(here) + " wait"
}
