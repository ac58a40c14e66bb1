package report

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/analyze/straggler/fromjob"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/fsread"
)

// Build returns the full report of a job. It may be called again for the same job.
// A Job is not safe for concurrent use.
func Build(j *Job) *Report { return build(begin(j), j) }

// BuildNow is like [Build], and if run.json says that a start of the job is running, its last attempt is judged as in
// [Live] at time now.
func BuildNow(j *Job, now int64) *Report {
	r := begin(j)
	if slices.ContainsFunc(j.Job.Starts, func(s *rundir.Run) bool { return s.State == rundir.Running }) {
		r.live(j, now)
	}
	return build(r, j)
}

func build(r *Report, j *Job) *Report {
	// The ledger and the steps are independent, and each takes seconds for a large
	// job.
	r.Series = &Series{}
	var wait sync.WaitGroup
	wait.Go(func() { r.Series.time(j, r.Ledger) })
	tables, s := r.answer(j)
	wait.Wait()
	j.series(r.Series, tables, s, r.Verdict.Attempt)
	r.moment = j.findMoment(r)
	return r
}

// Alive is how long after its last record or heartbeat an attempt counts as running
// in [Live]: three times the heartbeat interval of ten seconds.
const Alive = 30 * time.Second

// Live is like [Build] for a job that may still be running at time now, in
// nanoseconds since the Unix epoch. The last attempt is Running if it has no end and
// its last record or heartbeat is less than [Alive] before now. Its missing end is
// then not flagged. The report has no Series, which takes most of the time.
func Live(j *Job, now int64) *Report {
	r := begin(j)
	r.live(j, now)
	r.answer(j)
	return r
}

// live marks the last attempt as running at time now, if it is.
func (r *Report) live(j *Job, now int64) {
	running := noAttempt
	if len(r.Ledger.Attempts) > 0 {
		last := slices.MaxFunc(r.Ledger.Attempts, func(a, b account.AttemptReport) int { return cmp.Compare(a.Attempt, b.Attempt) })
		if !last.Ended && now-last.Stop < int64(Alive) {
			running = last.Attempt
		}
	}
	r.Ledger.Flags = slices.DeleteFunc(r.Ledger.Flags, func(f account.Flag) bool {
		return f.Attempt == running && (f.Kind == account.NoEnd || f.Kind == account.NoHeartbeat)
	})
	// Files are written at different times: a rank whose newest records are older
	// than those of the others need not have stopped. A hang requires records that
	// the others wait.
	for i := range j.Attempts {
		for _, p := range j.Job.Processes {
			if a := &j.Attempts[i]; a.Number == running && p.Attempt == running {
				a.State.SetLive()
				a.State.SetRank(p.Rank, straggler.Rank{LastSeen: p.LastSeen})
			}
		}
	}
	r.running = running
}

const noAttempt = -1

// begin returns a report with the results of the ledger.
func begin(j *Job) *Report {
	led := j.Ledger.Report(account.Query{})
	r := &Report{
		Version: Version, running: noAttempt, Name: j.Name, run: j.runName(), JobID: j.Job.ID, SessionTag: j.Job.SessionTag,
		Ledger: led, Losses: losses(led), Figures: slices.DeleteFunc(led.Figures(j.basis(led)), func(f account.Figure) bool { return !f.Known }),
	}
	if g := led.Ratio(); !math.IsNaN(g) && trainingKnown(j.Job) {
		r.Goodput = &g
	}
	if r.Goodput == nil { // the figures derived from goodput are unknown too
		r.Figures = slices.DeleteFunc(r.Figures, func(f account.Figure) bool { return !f.OfFailures })
	}
	r.profiled(j.uses, slices.ContainsFunc(j.Job.Processes, func(p *job.Process) bool { return p.Steps.Begun }))
	if j.details != nil {
		r.Checkpoints, r.MoreSaves, r.Slowest = j.details.checkpoints, j.details.moreSaves, j.details.slowest
	}
	return r
}

