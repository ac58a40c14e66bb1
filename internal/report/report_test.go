package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/analyze/compare"
	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

func write(t testing.TB, dir string, a simjob.Attempt) time.Time {
	t.Helper()
	end, err := a.Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

func read(t testing.TB, dir string) *report.Job {
	t.Helper()
	set, err := job.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := report.Read(set)
	if err != nil || len(jobs) != 1 {
		t.Fatalf("read %d jobs, want 1: %v", len(jobs), err)
	}
	return jobs[0]
}

// faulty writes a job whose rank 3 has a slow data loader from step 60 on. The job is
// killed in step 239 and continues at step 200 after three seconds.
func faulty(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	a := simjob.Attempt{Ranks: 8, Steps: 240, Save: 50, Killed: true, Slow: 3, Extra: [4]float64{14}, SlowAt: 60}
	end := write(t, dir, a)
	a.Number, a.First, a.Start, a.Steps, a.Killed, a.Async, a.SlowAt = 1, 200, end.Add(3*time.Second), 300, false, true, 0
	write(t, dir, a)
	return dir
}

func screen(t testing.TB, r *report.Report) []string {
	t.Helper()
	var out bytes.Buffer
	if err := report.Full(&out, r); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) > 70 {
		t.Errorf("%d lines, want at most 70", len(lines))
	}
	for _, l := range lines {
		if utf8.RuneCountInString(l) > 100 {
			t.Errorf("%d letters, want at most 100: %s", utf8.RuneCountInString(l), l)
		}
	}
	return lines
}

func TestFaultyJob(t *testing.T) {
	r := report.Build(read(t, faulty(t)))
	text := strings.Join(screen(t, r), "\n")
	for _, want := range []string{
		"COMPLETED after 1 restart · 8 ranks, 2 hosts · 39.6 s SLOW RANK Rank 3's data loading (node-a0) delays every step: 17.0 ms, other ranks 3.00 ms.", "▒ down 8", "39 steps repeated, 3.0 s down", "Confidence medium",
		"39 steps redone", "Compare the data loader", "200 … 499", "no proper end", "10 saved", "1 loaded",
	} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
	if v := r.Verdict; v.Attempt != 2 || v.Rank.Kind != finding.SlowRanks || !slices.Equal(v.Rank.Ranks, []int{3}) || r.ExitCode() != 3 {
		t.Errorf("verdict %+v, exit code %d; want slow rank 3 in attempt 2 and exit code 3", v, r.ExitCode())
	}
	if len(r.Attempts) != 2 || r.Attempts[0].LastStep != 238 || r.Attempts[0].Straggler.FromStep < 40 || r.Attempts[1].FirstStep != 200 {
		t.Errorf("attempts %+v, want two: steps to 238, slow from step 40 or later, then from step 200", r.Attempts)
	}
	if d := r.Ledger.Disruptions; len(d) != 1 || d[0].Iterations != 39 || d[0].Down/8 < 29e8 {
		t.Errorf("disruptions %+v, want one of 39 steps, 2.9 s or more down", d)
	}
	var mean float64
	for _, k := range r.Ranks {
		mean += *k.Goodput / 8
	}
	if math.Abs(mean-*r.Goodput) > 0.01 {
		t.Errorf("mean goodput of the ranks is %v, want %v as of the job", mean, *r.Goodput)
	}
	if len(r.Ranks) != 8 || r.Ranks[3].Excess < 12 || r.Ranks[3].Wait > 2 || r.Ranks[2].Wait < 12 {
		t.Errorf("ranks %+v, want 8; rank 3 slow by 12 %% or more, rank 2 waiting", r.Ranks)
	}
	if s := r.Steps; s.Count < 530 || math.Abs(s.Median-67) > 3 || s.Transfer == nil || math.Abs(*s.Transfer-6) > 1 || math.Abs(s.Phases["backward"]-26) > 1 {
		t.Errorf("steps %+v, want 530 or more of about 67 ms, transfer 6 ms, backward 26 ms", s)
	}
	saves, async := 0, 0
	for _, c := range r.Checkpoints {
		if !c.Load {
			saves++
		}
		if c.Background > 0 {
			async++
		}
	}
	if saves != 10 || async != 6 {
		t.Errorf("%d saves, %d in the background, want 10 and 6: %+v", saves, async, r.Checkpoints)
	}
	for _, s := range r.Slowest {
		if s.Duration <= s.Usual || s.Usual <= 0 || s.Alike > 7 {
			t.Errorf("slowest step %+v, want it longer than usual, with at most 7 alike", s)
		}
	}
	// The finding costs what the sentence says that its repair saves.
	if v := r.Verdict.Rank; v.RunTime == 0 || math.Abs(r.Verdict.RankCost-(1-v.RunRepaired/v.RunTime)) > 1e-9 || r.Verdict.RankCost < 0.1 || r.Verdict.RankCost > v.Cost {
		t.Errorf("the rank costs %v, want %v s of %v s, and at most the share %v of the steps", r.Verdict.RankCost, v.RunTime-v.RunRepaired, v.RunTime, v.Cost)
	}
}

