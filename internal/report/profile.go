package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/profile"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/display"
)

// shownOperators is the largest number of operators in a report.
const shownOperators = 8

// rankUse is the profile of a rank.
type rankUse struct {
	rank int
	use  *profile.Use
}

// usesOf returns the profiles of a job by rank, or nil if a process is not a profile.
func usesOf(j *job.Job, of func(*job.Process) *profile.Use) (out []rankUse) {
	for _, p := range j.Processes {
		u := of(p)
		if u == nil || u.Processes == 0 {
			return nil
		}
		out = append(out, rankUse{p.Rank, u})
	}
	slices.SortStableFunc(out, func(a, b rankUse) int { return cmp.Compare(a.rank, b.rank) })
	return out
}

func usesSum(uses []rankUse) (all profile.Use) {
	for _, u := range uses {
		all.Add(u.use)
	}
	return all
}

func parts(u *profile.Use) map[string]int64 {
	out := make(map[string]int64, profile.Parts)
	for i, ns := range u.Parts {
		out[profile.Part(i).String()] = ns
	}
	return out
}

func hiddenShare(u *profile.Use) *float64 {
	if u.Collectives == 0 {
		return nil
	}
	h := u.Hidden()
	return &h
}

// profiled sets Profile from the profiles of the ranks, if there are any. A profile is
// judged only by its steps, because it does not cover the start and the end of the job.
// begun is false for steps of inference, which have no training loop around them.
func (r *Report) profiled(uses []rankUse, begun bool) {
	if len(uses) == 0 {
		return
	}
	all := usesSum(uses)
	p := &Profile{}
	for _, u := range uses {
		p.Ranks = append(p.Ranks, ProfileRank{Rank: u.rank, Steps: u.use.Steps, Time: u.use.Time, Parts: parts(u.use), Hidden: hiddenShare(u.use)})
	}
	p.Device, p.Steps, p.Time, p.Parts = all.Device, all.Steps, all.Time, parts(&all)
	p.Communication, p.Hidden, p.Window, p.Operators = all.Collectives, hiddenShare(&all), all.Window, all.Operators[:min(len(all.Operators), shownOperators)]
	if all.Window > 0 && !p.foreign() {
		busy := float64(all.Busy) / float64(all.Window)
		p.Busy = &busy
	}
	r.Profile, r.Goodput, r.Figures = p, nil, []account.Figure{} // they apply only to whole jobs
	if ranks := int64(len(r.Ledger.Ranks)); begun && all.Steps > 0 && r.Ledger.Wall > 0 && ranks > 0 {
		g := float64(all.Time) / float64(ranks*r.Ledger.Wall)
		r.Goodput = &g
	}
	r.Ledger.Flags = slices.DeleteFunc(r.Ledger.Flags, func(f account.Flag) bool {
		switch f.Kind {
		case account.NoEnd, account.NoHeartbeat, account.ResumeInferred, account.WarmupUnknown, account.Provisional, account.LostWorkUnknown, account.LocalSteps:
			return true
		}
		return false
	})
}

func (p *Profile) share(part profile.Part) float64 {
	return float64(p.Parts[part.String()]) / float64(max(p.Time, 1))
}

// partActions holds the actions that reduce each part.
var partActions = map[profile.Part]string{
	profile.Communication: "overlap collectives with the backward pass: change the bucket size, send fewer and larger messages, or compute more between them",
	profile.Copies:        "copy from pinned memory with non_blocking=True on a separate stream",
	profile.Input:         "give the data loader more workers or prefetch more",
	profile.Idle:          "give the device more work at once: a larger batch, torch.compile or CUDA graphs, no .item() or print of a tensor in the step",
}

// foreign reports whether the profile has no step and no operator, so that it may be the
// trace of another program.
func (p *Profile) foreign() bool { return p.Steps == 0 && len(p.Operators) == 0 }

