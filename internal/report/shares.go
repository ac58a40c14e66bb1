package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/profile"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/platform/display"
)

// Share is a part of the time of all ranks, or of the steps of a profile. The shares of a report
// add up to that time. Screens, the page and comparisons show the same list.
type Share struct {
	// Name is the display name: "compute", "wait for rank 2", "data, rank 2".
	Name string `json:"name"`
	// Part is the identifier for programs: a key of productive_parts_ns, "wait" for all waits,
	// "start" for all parts of a start, or else a category. In a profile it is a key of
	// parts_ns, or "wait" for the waits in its communication.
	Part string `json:"part"`
	// Rank is the rank that was waited for, or that has nearly all of the time.
	Rank  *int    `json:"rank,omitempty"`
	Time  int64   `json:"ns"` // of all ranks together
	Share float64 `json:"share"`

	own int64 // the part of Time of Rank, if the rank has it itself
}

// The parts that are neither parts of the productive time nor categories.
const (
	partWait  = "wait"
	partStart = "start"

	partRecompile = "recompilation" // of the model in later steps
)

const (
	// ofOneRank is the fraction of a share above which it is attributed to one rank.
	ofOneRank = 0.8
	// mostWaitedFor is the largest number of ranks with a wait of their own in the list.
	// Each of them accounts for at least waitedPart of all waiting: smaller waits are
	// normal if step times vary.
	mostWaitedFor = 2
	waitedPart    = 0.25
)

// partOf returns the part of the share to which a category belongs.
func partOf(c account.Category) string {
	switch c {
	case account.Init, account.Warmup, account.CheckpointLoad:
		return partStart
	case account.Wait:
		return partWait
	}
	if c.IsStartUp() {
		return partStart
	}
	return string(c)
}

// partNames holds the display names of parts and of categories, if they differ from the identifier.
var partNames = map[string]string{
	string(account.Productive): "in steps", string(account.OtherCode): "other code", string(account.StepUnsplit): "steps, not split",
	string(account.DataWait): "data", string(account.Downtime): "down", string(account.LostWork): "lost steps",
	string(account.CheckpointSave): "save", string(account.Unobserved): "not recorded", string(account.Other): "other, no span",
	string(account.Validation): "evaluation", string(account.Testing): "testing",
	string(account.Init): "initialization", string(account.Warmup): "warm-up", string(account.CheckpointLoad): "load",
}

// PartName returns the display name of the part of a [Share], without its rank, or of a category. Names of
// the parts of a start begin with "start: ".
func PartName(part string) string {
	c := account.Category(part)
	switch {
	case part != partStart && partOf(c) == partStart:
		part = strings.TrimPrefix(part, "startup.")
		return "start: " + cmp.Or(partNames[part], strings.ReplaceAll(part, "_", " "))
	case c.IsCustom():
		return "“" + strings.TrimPrefix(part, "custom.") + "”"
	}
	return cmp.Or(partNames[part], strings.ReplaceAll(part, "_", " "))
}

// startName returns the display name of a category that is part of a start, as a list of these shows it.
func startName(c account.Category) string {
	if c == account.Other {
		return "in no span"
	}
	return strings.TrimPrefix(PartName(string(c)), "start: ")
}

