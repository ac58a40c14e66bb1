package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/findingtest"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// holdsRules returns the violations of rules that hold for every report, independent of
// the contents of the folder.
func holdsRules(r *report.Report) (bad []string) {
	say := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	var data bytes.Buffer
	if err := report.JSON(&data, r); err != nil {
		return []string{err.Error()}
	}
	var j struct {
		Goodput *float64
		Profile *struct {
			Steps int
			Busy  *float64 `json:"busy_share"`
		}
		Figures  []struct{ Name string }
		Attempts []struct {
			First   *int64 `json:"first_step"`
			Goodput *float64
		}
		Ranks []struct{ Goodput *float64 }
		Steps struct {
			Count, Compared int
			Median          *float64 `json:"median_ms"`
			Max             *float64 `json:"max_ms"`
		}
		Ledger struct {
			Wall       int64             `json:"wall_ns"`
			Categories map[string]*int64 `json:"categories_ns"`
			Ranks      []struct {
				Categories map[string]*int64 `json:"categories_ns"`
			}
			Iterations struct{ Unfinished int }
		}
	}
	if err := json.Unmarshal(data.Bytes(), &j); err != nil {
		return []string{err.Error()}
	}
	sum := func(of map[string]*int64) (ns int64) {
		for c, v := range of {
			if v == nil || *v < 0 {
				say("category %s is null or negative", c)
				continue
			}
			ns += *v
		}
		return ns
	}
	if got, want := sum(j.Ledger.Categories), int64(len(j.Ledger.Ranks))*j.Ledger.Wall; got != want {
		say("the categories add up to %d, the time is %d", got, want)
	}
	for i, rank := range j.Ledger.Ranks {
		if got := sum(rank.Categories); got != j.Ledger.Wall {
			say("rank %d adds up to %d of %d", i, got, j.Ledger.Wall)
		}
	}
	if j.Steps.Count == 0 && j.Goodput != nil && *j.Goodput > 0 {
		say("goodput %v without a step", *j.Goodput)
	}
	if j.Goodput == nil {
		for _, f := range j.Figures {
			if f.Name == "goodput" || f.Name == "ettr" {
				say("the figure %s is known, goodput is not", f.Name)
			}
		}
		for _, a := range j.Attempts {
			if a.Goodput != nil {
				say("an attempt has a goodput, the job has none")
			}
		}
		for _, k := range j.Ranks {
			if k.Goodput != nil {
				say("a rank has a goodput, the job has none")
			}
		}
	}
	percent := int64(0)
	for _, s := range r.Shares {
		percent += s.Time
	}
	if r.Goodput != nil && r.Profile == nil && percent != sum(j.Ledger.Categories) {
		say("the shares add up to %d, the time is %d", percent, sum(j.Ledger.Categories))
	}
	if v := &r.Verdict; v.Diagnosis == "NO PROBLEM FOUND" && r.Profile == nil {
		for _, s := range r.Shares {
			if s.Part == "communication" && s.Share > 0.1 || s.Part == "other_code" && s.Share > 0.1 {
				say("no problem is found where %s is %.0f %%", s.Name, 100*s.Share)
			}
		}
		if v.Rank != nil && (len(v.Rank.Others) > 0 || v.Rank.Kind != "fine" && len(r.Ranks) > 1) {
			say("no problem is found where the ranks are %s, %d findings more", v.Rank.Kind, len(v.Rank.Others))
		}
		if len(v.NotKnown) == 0 && !r.Steps.Device {
			say("no problem is found, and nothing is said to be unknown")
		}
	}
	if of := &r.Steps; r.Series.Steps != nil && r.Series.Steps.Per == 1 && of.Wait != nil {
		parts, period := *of.Wait+*of.Transfer, 0.0
		for _, ms := range of.Phases {
			parts += ms
		}
		for _, ms := range r.Series.Steps.Median {
			period += ms / float64(len(r.Series.Steps.Median))
		}
		if math.Abs(parts-period) > 0.01*period {
			say("the parts of a step add up to %.4g ms, the step takes %.4g ms", parts, period)
		}
	}
	if (j.Steps.Median == nil) != (j.Steps.Compared == 0) || (j.Steps.Max == nil) != (j.Steps.Compared == 0) {
		say("%d steps compared, median %v", j.Steps.Compared, j.Steps.Median)
	}

	bad = append(bad, holdsFinding(r)...)

	var screen bytes.Buffer
	if err := report.Full(&screen, r); err != nil {
		return append(bad, err.Error())
	}
	text := screen.String()
	section, unknown := "", regexp.MustCompile("is unknown|no training step is on record").MatchString(strings.Join(strings.Fields(text), " "))
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
			section = ""
		case line[0] != ' ' && strings.ToUpper(fields[0]) == fields[0]:
			section = fields[0]
		case section == "ATTEMPTS" && strings.Contains(line, " none "):
			for _, f := range fields {
				if strings.HasSuffix(line, "%") && f != "0.0" {
					say("a share of an attempt without steps: %s", line)
				}
			}
		}
		if strings.Contains(line, "NaN") || strings.Contains(line, "Inf") || strings.Contains(line, "null") {
			say("no word: %s", line)
		}
	}
	if j.Goodput == nil && j.Profile == nil && j.Ledger.Wall > 0 && !unknown {
		say("the screen does not say that the time in steps is unknown")
	}
	if j.Goodput == nil && strings.Contains(text, "in steps ") && strings.Contains(text, "other code and waits in them") {
		say("the screen has a figure for the time in steps, which is not known")
	}
	if out := j.Steps.Count - j.Steps.Compared; out > 0 && !strings.Contains(text, strconv.Itoa(out)+" excluded") {
		say("no line reports the %d excluded steps", out)
	}
	return bad
}