// sentence describes how a step is spent.
func (p *Profile) sentence() []string {
	ranks := display.Plural(len(p.Ranks), "rank")
	if p.foreign() {
		return []string{fmt.Sprintf("Whether this is a training job is unknown: %s has no step, operator or kernel of PyTorch's profiler; it may be a Chrome trace of another program.", display.Duration(p.Window/int64(len(p.Ranks))))}
	}
	if p.Steps == 0 {
		text := "Whether this is a training job is unknown: the profile has no training steps"
		if p.Busy != nil {
			what := "An operator of the host ran"
			if p.Device {
				what = "A device worked"
			}
			text += fmt.Sprintf(". %s for %s of %s on %s", what, display.Percent(*p.Busy), display.Duration(p.Window/int64(len(p.Ranks))), ranks)
			if len(p.Operators) > 0 {
				text += fmt.Sprintf(", longest for “%s” (%s)", display.Elide(p.Operators[0].Name, 40), display.Duration(p.Operators[0].Time))
			}
		}
		return []string{text + "."}
	}
	var list []string
	for part := range profile.Part(profile.Parts) {
		if part == profile.Compute || part == profile.Idle || p.Parts[part.String()] > 0 {
			list = append(list, display.Percent(p.share(part))+" "+part.Words(p.Device))
		}
	}
	n := p.Steps
	if each := p.Ranks[0].Steps; len(p.Ranks) > 1 && !slices.ContainsFunc(p.Ranks, func(k ProfileRank) bool { return k.Steps != each }) {
		n, ranks = each, "each of "+ranks
	}
	out := []string{fmt.Sprintf("A step takes %s (mean of %s on %s): %s.", display.Duration(p.Time/int64(p.Steps)), display.Plural(n, "step"), ranks, strings.Join(list, ", "))}
	if p.Hidden != nil {
		out = append(out, fmt.Sprintf("%s of the communication overlaps with compute.", display.Percent(*p.Hidden)))
	}
	return out
}

// next returns actions, the one that gains most first.
func (p *Profile) next() (out []string) {
	if p.foreign() {
		return []string{"show its spans with trainspan open, or record the training with trainspan run or PyTorch's profiler"}
	}
	if p.Steps == 0 {
		return []string{"call the profiler's step() in the training loop, so that the profile has steps"}
	}
	list := []profile.Part{profile.Communication, profile.Copies, profile.Input, profile.Idle}
	slices.SortStableFunc(list, func(a, b profile.Part) int { return cmp.Compare(p.share(b), p.share(a)) })
	for _, part := range list {
		if p.share(part) >= 0.05 && (p.Device || part != profile.Idle) {
			out = append(out, partActions[part])
		}
	}
	return out
}

func (s *screen) profile(p *Profile) {
	if p.Steps > 0 {
		s.head(fmt.Sprintf("WHERE A STEP OF %s WENT", display.Duration(p.Time/int64(p.Steps))))
		for part := range profile.Part(profile.Parts) {
			s.part(part.Words(p.Device), p.share(part), p.Parts[part.String()]/int64(p.Steps))
		}
		s.profileRanks(p)
		return
	}
	if len(p.Operators) == 0 {
		return
	}
	s.head("OPERATORS that took longest")
	var all int64
	for _, op := range p.Operators {
		all = max(all, op.Time)
	}
	for _, op := range p.Operators {
		s.part(op.Name, float64(op.Time)/float64(max(p.Window, 1)), op.Time)
	}
}

func (s *screen) profileRanks(p *Profile) {
	if len(p.Ranks) < 2 {
		return
	}
	list := slices.Clone(p.Ranks)
	slices.SortStableFunc(list, func(a, b ProfileRank) int {
		return cmp.Compare(b.Parts[profile.Compute.String()]*max(a.Time, 1), a.Parts[profile.Compute.String()]*max(b.Time, 1))
	})
	t := &display.Table{Heads: []string{"<RANKS", "a step", "compute", "exposed", "copies", "data", "idle"}, Drop: []string{"copies", "data", "exposed"}}
	const ends = 4
	for i, k := range list {
		if len(list) > 2*ends && i == ends {
			t.Add(append([]string{fmt.Sprintf("  … %d", len(list)-2*ends)}, make([]string, 6)...)...)
		}
		if i >= ends && i < len(list)-ends {
			continue
		}
		of := func(part profile.Part) string {
			return display.Percent(float64(k.Parts[part.String()]) / float64(max(k.Time, 1)))
		}
		t.Add("  "+strconv.Itoa(k.Rank), display.Duration(k.Time/int64(max(k.Steps, 1))), of(profile.Compute), of(profile.Communication), of(profile.Copies), of(profile.Input), of(profile.Idle))
	}
	s.lines = append(s.lines, "")
	s.table(t)
}