// shares divides the time of all ranks into the parts of the productive time, the waiting by
// the rank that was waited for, and the other categories. The largest comes first.
func (r *Report) shares() []Share {
	if p := r.Profile; p != nil {
		return r.profileShares(p)
	}
	led := r.Ledger
	if r.Goodput == nil || led.Wall == 0 {
		return nil
	}
	total := make(map[string]int64)
	by := make(map[string]map[int]int64) // by part and rank
	add := func(part string, rank int, ns int64) {
		if ns == 0 {
			return
		}
		total[part] += ns
		if by[part] == nil {
			by[part] = make(map[int]int64)
		}
		by[part][rank] += ns
	}
	for i := range led.Ranks {
		rank := &led.Ranks[i]
		for part, ns := range r.partsInSteps(rank) {
			add(part, rank.Rank, ns)
		}
		_, again := r.recompileTime(rank)
		for c, ns := range rank.Categories {
			if c == account.Warmup {
				ns -= again
			}
			if c != account.Productive {
				add(partOf(c), rank.Rank, ns-rank.BeforeSteps[c])
				add(partStart, rank.Rank, rank.BeforeSteps[c])
			}
		}
	}
	var out []Share
	all := float64(max(led.Categories.Sum(), 1))
	give := func(name, part string, rank *int, ns, own int64) {
		if ns > 0 {
			out = append(out, Share{name, part, rank, ns, float64(ns) / all, own})
		}
	}
	// Waiting for messages is shown with the messages: more micro-batches reduce it.
	moved := min(led.Bubble, total[partWait])
	if 2*moved < total[string(account.Communication)]+moved {
		moved = 0
	}
	total[partWait] -= moved
	total[string(account.Communication)] += moved
	for part, ns := range total {
		if part == partWait {
			continue
		}
		name, rank, own := PartName(part), (*int)(nil), int64(0)
		switch {
		case part == string(account.Communication) && (moved > 0 || total[partWait] == 0 && r.mostlyMessages(ns)):
			name = messagesName
		case part == string(account.Communication) && r.mayWaitInCollectives():
			name = "collectives and waits in them"
		case part == string(account.StepUnsplit) && r.Steps.Device:
			name = "steps on devices"
		}
		if len(led.Ranks) > 1 {
			for of, t := range by[part] {
				if float64(t) >= ofOneRank*float64(ns) {
					rank, own, name = &of, t, fmt.Sprintf("%s, rank %d", name, of)
				}
			}
		}
		give(name, part, rank, ns, own)
	}
	rest := total[partWait]
	for _, w := range led.WaitedFor {
		ns := min(w.Time-w.InInit, rest)
		if moved == 0 && len(out) > 0 && ns > 0 && float64(ns) >= waitedPart*float64(total[partWait]) && countPart(out, partWait) < mostWaitedFor {
			give(fmt.Sprintf("wait for rank %d", w.Rank), partWait, &w.Rank, ns, 0)
			rest -= ns
		}
	}
	others := "wait for others"
	if rest == total[partWait] {
		others = "wait for other ranks"
	}
	give(others, partWait, nil, rest, 0)
	sortShares(out)
	return out
}

// partsInSteps divides the productive time of a rank. The ledger does not divide steps that run on a device:
// there the time in which the device is idle because of the host's code is other code. Recompilations are
// taken out of the computation around them.
func (r *Report) partsInSteps(rank *account.RankReport) map[string]int64 {
	parts := make(map[string]int64)
	left := rank.Categories[account.Productive]
	for part, ns := range rank.ProductiveParts {
		parts[string(part)] += ns
		left -= ns
	}
	unsplit := string(account.StepUnsplit)
	parts[unsplit] += left
	again, inWarmup := r.recompileTime(rank)
	parts[partRecompile] = inWarmup
	again -= inWarmup
	for _, part := range [...]string{string(account.Compute), unsplit, string(account.OtherCode)} {
		ns := min(again, max(parts[part], 0))
		parts[part] -= ns
		parts[partRecompile] += ns
		again -= ns
	}
	if idle := int64(r.idleOfDevice() * float64(parts[unsplit])); idle > 0 {
		parts[unsplit] -= idle
		parts[string(account.OtherCode)] += idle
	}
	return parts
}

// idleOfDevice returns the fraction of the steps in which a device is idle because the host runs other code:
// of the time in steps without that of saves and of waits for data, which are categories of their own. It is
// 0 if the steps do not have times of devices.
func (r *Report) idleOfDevice() float64 {
	if !r.Steps.Device {
		return 0
	}
	var all float64
	for name, ms := range r.Steps.Phases {
		if name != straggler.Input.String() && name != straggler.Checkpoint.String() {
			all += ms
		}
	}
	for _, ms := range [...]*float64{r.Steps.Wait, r.Steps.Transfer} {
		if ms != nil {
			all += *ms
		}
	}
	// The time from step to step includes evaluations between them, which are categories of their own.
	c, steps := r.Ledger.Categories, float64(r.Steps.Compared)*float64(max(len(r.Ranks), 1))
	between := float64(c[account.Validation]+c[account.Testing]) / 1e6 / max(steps, 1)
	idle := r.Steps.Phases[straggler.Host.String()] - between
	if idle <= 0 || all <= between {
		return 0
	}
	return idle / (all - between)
}