// answer fills in everything except the Series. It returns the steps by attempt, and those
// of all attempts in one list.
func (r *Report) answer(j *Job) ([]*straggler.Table, *steps) {
	tables := r.attempts(j)
	r.silent(j)
	r.readEvidence(j)
	r.outcomes(j.Job, j.corrections)
	r.injected(j.Job)
	r.chooseVerdict()
	r.machine(j, tables)
	r.gpus(j)
	r.ranks(j)
	s := j.timeline(tables)
	r.Steps = s.steps()
	it := &r.Ledger.Iterations
	r.Steps.Count = it.Kept + it.Lost + it.Unfinished
	r.Steps.updates(j.Attempts)
	r.Steps.Device = slices.ContainsFunc(j.Attempts, func(a fromjob.Attempt) bool { return a.Device })
	r.IO = fileIO(j.Job)
	r.Quality = j.quality(r.Ledger)
	var of []string
	r.Steps.Rule, of = job.StepRules(j.Job.Processes)
	r.Quality.Remarks = append(r.Quality.Remarks, of...)
	if err := j.spill.Err(); err != nil {
		r.Quality.Remarks = append(r.Quality.Remarks, fmt.Sprintf("the answers are incomplete: %v", err))
	}
	for i, t := range tables {
		if t != nil && t.Per > 1 {
			r.Quality.Remarks = append(r.Quality.Remarks, fmt.Sprintf("attempt %d was read from a digest with windows of %d steps: figures of steps are those of the mean step of a window, "+
				"first steps are exact to a window, and single late steps are not judged; the totals of the ledger are exact, warm-up is approximate",
				j.Attempts[i].Number, t.Per))
		}
	}
	r.recompiled(j.details, s)
	r.gainsInRun()
	r.limits(j)
	r.conclude()
	r.ownCode(j.Job)
	r.Quality.See = r.sections()
	return tables, s
}

// trainingKnown reports whether the productive time is known. Without a recorded step it is not: the program may
// train in a way that no recorder sees.
func trainingKnown(j *job.Job) bool {
	return slices.ContainsFunc(j.Processes, func(p *job.Process) bool { return p.Steps.Count > 0 })
}

// share returns the productive fraction of some time, or nil if the goodput of the job is
// unknown or the job is a profile.
func (r *Report) share(of account.Totals) *float64 {
	all := of.Sum()
	if r.Goodput == nil || r.Profile != nil {
		return nil
	}
	g := float64(of[account.Productive]) / float64(max(all, 1))
	return &g
}

func losses(led *account.Report) []Loss {
	out := []Loss{}
	all := float64(max(led.Categories.Sum(), 1))
	for c, ns := range led.Categories {
		if c != account.Productive && ns != 0 {
			out = append(out, Loss{Category: c, Time: ns, Share: float64(ns) / all})
		}
	}
	slices.SortFunc(out, func(a, b Loss) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Category, b.Category))
	})
	return out
}

// attempts adds the attempts of the ledger with their verdicts, and returns the steps of each.
func (r *Report) attempts(j *Job) []*straggler.Table {
	verdicts, tables := make([]*straggler.Verdict, len(j.Attempts)), make([]*straggler.Table, len(j.Attempts))
	for i := range j.Attempts {
		verdicts[i], tables[i] = j.Attempts[i].State.Judge()
		if j.Attempts[i].Number == r.running {
			verdicts[i] = j.Attempts[i].State.Lately(verdicts[i])
		}
	}
	of := make(map[int]int, len(j.Attempts))
	for i := range j.Attempts {
		of[j.Attempts[i].Number] = i
	}
	for _, a := range r.Ledger.Attempts {
		out := Attempt{Number: a.Attempt, Start: a.Start, Stop: a.Stop, Latest: a.Latest, Ended: a.Ended, Ranks: a.Ranks, FirstStep: -1, LastStep: -1}
		if a.Attempt == r.running {
			out.Latest = 0 // it has not ended
		}
		out.Goodput = r.share(a.Categories)
		if i, ok := of[a.Attempt]; ok {
			for k, it := range j.Ledger.Iterations(a.Attempt) { // a loop may resume from a checkpoint
				if k == 0 {
					out.FirstStep = it.First
				}
				out.FirstStep, out.LastStep = min(out.FirstStep, it.First), max(out.LastStep, it.Last)
			}
			out.Straggler = verdicts[i]
		}
		r.Attempts = append(r.Attempts, out)
	}
	return tables
}