func TestSeries(t *testing.T) {
	r := report.Build(read(t, faulty(t)))
	s := r.Series
	for i := range len(s.Time) - 1 {
		var sum float64
		for _, x := range s.Ledger {
			sum += x[i]
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Fatalf("shares of bin %d sum to %v, want 1", i, sum)
		}
	}
	if s.Heat == nil || len(s.Heat.Cells) != len(s.Heat.Ranks)*len(s.Heat.Steps) || len(s.Heat.Ranks) != 8 {
		t.Fatalf("heat map %+v, want 8 ranks and a cell for each rank and step", s.Heat)
	}
	row := func(rank int) (sum int) {
		n := len(s.Heat.Steps)
		for _, c := range s.Heat.Cells[rank*n : (rank+1)*n] {
			sum += int(c)
		}
		return sum / n
	}
	if row(3) < 150 || row(2) > 40 {
		t.Errorf("cell of rank 3 is %d, of rank 2 %d; want at least 150 and at most 40", row(3), row(2))
	}
	if s.Lanes == nil || s.Lanes.Ranks[0] != 3 {
		t.Fatalf("lanes %+v, want rank 3 first", s.Lanes)
	}
	// The parts of each rank in one step add up to the step: own time, wait, transfer.
	for i := range s.Lanes.Ranks {
		var sum float64
		for _, p := range s.Lanes.Parts {
			sum += p.Time[i]
		}
		if math.Abs(sum-s.Lanes.Period) > 0.5 {
			t.Errorf("rank %d: parts of %v ms, want %v ms", s.Lanes.Ranks[i], sum, s.Lanes.Period)
		}
	}
	if n := len(s.Steps.Median); n != r.Steps.Compared || len(s.Steps.Wait) != n || len(s.Steps.Phases["forward"]) != n {
		t.Errorf("%d points of %d compared steps, want equally many in every line", n, r.Steps.Compared)
	}
}

// TestScreen checks that a narrower terminal does not lose sentences or numbers.
func TestScreen(t *testing.T) {
	r := report.Build(read(t, faulty(t)))
	full := strings.Join(r.Screen(100), "\n")
	if have := strings.Join(screen(t, r), "\n"); have != full {
		t.Errorf("Text and Screen differ:\n%s, want %s", have, full)
	}
	for _, columns := range []int{0, 40, 60, 72, 80, 99, 100, 400} {
		lines := r.Screen(columns)
		for _, l := range lines {
			if n := utf8.RuneCountInString(l); n > min(max(columns, 40), 100) {
				t.Errorf("%d columns: a line has %d letters, want at most %d: %s", columns, n, min(max(columns, 40), 100), l)
			}
		}
		text := strings.Join(strings.Fields(strings.Join(lines, " ")), " ")
		if v := &r.Verdict; !strings.Contains(text, v.Outcome) || !strings.Contains(text, v.Why) || !strings.Contains(strings.ToLower(text), v.Next[0]) {
			t.Errorf("%d columns: want the outcome, why and what to do next in full:\n%s", columns, text)
		}
		first := r.First(columns)
		noted := slices.IndexFunc(first, func(l string) bool { return strings.HasPrefix(l, "Note") || strings.Contains(l, "--full") })
		if noted < 0 || !slices.Equal(first[:noted], lines[:noted]) || columns >= 72 && strings.Contains(strings.Join(first, ""), "…") || columns >= 80 && len(first) > 20 {
			t.Errorf("%d columns: want at most 20 lines of the first screen, uncut, as at the start of the full screen; got %d:\n%s", columns, len(first), strings.Join(first, "\n"))
		}
		if columns >= 72 && strings.Contains(text, "…") != strings.Contains(full, "…") {
			t.Errorf("%d columns: text is cut on one screen only:\n%s", columns, strings.Join(lines, "\n"))
		}
	}
}