// holdsFinding returns errors in the findings of a report, and differences between its forms.
func holdsFinding(r *report.Report) (bad []string) {
	say := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	for i := range r.Attempts {
		if v := r.Attempts[i].Straggler; v != nil && v != r.Verdict.Rank {
			bad = append(bad, findingtest.CheckVerdict(v)...)
		}
	}
	v := &r.Verdict
	if v.Rank != nil {
		bad = append(bad, findingtest.CheckVerdict(v.Rank)...)
	}
	f := v.Finding
	if f == nil {
		if v.Diagnosis != finding.Fine.Title() && v.Diagnosis != finding.Unknown.Title() {
			say("%s has no finding", v.Diagnosis)
		}
		if v.Rank != nil && v.Rank.Kind.IsProblem() {
			say("%s where the finding about steps is %s", v.Diagnosis, v.Rank.Kind)
		}
		return bad
	}
	bad = append(bad, findingtest.Check(f)...)
	if v.Diagnosis != f.Title() || v.Proof != f.Proof {
		say("the diagnosis is %s with the table %p, the finding has %s and %p", v.Diagnosis, v.Proof, f.Title(), f.Proof)
	}
	if r.Profile == nil && !strings.HasPrefix(v.Why, f.Sentence()) {
		say("the reason is %q, the finding has %q", v.Why, f.Sentence())
	}
	if joined := strings.Join(strings.Fields(strings.Join(r.First(100), " ")), " "); !strings.Contains(joined, strings.Join(strings.Fields(display.Text(f.Sentence())), " ")) && r.Profile == nil && r.Verdict.Outcome == report.Completed {
		say("the screen has no %q:\n%s", f.Sentence(), joined)
	}
	return bad
}

// TestRulesOfReports checks the rules on all available data, and on generated jobs that are
// complete, killed or without a step.
func TestRulesOfReports(t *testing.T) {
	data := filepath.Join("..", "..", "..", "shared", "data")
	for _, pattern := range []string{"dftracer", "fourth/jobs/*", "wild/jobs/*", "gpu/jobs/*", "kineto/torch_trace/*", "../golden/one-logger/*/golden.norm.jsonl"} {
		paths, err := filepath.Glob(filepath.Join(data, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if filepath.Base(path) == "manifest.json" || strings.Contains(path, "no_time") {
				continue
			}
			t.Run(strings.TrimPrefix(path, data), func(t *testing.T) {
				t.Parallel()
				var r *report.Report
				if strings.Contains(path, "kineto") {
					r = imported(t, path)
				} else {
					state, err := report.Load(nil, path)
					if err != nil {
						t.Fatal(err)
					}
					jobs := state.Jobs()
					if len(jobs) == 0 {
						t.Fatal("no job")
					}
					r = report.Build(jobs[0])
				}
				for _, b := range holdsRules(r) {
					t.Errorf("report breaks a rule: %s", b)
				}
			})
		}
	}
	made := func(name string, write func(dir string)) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(dir)
			state, err := report.Load(nil, dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, job := range state.Jobs() {
				for _, b := range holdsRules(report.Build(job)) {
					t.Errorf("report breaks a rule: %s", b)
				}
			}
		})
	}
	for _, kill := range []bool{false, true} {
		for _, steps := range []int{0, 1, 2, 12} {
			made(fmt.Sprintf("%d steps, killed %v", steps, kill), func(dir string) {
				w, err := dftracer.Create(filepath.Join(dir, "a.pfw"), &dftracer.Options{Start: time.Unix(1000, 0)})
				if err != nil {
					t.Fatal(err)
				}
				at := int64(1_000_000_000)
				span := func(cat, name string, dur int64) {
					w.Write(&dftracer.Event{Phase: dftracer.PhaseComplete, Cat: cat, Name: name, TS: at, Dur: dur})
				}
				if span("compute", "compute.init", 500_000); !kill {
					span("ai_root", "ai_root", 3_000_000+int64(steps)*200_000)
				}
				for at += 1_000_000; steps > 0; steps-- {
					span("pipeline", "train.iteration", 150_000)
					at += 200_000
				}
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
	made("a slow group", func(dir string) { // the transfers of the first rank are not those of the others
		j := simjob.Job{Layout: simjob.TPDP, Ranks: 8, Steps: 40, Seed: 7, Faults: []simjob.Fault{{What: simjob.Link, Group: "tp1", Factor: 8}}}
		if _, err := j.Write(dir); err != nil {
			t.Fatal(err)
		}
	})
	made("two attempts", func(dir string) {
		start := time.Unix(2000, 0)
		for n := range 2 {
			end, err := simjob.Attempt{Ranks: 2, Steps: 20, Number: n, Start: start, Killed: n == 0}.Write(dir)
			if err != nil {
				t.Fatal(err)
			}
			start = end.Add(time.Minute)
		}
	})
}