// silent adds the attempts without any record except their start.
func (r *Report) silent(j *Job) {
	for _, s := range j.Job.Silent {
		a := Attempt{Number: s.Attempt, Start: s.Start, Stop: s.Stop, Ranks: s.Starts, FirstStep: -1, LastStep: -1, Silent: true}
		a.Goodput = r.share(account.Totals{account.Downtime: max(s.Stop-s.Start, 1)})
		r.Attempts = append(r.Attempts, a)
	}
	if len(j.Job.Silent) > 0 {
		slices.SortStableFunc(r.Attempts, func(a, b Attempt) int { return cmp.Compare(a.Start, b.Start) })
	}
}

// chooseVerdict selects the verdict on the running attempt once it has one, and a hang at the end of the job. Otherwise it
// selects the finding about ranks that costs most time of the whole job, and without any finding the verdict on the
// longest attempt. A hang that a later attempt has overcome is no finding: its time is stall and downtime.
func (r *Report) chooseVerdict() {
	var wall float64
	for i := range r.Attempts {
		wall += float64(r.Attempts[i].Stop - r.Attempts[i].Start)
	}
	weight := func(a *Attempt) (found bool, cost, length float64) {
		v := a.Straggler
		length = float64(a.Stop-a.Start) / max(wall, 1)
		return v.Kind.IsProblem(), v.Cost * length, length
	}
	var best, current *Attempt
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if a.Straggler == nil || a.Straggler.Kind == finding.Hang && r.resumed(i) {
			continue
		}
		if a.Number == r.running && a.Straggler.Kind != finding.Unknown {
			current = a
		}
		if best == nil {
			best = a
			continue
		}
		bf, bc, bl := weight(best)
		f, c, l := weight(a)
		if f && !bf || f == bf && (f && c > bc || !f && l > bl) {
			best = a
		}
	}
	if best == nil {
		return
	}
	if last := &r.Attempts[len(r.Attempts)-1]; last.Straggler != nil && last.Straggler.Kind == finding.Hang {
		best = last // its cost is unknown, but the job does not go on without a repair
	} else if current != nil {
		best = current
	}
	r.Verdict.Rank, r.Verdict.Attempt = best.Straggler, best.Number
	var all []straggler.AttemptVerdict
	for i := range r.Attempts {
		if r.Attempts[i].Silent {
			continue
		}
		all = append(all, straggler.AttemptVerdict{Attempt: r.Attempts[i].Number, Verdict: r.Attempts[i].Straggler})
	}
	r.Verdict.Across = straggler.Across(all)
}

// resumed reports whether an attempt after that of an index trains, or has trained enough for a verdict.
func (r *Report) resumed(i int) bool {
	return slices.ContainsFunc(r.Attempts[i+1:], func(a Attempt) bool {
		return a.Straggler != nil && (a.Straggler.Kind != finding.Unknown || a.Number == r.running)
	})
}

// ranks adds the ranks, each with the process of the attempt of the verdict, or else its last one.
func (r *Report) ranks(j *Job) {
	rows := make(map[int]*straggler.RankRow)
	if v := r.Verdict.Rank; v != nil {
		for i := range v.Ranking {
			rows[v.Ranking[i].Rank] = &v.Ranking[i]
		}
	}
	procs := make(map[int]*job.Process)
	for _, p := range j.Job.Processes {
		if q := procs[p.Rank]; q == nil || q.Attempt != r.Verdict.Attempt || p.Attempt == r.Verdict.Attempt {
			procs[p.Rank] = p
		}
	}
	for i := range r.Ledger.Ranks {
		led := &r.Ledger.Ranks[i]
		out := Rank{Rank: led.Rank}
		if p := procs[led.Rank]; p != nil {
			out.Host = p.KnownHost()
			if len(r.Ledger.Ranks) > 1 && !p.RankKnown {
				out.PID, out.File = p.PID, firstSource(p)
			}
		}
		out.Goodput = r.share(led.Categories)
		if row := rows[led.Rank]; row != nil {
			out.Compared, out.Own, out.Excess, out.Wait, out.Last, out.Phases = true, row.Own, row.Excess, row.Wait, row.Last, row.Phases
		}
		r.Ranks = append(r.Ranks, out)
	}
}

// firstSource returns the name of the first file of a process, or "".
func firstSource(p *job.Process) string {
	if len(p.Sources) == 0 {
		return ""
	}
	return filepath.Base(p.Sources[0])
}