// TestDevice checks that the phases of steps are those of devices if devices were recorded.
func TestDevice(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, simjob.Attempt{Ranks: 4, Steps: 60, Device: true, Slow: 2, Extra: [4]float64{0, 0, 12}})
	state, err := report.Load(nil, dir)
	if err != nil {
		t.Fatal(err)
	}
	var digest bytes.Buffer
	if err := state.WriteDigest(&digest); err != nil {
		t.Fatal(err)
	}
	again, err := report.ReadDigest(&digest)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*report.State{"traces": state, "digest": again} {
		r := report.Build(s.Jobs()[0])
		v := r.Verdict.Rank
		if !r.Steps.Device || v.Kind != finding.SlowRanks || v.Cause != "backward" || !slices.Equal(v.Ranks, []int{2}) {
			t.Errorf("%s: steps %+v, %s; want device times and rank 2 slow in backward", name, r.Steps, r.Verdict.Sentence)
		}
		if f, b := r.Steps.Phases["forward"], r.Steps.Phases["backward"]; f < 13 || f > 15 || b < 27 || b > 31 || *r.Steps.Wait < 8 || *r.Steps.Wait > 10 {
			t.Errorf("%s: forward %.1f, backward %.1f, wait %.1f ms; want 13 to 15, 27 to 31, 8 to 10", name, f, b, *r.Steps.Wait)
		}
		if text := strings.Join(screen(t, r), "\n"); !strings.Contains(text, "times of the device") {
			t.Errorf("%s: nothing says so:\n%s, want \"times of the device\" in it", name, text)
		}
	}
}

