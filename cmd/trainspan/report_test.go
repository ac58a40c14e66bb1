package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/analyze/compare"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

func makeJob(t *testing.T, dir string, a simjob.Attempt) string {
	t.Helper()
	if _, err := a.Write(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func call(args ...string) (code int, out, problems string) {
	var o, e bytes.Buffer
	code = run(context.Background(), args, ui.Streams{In: strings.NewReader(""), Out: &o, Err: &e})
	return code, o.String(), e.String()
}

// TestCheckOfAllRuns checks that report --all --check shows all runs, and that a slow rank in one
// of them decides the status.
func TestCheckOfAllRuns(t *testing.T) {
	dir := t.TempDir()
	makeJob(t, filepath.Join(dir, "a"), simjob.Attempt{Ranks: 4, Steps: 80, Slow: 2, Extra: [4]float64{12}, Tag: "slow", Start: noon})
	makeJob(t, filepath.Join(dir, "b"), simjob.Attempt{Ranks: 4, Steps: 80, Tag: "fine", Start: noon.Add(time.Hour)})
	makeJob(t, filepath.Join(dir, "c"), simjob.Attempt{Ranks: 4, Steps: 80, NoComm: true, Tag: "hidden", Start: noon.Add(2 * time.Hour)})
	status, out, said := call("report", "--all", "--check", dir)
	for _, label := range []string{"slow.1", "fine.1", "hidden.1"} {
		if !strings.Contains(out, label+"\n\n") {
			t.Errorf("the output has no %s:\n%s", label, out)
		}
	}
	if status != 3 {
		t.Errorf("status %d, want 3: %s", status, said)
	}
}

func TestReport(t *testing.T) {
	dir := t.TempDir()
	slow := makeJob(t, filepath.Join(dir, "slow"), simjob.Attempt{Ranks: 4, Steps: 80, Slow: 2, Extra: [4]float64{12}})
	fine := makeJob(t, filepath.Join(dir, "fine"), simjob.Attempt{Ranks: 4, Steps: 80, Weights: map[int]float64{0: 1.5, 1: 1.5, 2: 1.5, 3: 1.5}}) // less than a tenth is communication
	hidden := makeJob(t, filepath.Join(dir, "hidden"), simjob.Attempt{Ranks: 4, Steps: 80, NoComm: true})
	page, notes := filepath.Join(dir, "report.html"), filepath.Join(dir, "notes.pfw")
	if err := os.WriteFile(notes, []byte("a trace"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		out  string
		err  string
	}{
		{[]string{"report", slow}, 0, "Rank 2's data loading delays every step: ", ""},
		{[]string{"report", slow, "--check"}, 3, "data loading", ""},
		{[]string{"report", fine, "--check", "--html", page}, 0, "NO PROBLEM FOUND", ""},
		{[]string{"report", hidden, "--check"}, 4, "do not show", ""},
		{[]string{"report", slow, "--json", "--check"}, 3, `"version": 1`, ""},
		{[]string{"report"}, 2, "", "trainspan-runs has no run"},
		{[]string{"report", filepath.Join(dir, "none")}, 2, "", "none"},
		{[]string{"report", page}, 2, "", "not a trace"},
		{[]string{"report", fine, "--html", filepath.Join(dir, "none", "x.html")}, 2, "", "none"},
		{[]string{"report", fine, "--html", page}, 0, "NO PROBLEM FOUND", ""}, // an earlier page may be replaced
		{[]string{"report", fine, "--html", notes}, 2, "", "is not a report of trainspan"},
		{[]string{"report", fine, "--html", dir}, 2, "", "is not a report of trainspan"},
	} {
		code, out, problems := call(c.args...)
		if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(problems, c.err) || c.err == "" && problems != "" {
			t.Errorf("%v: status %d, want %d; want %q in the output\n%s\nand %q in the errors\n%s", c.args, code, c.code, c.out, out, c.err, problems)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil || !bytes.Contains(text, []byte("<!doctype html>")) {
		t.Errorf("page of the report: %v, %.100s; want an HTML document", err, text)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || left != nil {
		t.Errorf("temporary files left: %v, %v; want none", left, err)
	}
}

// TestCompareOfTwoJobs checks that compare reports which job of several it uses,
// with a remedy that it has.
func TestCompareOfTwoJobs(t *testing.T) {
	dir := t.TempDir()
	makeJob(t, filepath.Join(dir, "a"), simjob.Attempt{Ranks: 2, Steps: 30, Tag: "small"})
	makeJob(t, filepath.Join(dir, "b"), simjob.Attempt{Ranks: 4, Steps: 60, Tag: "large", Start: time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)})
	_, _, said := call("compare", filepath.Join(dir, "a"), dir)
	if !strings.Contains(said, dir+": large.1 is compared, and not 1 other job in the same files: small.1; name the files of one job") || strings.Contains(said, "--run") {
		t.Errorf("compare reports %q, want the job that it uses, and no --run", said)
	}
}

func TestReportOfTwoJobs(t *testing.T) {
	dir := t.TempDir()
	makeJob(t, filepath.Join(dir, "a"), simjob.Attempt{Ranks: 2, Steps: 30, Tag: "small"})
	makeJob(t, filepath.Join(dir, "b"), simjob.Attempt{Ranks: 4, Steps: 60, Tag: "large", Start: time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)})
	code, out, problems := call("report", dir, "--json")
	var r struct {
		Tag   string `json:"session_tag"`
		Ranks []any  `json:"ranks"`
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 || r.Tag != "large" || len(r.Ranks) != 4 || strings.Count(problems, "\n") != 1 || !strings.Contains(problems, "1 other job in the same files: small.1; --run small.1") {
		t.Errorf("report: status %d, %v, %+v; want job large with 4 ranks and one message that names small.1\n%s", code, err, r, problems)
	}
}

// TestCompareNamesTheRank checks that compare reports a run whose rank 0 takes
// 12 ms longer for backward as slower by this time, and that the parts add up to
// the difference of the runs.
func TestCompareNamesTheRank(t *testing.T) {
	dir := t.TempDir()
	base := makeJob(t, filepath.Join(dir, "base"), simjob.Attempt{Ranks: 4, Steps: 120, Seed: 1})
	slow := makeJob(t, filepath.Join(dir, "slow"), simjob.Attempt{Ranks: 4, Steps: 100, Seed: 2, Extra: [4]float64{0, 0, 12}})
	_, out, problems := call("compare", base, slow, "--json")
	var r compare.Result
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Difference == nil || len(r.Parts) < 5 {
		t.Fatalf("compare --json: %v, want a difference in 5 or more parts: %s%s", err, out, problems)
	}
	var seconds, ms float64
	for _, p := range r.Parts {
		seconds, ms = seconds+*p.Seconds, ms+p.StepMS
	}
	if first := r.Parts[0]; first.Words() != "backward of rank 0" || math.Abs(first.StepMS-11.6) > 0.5 || math.Abs(seconds-*r.Difference) > 1e-9 || math.Abs(ms-r.StepMS) > 1e-9 {
		t.Errorf("first part is %+v, the parts sum to %v s of %v s and %v ms of %v ms; want backward of rank 0, 11.6 ms per step, and equal sums", first, seconds, *r.Difference, ms, r.StepMS)
	}
}

func TestCompare(t *testing.T) {
	dir := t.TempDir()
	base := makeJob(t, filepath.Join(dir, "base"), simjob.Attempt{Ranks: 4, Steps: 120, Seed: 1})
	same := makeJob(t, filepath.Join(dir, "same"), simjob.Attempt{Ranks: 4, Steps: 120, Seed: 2})
	slow := makeJob(t, filepath.Join(dir, "slow"), simjob.Attempt{Ranks: 4, Steps: 120, Seed: 3, Scale: 1.05})
	slower := makeJob(t, filepath.Join(dir, "slower"), simjob.Attempt{Ranks: 4, Steps: 120, Seed: 5, Scale: 1.05})
	other := makeJob(t, filepath.Join(dir, "other"), simjob.Attempt{Ranks: 2, Steps: 120, Seed: 4})
	for _, c := range []struct {
		args []string
		code int
		out  string
		err  string
	}{
		{[]string{"compare", base, same, "--fail-over", "3%"}, 0, "step, median", ""},
		{[]string{"compare", base, slow, "--fail-over", "3%"}, 3, "slower", ""},
		{[]string{"compare", base, slow, "--fail-over", "0.08"}, 0, "slower", ""},
		{[]string{"compare", slow, base}, 0, "faster", ""},
		{[]string{"compare", base, slow, "--markdown"}, 3, "| median step |", ""},
		{[]string{"compare", base, slow, "--json"}, 3, `"kind": "slower"`, ""},
		{[]string{"compare", base, slow}, 3, "transfers  ", ""},
		{[]string{"compare", base, same, "--", slow, slower}, 3, "with 2 runs of one and 2 of the other", ""},
		{[]string{"compare", base, same, slow, slower}, 4, "4 runs are too few to measure their spread", ""},
		{[]string{"compare", base, "--"}, 2, "", "name two, such as latest~1 latest"},
		{[]string{"compare", "--", base}, 2, "", "name two, such as latest~1 latest"},
		{[]string{"compare", base, other}, 4, "world size", ""},
		{[]string{"compare", base}, 2, "", "name two, such as latest~1 latest"},
		{[]string{"compare", base, same, "--fail-over", "much"}, 2, "", "3%"},
		{[]string{"compare", base, same, "--fail-over", "3"}, 2, "", "3%"},
		{[]string{"compare", base, same, "--margin", "0"}, 2, "", "margin"},
		{[]string{"compare", base, same, "--json", "--markdown"}, 2, "", "choose one"},
		{[]string{"compare", base, filepath.Join(dir, "none")}, 2, "", "none"},
	} {
		code, out, problems := call(c.args...)
		if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(problems, c.err) || c.err == "" && problems != "" {
			t.Errorf("%v: status %d, want %d; want %q in the output\n%s\nand %q in the errors\n%s", c.args, code, c.code, c.out, out, c.err, problems)
		}
	}
}

// TestLimits checks that the FLOPs of a step and the peak are set by flags or by
// the configuration.
func TestLimits(t *testing.T) {
	dir := makeJob(t, filepath.Join(t.TempDir(), "job"), simjob.Attempt{Ranks: 2, Steps: 40, Seed: 1})
	for _, c := range []struct {
		env  map[string]string
		args []string
		code int
		says string
	}{
		{nil, nil, 0, ""},
		{nil, []string{"--flops-per-step", "2e12", "--peak", "100e12"}, 0, "MFU   "},
		{nil, []string{"--flops-per-step", "2e12"}, 2, "needs --peak"},
		{nil, []string{"--peak", "2e12"}, 2, "needs --flops-per-step"},
		{nil, []string{"--peak", "-1"}, 2, "--peak -1"},
		{nil, []string{"--peak", "NaN"}, 2, "--peak NaN"},
		{map[string]string{"TRAINSPAN_PEAK_FLOPS": "100000000000000"}, []string{"--flops-per-step", "2e12"}, 0, "MFU   "},
		{map[string]string{"TRAINSPAN_PEAK_FLOPS": "100000000000000", "TRAINSPAN_FLOPS_PER_SAMPLE": "1000000000", "TRAINSPAN_GLOBAL_BATCH_SIZE": "32"}, nil, 0, "MFU   "},
		{map[string]string{"TRAINSPAN_PEAK_FLOPS": "much"}, nil, 0, ""},
		{map[string]string{"TRAINSPAN_PEAK_FLOPS": "much"}, []string{"--flops-per-step", "2e12"}, 2, "TRAINSPAN_PEAK_FLOPS"},
	} {
		t.Run(fmt.Sprint(c.args, len(c.env)), func(t *testing.T) {
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			code, out, problems := call(append([]string{"report", dir}, c.args...)...)
			if code != c.code || !strings.Contains(out+problems, c.says) || c.says == "" && strings.Contains(out, "MFU") {
				t.Errorf("status %d, want %d and %q: %s%s", code, c.code, c.says, out, problems)
			}
		})
	}
}

// TestPageWithoutFolder checks that a page in a folder that does not exist is refused like other
// outputs, before anything is read.
func TestPageWithoutFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "x.html")
	if status, _, wrong := cli(t, "report", t.TempDir(), "--html", path); status != ui.StatusUse || !strings.Contains(wrong, path+": its directory does not exist; create it first") {
		t.Errorf("status %d, %q, want that the directory does not exist", status, wrong)
	}
}
