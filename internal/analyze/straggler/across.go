package straggler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/analyze/finding"
)

// AttemptVerdict is the verdict on one attempt of a job.
type AttemptVerdict struct {
	Attempt int // attempt number
	Verdict *Verdict
}

// Blame is the likely cause of a slowdown that recurs across attempts.
type Blame string

// Values of [Blame].
const (
	BlameHost   Blame = "host"   // other ranks on the same host were slow too, or the rank was fine on another host
	BlameRank   Blame = "rank"   // the same rank was slow on several hosts: its data, its work or its place in the model
	BlameEither Blame = "either" // always the same rank on the same host: either may be the cause
)

// Recurrence is a rank or a host that was slow or lost in several attempts of a job, or a host that a rank
// was slow on and recovered when it moved elsewhere.
type Recurrence struct {
	Blame Blame  `json:"blame"`
	Ranks []int  `json:"ranks"`
	Host  string `json:"host,omitempty"` // empty if the hosts are unknown or not to blame
	// Attempts lists the attempts with a finding; Judged counts the attempts that could have named these
	// ranks.
	Attempts []int `json:"attempts"`
	Judged   int   `json:"attempts_judged"`
	// Suspected reports whether some of the attempts only suspect the rank.
	Suspected bool   `json:"suspected,omitempty"`
	Sentence  string `json:"sentence"`
}

// blamed is one rank that one attempt names or suspects.
type blamed struct {
	attempt, rank int
	host          string
	suspected     bool
}

// Across combines the verdicts of the attempts of a job. A slow device or host stays slow, so a rank or a
// host that recurs is stronger evidence than a single attempt. If a rank moved to another host, Across
// distinguishes the rank from the host. The order of attempts does not matter. Uneven work, uneven numbers
// of steps and the saves of checkpoints are not the fault of a rank and are left out. The recurrence with the
// most attempts comes first; the result is empty if nothing recurs.
func Across(attempts []AttemptVerdict) []Recurrence {
	attempts = slices.SortedStableFunc(slices.Values(attempts), func(a, b AttemptVerdict) int { return cmp.Compare(a.Attempt, b.Attempt) })
	var all []blamed
	var out []Recurrence
	for i := range attempts {
		all = append(all, attempts[i].blamed()...)
	}
	of := func(holds func(b blamed) bool) []blamed {
		return slices.DeleteFunc(slices.Clone(all), func(b blamed) bool { return !holds(b) })
	}
	done := map[int]bool{} // ranks that a slow host explains
	for _, h := range hostsOf(all) {
		bs := of(func(b blamed) bool { return b.host == h })
		ranks, numbers := ranksOf(bs), attemptsOf(bs)
		// Ranks that are all named in every attempt share one fault: they are no more evidence than one rank.
		if len(numbers) < 2 || len(ranks) < 2 || len(bs) == len(ranks)*len(numbers) {
			continue
		}
		out = append(out, Recurrence{Blame: BlameHost, Host: h, Ranks: ranks, Attempts: numbers})
		for _, r := range ranks {
			done[r] = done[r] || len(hostsOf(of(func(b blamed) bool { return b.rank == r }))) == 1
		}
	}
	for _, r := range ranksOf(all) {
		if done[r] {
			continue
		}
		bs := of(func(b blamed) bool { return b.rank == r })
		rc := Recurrence{Blame: BlameEither, Ranks: []int{r}, Attempts: attemptsOf(bs)}
		if hosts := hostsOf(bs); len(hosts) > 1 {
			rc.Blame = BlameRank
		} else if len(hosts) == 1 {
			if rc.Host = hosts[0]; fineElsewhere(attempts, r, rc.Host) {
				rc.Blame = BlameHost
			}
		}
		// Merge ranks of one host with the same history into one recurrence.
		like := slices.IndexFunc(out, func(o Recurrence) bool {
			return o.Host != "" && o.Host == rc.Host && o.Blame == rc.Blame && slices.Equal(o.Attempts, rc.Attempts)
		})
		switch {
		case len(rc.Attempts) < 2 && rc.Blame != BlameHost:
		case like >= 0:
			out[like].Ranks = append(out[like].Ranks, r)
		default:
			out = append(out, rc)
		}
	}
	for i := range out {
		rc := &out[i]
		rc.Suspected = slices.ContainsFunc(all, func(b blamed) bool {
			return b.suspected && slices.Contains(rc.Ranks, b.rank) && slices.Contains(rc.Attempts, b.attempt)
		})
		for k := range attempts {
			if attempts[k].judges(rc) {
				rc.Judged++
			}
		}
		rc.Sentence = rc.describe()
	}
	slices.SortStableFunc(out, func(a, b Recurrence) int { return cmp.Compare(len(b.Attempts), len(a.Attempts)) })
	return out
}