// messagesName is the name of communication that is mostly waiting for messages of other stages.
const messagesName = "messages and waits for them"

// mostlyMessages reports whether the diagnosis of the steps, which knows more senders than the
// ledger, finds that half of the communication or more is waiting for messages: the bubble of a
// pipeline.
func (r *Report) mostlyMessages(communication int64) bool {
	v := r.Verdict.Rank
	return v != nil && v.Waits != nil && v.Waits.Bubble > 0 && 2000*v.Waits.Bubble >= communication
}

func countPart(list []Share, part string) (n int) {
	for i := range list {
		if list[i].Part == part {
			n++
		}
	}
	return n
}

func sortShares(list []Share) {
	slices.SortFunc(list, func(a, b Share) int { return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Name, b.Name)) })
}

// profileShares divides the time in the steps of a profile. It shows the waiting of its ranks
// for each other separately from the transfer.
func (r *Report) profileShares(p *Profile) (out []Share) {
	if p.Steps == 0 {
		return nil
	}
	give := func(name, part string, rank *int, ns int64) {
		if ns > 0 {
			out = append(out, Share{name, part, rank, ns, float64(ns) / float64(max(p.Time, 1)), 0})
		}
	}
	for part := range profile.Part(profile.Parts) {
		key, ns := part.String(), p.Parts[part.String()]
		name := part.Words(p.Device)
		if part == profile.Communication {
			if wait := r.waitingIn(p); wait > 0 {
				name, ns = "transfer", ns-wait
				if v := r.Verdict.Rank; v != nil {
					if rank, ok := waitedMostFor(v.Waits); ok {
						give(fmt.Sprintf("wait for rank %d", rank), partWait, &rank, wait)
					} else {
						give("wait for other ranks", partWait, nil, wait)
					}
				}
			}
		}
		give(name, key, nil, ns)
	}
	sortShares(out)
	return out
}

// waitingIn returns how long the ranks of a profile waited for each other in exposed
// communication. It is estimated from the share of waiting in the compared steps.
func (r *Report) waitingIn(p *Profile) int64 {
	v := r.Verdict.Rank
	if v == nil || v.Waits == nil {
		return 0
	}
	return min(int64(math.Round(v.Waits.Share*float64(p.Time))), p.Parts[profile.Communication.String()])
}

// condensed is a share for the first screen, in whole percents that add up to 100.
type condensed struct {
	Share
	Percent int
}

// condense keeps the largest shares and sums up the others, and those that round to 0 %, in
// one more. It returns at most most shares.
func condense(list []Share, most int) []condensed {
	n := len(list)
	for n > 0 && list[n-1].Share < 0.005 {
		n--
	}
	if n == len(list)-1 { // the sum of a single share needs no name of its own
		n--
	}
	if n > most || n == most && n < len(list) {
		n = most - 1
	}
	var out []condensed
	for _, s := range list[:n] {
		out = append(out, condensed{Share: s})
	}
	if n < len(list) {
		rest := Share{Name: display.Plural(len(list)-n, "other")}
		if n == 0 {
			rest.Name = fmt.Sprintf("%d parts", len(list))
		}
		for _, s := range list[n:] {
			rest.Time, rest.Share = rest.Time+s.Time, rest.Share+s.Share
		}
		out = append(out, condensed{Share: rest})
	}
	percents(out)
	return out
}

// percents rounds shares to percents that add up to 100: the shares that lose most by rounding
// down are rounded up.
func percents(list []condensed) {
	if len(list) == 0 {
		return
	}
	left := 100
	order := make([]int, len(list))
	lost := make([]float64, len(list))
	for i := range list {
		exact := 100 * list[i].Share.Share
		list[i].Percent = int(exact)
		lost[i], order[i] = exact-math.Floor(exact), i
		left -= list[i].Percent
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(lost[b], lost[a]) })
	for i := 0; left > 0; i, left = (i+1)%len(order), left-1 {
		list[order[i]].Percent++
	}
}