// notRecorded returns what the Python client could not record in some process, and why.
func notRecorded(procs []*job.Process) (out []string) {
	for _, p := range procs {
		var missing []string
		if text := p.Facts[job.FactMissing]; text != "" && json.Unmarshal([]byte(text), &missing) == nil {
			out = append(out, missing...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// describeMissing returns a remark about what was not recorded, or "".
func describeMissing(what []string) string {
	if len(what) == 0 {
		return ""
	}
	const most = 3
	return "not recorded: " + strings.Join(what[:min(len(what), most)], "; ")
}

func (j *Job) quality(led *account.Report) Quality {
	q := Quality{Helpers: len(j.Job.Helpers)}
	files := make(map[string]bool)
	for _, p := range append(slices.Clone(j.Job.Processes), j.Job.Helpers...) {
		for _, f := range p.Sources {
			files[f] = true
		}
		q.Spans += p.Spans
		q.BadLines += p.Bad
		q.Dropped += p.Dropped
		q.OtherSignals += p.OtherSignals
		q.Aside += int64(p.Aside)
		q.BadNumbers += p.BadNumbers
		if p.RelativeClock {
			q.Relative++
		}
		if p.Doubt != "" {
			q.Disagree, q.DisagreeOn = q.Disagree+1, cmp.Or(q.DisagreeOn, p.Doubt)
		}
		if p.Torn {
			q.Torn++
		}
	}
	q.NotRecorded = notRecorded(slices.Concat(j.Job.Processes, j.Job.Helpers))
	q.Files = len(files)
	lost := int64(0)
	for _, s := range j.Job.Starts {
		if s.Python != nil {
			lost, q.Waiting = lost+s.Python.Lost, q.Waiting+s.Python.Waiting
		}
	}
	q.Dropped = max(q.Dropped, lost) // a truncated trace lacks its number of dropped spans
	for _, f := range j.Skipped {
		// A file with the name of a trace should be a trace.
		if errors.Is(f, job.ErrForeign) && !fsread.NamedTrace(f.Path) {
			q.Foreign++
			continue
		}
		q.Skipped = append(q.Skipped, f.Error())
	}
	q.Missing = findMissing(j.Job, led)
	device := slices.ContainsFunc(j.Attempts, func(a fromjob.Attempt) bool { return a.Device })
	q.Remarks = append(q.numbered(j.Job), append(q.unlikely(), remarks(led, device)...)...)
	if text := sampledDevices(j.Job.Processes); text != "" {
		q.Remarks = append(q.Remarks, text)
	}
	var far int64
	for _, c := range j.corrections {
		for _, by := range c.Clocks {
			far = max(far, by, -by)
		}
	}
	if far > 0 {
		q.Remarks = append(q.Remarks, fmt.Sprintf("clocks of ranks differ by up to %s (estimated from the ends of collectives): times are those of the lowest rank", display.Duration(far)))
	}
	return q
}

// sampledDevices returns the remark that only some steps have times of their device: as few as on the rank with
// the fewest. It is empty if all steps have them.
func sampledDevices(processes []*job.Process) string {
	rarest, steps := 0, 0
	for _, p := range processes {
		var n, of int
		if _, err := fmt.Sscanf(p.Facts[job.FactSampled], "%d of %d", &n, &of); err == nil && of > n && of > rarest {
			rarest, steps = of, n
		}
	}
	if rarest == 0 {
		return ""
	}
	return fmt.Sprintf("only %d of %d steps have times of their device, because more would slow the job: the others are not compared", steps, rarest)
}

// tokensOf returns the tokens of all ranks in a step (mean over steps), or 0 if those of a rank
// are unknown.
func tokensOf(t *straggler.Table) int64 {
	if t == nil || len(t.Steps) == 0 {
		return 0
	}
	var sum float64
	for rank := range t.Ranks {
		var of []float64
		for i := range t.Steps {
			if v := t.Tokens(rank, i); v == v {
				of = append(of, v)
			}
		}
		if len(of) == 0 {
			return 0
		}
		var total float64
		for _, v := range of {
			total += v
		}
		sum += total / float64(len(of))
	}
	return int64(math.Round(sum))
}

// runName returns the name of a run that trainspan run started, or "" for other jobs.
func (j *Job) runName() string {
	if len(j.Job.Starts) == 0 {
		return ""
	}
	return j.Job.Label
}