// blamed returns the ranks that an attempt names. If the reason is hidden waits, it also returns the
// suspects.
func (a *AttemptVerdict) blamed() (out []blamed) {
	v := a.Verdict
	if v == nil {
		return nil
	}
	for _, f := range append([]finding.Finding{v.Finding}, v.Others...) {
		ownFault := f.Kind == finding.SlowRanks && f.Cause != Checkpoint.String() || f.Kind == finding.Hang && f.Cause != finding.CauseUneven
		if !ownFault {
			continue
		}
		for _, r := range f.Ranks {
			if !slices.ContainsFunc(out, func(b blamed) bool { return b.rank == r }) {
				out = append(out, blamed{a.Attempt, r, a.host(r), false})
			}
		}
	}
	// A rank that is suspected only because its data is missing does not count as a recurrence.
	if v.Kind == finding.Unknown && v.Reason == reasonHidden {
		for _, r := range v.Suspects {
			out = append(out, blamed{a.Attempt, r, a.host(r), true})
		}
	}
	return out
}

// host returns the host of a rank in this attempt. It returns "" if the host is unknown or if all ranks run
// on one host, because that host cannot be told apart from the rank.
func (a *AttemptVerdict) host(rank int) string {
	rows := a.Verdict.Ranking
	if i := slices.IndexFunc(rows, func(row RankRow) bool { return row.Rank == rank }); i >= 0 {
		if !slices.ContainsFunc(rows, func(row RankRow) bool { return row.Host != rows[i].Host }) {
			return ""
		}
		return rows[i].Host
	}
	if len(a.Verdict.Ranks) == 1 && a.Verdict.Ranks[0] == rank && len(a.Verdict.Hosts) == 1 {
		return a.Verdict.Hosts[0] // too few steps for a ranking
	}
	return ""
}

// judges reports whether an attempt could have named the ranks.
func (a *AttemptVerdict) judges(rc *Recurrence) bool {
	if slices.Contains(rc.Attempts, a.Attempt) {
		return true
	}
	return a.Verdict != nil && a.Verdict.Kind != finding.Unknown &&
		slices.ContainsFunc(a.Verdict.Ranking, func(row RankRow) bool { return slices.Contains(rc.Ranks, row.Rank) })
}

// fineElsewhere reports whether a rank that was slow on host was judged on another host and was not slow
// there.
func fineElsewhere(attempts []AttemptVerdict, rank int, host string) bool {
	for i := range attempts {
		a := &attempts[i]
		if a.Verdict == nil || a.Verdict.Kind == finding.Unknown {
			continue
		}
		if h := a.host(rank); h != "" && h != host && !slices.ContainsFunc(a.blamed(), func(b blamed) bool { return b.rank == rank }) {
			return true
		}
	}
	return false
}

func ranksOf(bs []blamed) []int {
	return distinct(bs, func(b blamed) int { return b.rank })
}

func attemptsOf(bs []blamed) []int {
	return distinct(bs, func(b blamed) int { return b.attempt })
}

func hostsOf(bs []blamed) []string {
	return slices.DeleteFunc(distinct(bs, func(b blamed) string { return b.host }), func(h string) bool { return h == "" })
}

func distinct[T cmp.Ordered](bs []blamed, of func(blamed) T) []T {
	var out []T
	for _, b := range bs {
		out = append(out, of(b))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (rc *Recurrence) describe() string {
	was, rank := "was slow or lost", "the rank"
	if rc.Suspected {
		was = "was slow, lost or suspected"
	}
	if len(rc.Ranks) > 1 {
		was, rank = "were"+was[3:], "a rank"
	}
	in := fmt.Sprintf("%d of %d attempts (%s)", len(rc.Attempts), rc.Judged, strings.Trim(strings.ReplaceAll(fmt.Sprint(rc.Attempts), " ", ", "), "[]"))
	who := finding.Capital(finding.RankList(rc.Ranks))
	switch {
	case rc.Blame == BlameHost && len(rc.Attempts) > 1:
		return fmt.Sprintf("%s %s on host %s in %s: the cause is the host, not %s.", who, was, rc.Host, in, rank)
	case rc.Blame == BlameHost:
		return fmt.Sprintf("%s %s on host %s in %s, and not on another host: the cause is the host, not %s.", who, was, rc.Host, in, rank)
	case rc.Blame == BlameRank:
		return fmt.Sprintf("%s %s on different hosts in %s: the cause is the work of this rank, not the host.", who, was, in)
	}
	on := ""
	if rc.Host != "" {
		on = ", each time on host " + rc.Host
	}
	return fmt.Sprintf("%s %s in %s%s.", who, was, in, on)
}