// TestLive checks that a running job has no flags about its missing end, and that a
// rank whose newest records are not written yet is not reported as stopped.
func TestLive(t *testing.T) {
	dir := t.TempDir()
	begin := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	end := write(t, dir, simjob.Attempt{Ranks: 4, Steps: 400, Killed: true, Plain: true, Start: begin})
	shorten := func(rank, bytes int) {
		t.Helper()
		path := filepath.Join(dir, fmt.Sprintf("attempt0-rank%d.pfw", rank))
		info, err := os.Stat(path)
		if err == nil {
			err = os.Truncate(path, info.Size()-int64(bytes))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for rank := range 4 {
		shorten(rank, 100) // the collective of the last step
	}
	for cut := range 10 {
		shorten(2, 90)
		live := report.Live(read(t, dir), end.Add(5*time.Second).UnixNano())
		a := live.Attempts[0]
		if !a.Running || a.Ended || a.Straggler.Kind != finding.Fine || live.Verdict.Confidence != "high" || live.Series != nil {
			t.Errorf("cut to 1/%d: attempt %+v, %s; want it running, without a finding, confidence high", cut, a, live.Verdict.Sentence)
		}
		if text := strings.Join(screen(t, live), "\n"); !strings.Contains(text, "running") || strings.Contains(text, "no proper end") || strings.Contains(text, "goodbye") {
			t.Errorf("cut to 1/%d: want \"running\" and no end on the screen, got\n%s", cut, text)
		}
	}
	later := report.Live(read(t, dir), end.Add(report.Alive+time.Second).UnixNano())
	if text := strings.Join(screen(t, later), "\n"); later.Attempts[0].Running || !strings.Contains(text, "no proper end") || later.Verdict.Confidence != "medium" {
		t.Errorf("long after the last heartbeat: want \"no proper end\" and confidence medium, got\n%s", text)
	}
	// An attempt that is not the last one has ended, even if it is recent.
	write(t, dir, simjob.Attempt{Number: 1, Ranks: 4, Steps: 5, First: 300, Start: end.Add(time.Second)})
	if r := report.Live(read(t, dir), end.Add(2*time.Second).UnixNano()); len(r.Attempts) != 2 || r.Attempts[0].Running || r.Attempts[1].Running {
		t.Errorf("attempts %+v, want two, none running", r.Attempts)
	}
}

// TestBuildNow checks that a full report is about a running job only if run.json says that it runs.
func TestBuildNow(t *testing.T) {
	dir := t.TempDir()
	end := write(t, dir, simjob.Attempt{Ranks: 2, Steps: 60, Killed: true})
	for _, state := range []string{"", rundir.Running, rundir.Ended} {
		j := read(t, dir)
		if state != "" {
			j.Job.Starts = []*rundir.Run{{State: state, Started: end.Add(-time.Minute), Seen: end}}
		}
		r := report.BuildNow(j, end.Add(5*time.Second).UnixNano())
		if got, want := r.Attempts[0].Running, state == rundir.Running; got != want || r.Series == nil || (r.Verdict.Outcome == "RUNNING") != want {
			t.Errorf("state %q: running %v, outcome %s; want %v, and its series", state, got, r.Verdict.Outcome, want)
		}
	}
}

// TestJSON checks that the JSON form has a version, can be decoded, and has no numbers
// that JSON does not support.
func TestJSON(t *testing.T) {
	r := report.Build(read(t, faulty(t)))
	var out bytes.Buffer
	if err := report.JSON(&out, r); err != nil {
		t.Fatal(err)
	}
	var back struct {
		Version int
		Goodput float64
		Verdict struct {
			Sentence   string
			Confidence string
			Straggler  struct{ Ranks []int }
		}
		Ledger struct {
			Categories map[string]int64 `json:"categories_ns"`
			Wall       int64            `json:"wall_ns"`
		}
	}
	if err := json.Unmarshal(out.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, ns := range back.Ledger.Categories {
		sum += ns
	}
	if back.Version != report.Version || sum != 8*back.Ledger.Wall || back.Verdict.Confidence != "medium" || !slices.Equal(back.Verdict.Straggler.Ranks, []int{3}) || back.Goodput < 0.5 {
		t.Errorf("report read back: %+v, want version %d, rank 3, confidence medium, categories that sum to the time of 8 ranks", back, report.Version)
	}
}

// A file with the name of a trace that is not a trace is listed. Other files that are
// not telemetry are only counted.
func TestFilesThatAreNotTelemetry(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, simjob.Attempt{Ranks: 1, Steps: 30})
	for name, text := range map[string]string{"trace-9.pfw.gz": "no gzip", "trace-8.pfw": "no line of a trace", "model.pt": "weights"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	q := report.Build(read(t, dir)).Quality
	if q.Foreign != 1 || len(q.Skipped) != 2 {
		t.Fatalf("%d foreign files, skipped %q; want 1 and two", q.Foreign, q.Skipped)
	}
	for i, name := range []string{"trace-8.pfw", "trace-9.pfw.gz"} {
		if !strings.Contains(q.Skipped[i], name) {
			t.Errorf("skipped file: %q, want %s named", q.Skipped[i], name)
		}
	}
}

// TestOneRank checks that a job of one rank is not compared, and that this is not
// reported as a defect.
func TestOneRank(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, simjob.Attempt{Ranks: 1, Steps: 60, Save: 20})
	r := report.Build(read(t, dir))
	text := strings.Join(screen(t, r), "\n")
	if strings.Contains(text, "insufficient") || strings.Contains(text, "RANKS") || r.ExitCode() != 0 || r.Series.Heat != nil {
		t.Errorf("one rank: want exit code 0 and neither ranks nor \"insufficient\", got %d\n%s", r.ExitCode(), text)
	}
	if r.Verdict.Confidence != "high" || r.Steps.Count < 50 || math.Abs(r.Steps.Phases["backward"]-26) > 1 {
		t.Errorf("verdict %+v, steps %+v; want confidence high, 50 steps or more, backward about 26 ms", r.Verdict, r.Steps)
	}
}

// TestBuildTwice checks that Build does not modify the job.
func TestBuildTwice(t *testing.T) {
	j := read(t, faulty(t))
	if a, b := report.Build(j), report.Build(j); !reflect.DeepEqual(a.Verdict, b.Verdict) || !reflect.DeepEqual(a.Series, b.Series) {
		t.Error("two calls of Build gave different answers, want equal ones")
	}
}

func TestComparable(t *testing.T) {
	runOf := func(name string, a simjob.Attempt) *compare.Run {
		dir := t.TempDir()
		write(t, dir, a)
		return report.Comparable(read(t, dir), name)
	}
	base := runOf("base", simjob.Attempt{Ranks: 4, Steps: 150, Seed: 1})
	if base.WorldSize != 4 || base.Tokens != 4*2048 || len(base.Periods) < 140 || len(base.Phases["input"]) != len(base.Periods) || base.Goodput < 0.5 {
		t.Errorf("%d ranks, %d tokens, %d periods, goodput %v; want 4, 8192, 140 or more, 0.5 or more", base.WorldSize, base.Tokens, len(base.Periods), base.Goodput)
	}
	short := t.TempDir()
	write(t, short, simjob.Attempt{Ranks: 4, Steps: 150, Skip: map[int]bool{3: true}})
	write(t, short, simjob.Attempt{Ranks: 4, Steps: 60, Skip: map[int]bool{0: true, 1: true, 2: true}})
	if cut := report.Comparable(read(t, short), "cut"); !slices.Equal(cut.Missing, []int{3}) || len(base.Missing) != 0 {
		t.Errorf("ranks %v are not compared, %v of a whole job; want 3 and none", cut.Missing, base.Missing)
	}
	for _, s := range base.Account {
		if start := base.Spent.StartUp / 1e9; s.Name == report.PartName("start") && math.Abs(s.Seconds-start) > 1e-6 {
			t.Errorf("the account has a start of %v s, the parts of the run %v s", s.Seconds, start)
		}
	}
	for name, c := range map[string]struct {
		a    simjob.Attempt
		want compare.Kind
	}{
		"same":   {simjob.Attempt{Ranks: 4, Steps: 150, Seed: 2}, compare.NoDifference},
		"slower": {simjob.Attempt{Ranks: 4, Steps: 150, Seed: 3, Extra: [4]float64{5}}, compare.Slower},
		"larger": {simjob.Attempt{Ranks: 5, Steps: 150, Seed: 4}, compare.NotComparable},
		"other":  {simjob.Attempt{Ranks: 4, Steps: 150, Seed: 5, Weights: map[int]float64{0: 1.5, 1: 1.5, 2: 1.5, 3: 1.5}}, compare.NotComparable},
		"short":  {simjob.Attempt{Ranks: 4, Steps: 20, Seed: 6}, compare.NotComparable},
	} {
		if r := compareRuns(base, runOf(name, c.a), nil); r.Kind != c.want {
			t.Errorf("%s: kind %s, want %s: %s", name, r.Kind, c.want, r.Sentence)
		}
	}
}

// TestSlowStart checks that the slow start of each attempt is excluded exactly once,
// whether its steps have known spans or only ends.
func TestSlowStart(t *testing.T) {
	for _, bare := range []bool{false, true} {
		dir := t.TempDir()
		at, step := int64(1_700_000_000_000_000), dftracer.NewKey("pipeline", "train.iteration")
		forward := dftracer.NewKey("compute", "forward")
		all := dftracer.NewKey("comm", "all_reduce")
		for attempt := range 2 {
			w, err := dftracer.Create(filepath.Join(dir, fmt.Sprintf("t%d.pfw", attempt)), &dftracer.Options{Process: dftracer.Process{Attempt: &attempt, SessionTag: "job"}})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 61 {
				dur := int64(1000)
				if i < 10 { // more than a tenth: the rest does not count as a slow start
					dur = 3000
				}
				if !bare {
					w.WriteComplete(&forward, dftracer.Span{TS: at, Dur: dur / 2})
					w.WriteComplete(&all, dftracer.Span{TS: at + dur/2, Dur: dur / 2})
				}
				w.WriteComplete(&step, dftracer.Span{TS: at, Dur: dur}, dftracer.Int("step", int64(60*attempt+i)))
				at += dur
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		next := report.Comparable(read(t, dir), "new")
		const kept = 2 * (60 - 6)
		if r := compareRuns(next, next, nil); len(next.Periods) != kept || r.Steps != [2]int{kept, kept} {
			t.Errorf("bare %v: %d periods, compared %v; want %d in all", bare, len(next.Periods), r.Steps, kept)
		}
	}
}

// saving writes the files of ranks with steps that have no spans but saves; of returns how long a step works and saves.
func saving(t *testing.T, ranks, steps int, of func(rank, step int) (work, save time.Duration)) string {
	t.Helper()
	dir := t.TempDir()
	step, ckpt := dftracer.NewKey("pipeline", "train.iteration"), dftracer.NewKey("checkpoint", "checkpoint.save.sync")
	for rank := range ranks {
		at := int64(1_700_000_000_000_000)
		w, err := dftracer.Create(filepath.Join(dir, "t{rank}.pfw"), &dftracer.Options{Process: dftracer.Process{Rank: &rank, WorldSize: ranks, SessionTag: "job"}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range steps {
			work, save := of(rank, i)
			dur := work.Microseconds() + int64(i%7)
			if save > 0 {
				w.WriteComplete(&ckpt, dftracer.Span{TS: at + dur, Dur: save.Microseconds()})
				dur += save.Microseconds()
			}
			w.WriteComplete(&step, dftracer.Span{TS: at, Dur: dur}, dftracer.Int("step", int64(i)))
			at += dur
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestNothingIsCutFromAllTables checks that the screen with all tables has the lines that the first screen has no
// room for.
func TestNothingIsCutFromAllTables(t *testing.T) {
	r := report.Build(read(t, faulty(t)))
	for i := range 20 {
		r.Verdict.NotKnown = append(r.Verdict.NotKnown, fmt.Sprintf("open question %d", i))
	}
	const more = "more with --full"
	if first := strings.Join(r.First(80), "\n"); !strings.Contains(first, more) || strings.Contains(first, "open question 19") {
		t.Errorf("the first screen is not cut:\n%s", first)
	}
	if all := strings.Join(r.Screen(80), "\n"); strings.Contains(all, "--full") || !strings.Contains(all, "open question 19") {
		t.Errorf("the screen with all tables is cut:\n%s", all)
	}
}

// TestRareSaves checks that steps without spans count like those with a save in them: most steps of a job
// that records nothing else have none.
func TestRareSaves(t *testing.T) {
	r := report.Build(read(t, saving(t, 2, 200, func(rank, i int) (work, save time.Duration) {
		if rank == 0 && i%50 == 25 {
			save = 2 * time.Second
		}
		return 100 * time.Millisecond, save
	})))
	if s := r.Steps; s.Compared < 190 || math.Abs(s.Median-100) > 1 {
		t.Errorf("%d steps compared, median %v ms; want about 199 and 100 ms", s.Compared, s.Median)
	}
	if v := r.Verdict.Rank; v.Kind != finding.Unknown || v.Reason != "no_barrier" || r.ExitCode() != 4 {
		t.Errorf("%s %s, status %d; want unknown, no_barrier, 4", v.Kind, v.Reason, r.ExitCode())
	}
}

// TestElastic checks that an attempt is judged by its own number of ranks: none is missing where the job has shrunk.
func TestElastic(t *testing.T) {
	dir := t.TempDir()
	end := write(t, dir, simjob.Attempt{Ranks: 8, Steps: 30})
	write(t, dir, simjob.Attempt{Number: 1, Ranks: 4, Steps: 200, First: 30, Slow: 2, Extra: [4]float64{0, 0, 20, 0}, Start: end.Add(3 * time.Second)})
	r := report.Build(read(t, dir))
	if r.Ledger.Unmatched > 0 || len(r.Ledger.WaitedFor) == 0 || r.Ledger.WaitedFor[0].Rank != 2 {
		t.Errorf("%d ns are not matched, waits are for %v; want 0, and most for rank 2", r.Ledger.Unmatched, r.Ledger.WaitedFor)
	}
	if v := r.Verdict.Rank; v == nil || v.Kind != finding.SlowRanks || !slices.Equal(v.Ranks, []int{2}) {
		t.Errorf("verdict %+v, want that rank 2 is slow", v)
	}
	if text := strings.Join(screen(t, r), "\n"); strings.Contains(text, "not all members") || strings.Contains(text, "ranks 4") {
		t.Errorf("the screen asks for ranks that the attempt does not have:\n%s", text)
	}
}

// TestLossOfOneRank checks that a loss of one rank has the time of that rank, although others lose time to the same.
func TestLossOfOneRank(t *testing.T) {
	r := report.Build(read(t, saving(t, 4, 100, func(rank, i int) (work, save time.Duration) {
		work = 930 * time.Millisecond
		if rank == 0 {
			work = 100 * time.Millisecond
		}
		if i == 50 {
			save = 100*time.Second - 100*work
		}
		return work, save
	})))
	f := r.Verdict.Finding
	if f == nil || !f.OfOne || !slices.Equal(f.Ranks, []int{0}) {
		t.Fatalf("finding %+v, want one of rank 0", f)
	}
	if f.Lost != 90*int64(time.Second) || len(f.Parts) != 1 || f.Parts[0].Time != f.Lost || f.Cost > 1 {
		t.Errorf("lost %v in %v, cost %v; want 90 s of the rank's 100 s", time.Duration(f.Lost), f.Parts, f.Cost)
	}
}

// The table of many ranks shows both ends, the slowest first, and the table of the time
// has the part in steps.
func TestTablesOfTheScreen(t *testing.T) {
	r := report.Build(read(t, faulty(t)))
	lines := screen(t, r)
	var ranks []string
	for i, l := range lines {
		if strings.HasPrefix(l, "RANKS") {
			for _, l := range lines[i+1:] {
				if l = strings.TrimSpace(l); l == "" {
					break
				}
				ranks = append(ranks, strings.Fields(l)[0])
			}
		}
	}
	if len(ranks) != 7 || ranks[0] != "3" || ranks[3] != "…" || slices.Index(ranks[1:], "3") >= 0 {
		t.Errorf("the table of ranks has %q, want 3 first, 7 rows, the fourth \"…\":\n%s", ranks, strings.Join(lines, "\n"))
	}
	want := fmt.Sprintf("in steps %.1f %%:", *r.Goodput*100)
	if !slices.ContainsFunc(lines, func(l string) bool {
		return strings.HasPrefix(strings.TrimSpace(l), want)
	}) {
		t.Errorf("no line begins with %q in\n%s", want, strings.Join(lines, "\n"))
	}
	if text := strings.Join(lines, "\n"); strings.Contains(text, "contradictory in") {
		t.Error("got a remark about contradictory identities, want none")
	}
}

func compareRuns(base, next *compare.Run, opt *compare.Options) *compare.Result {
	return compare.Sides([]*compare.Run{base}, []*compare.Run{next}, opt)
}
