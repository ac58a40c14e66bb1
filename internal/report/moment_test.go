package report_test

import (
	"bytes"
	"fmt"
	"html"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

var momentLine = regexp.MustCompile(`In the trace: ([^<]*)\. This command opens it in Perfetto: <button[^>]*>Copy</button><br><code class="command">([^<]*)</code>`)

// TestMoment checks that the page has the moment at which the traces show the finding, and the
// command that opens it with the culprit and a rank that waits for it.
func TestMoment(t *testing.T) {
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		job   simjob.Attempt
		what  string // empty if no trace shows it
		files int
		one   bool // all ranks are in one file
	}{
		"slow rank":   {simjob.Attempt{Ranks: 4, Steps: 120, Slow: 2, Extra: [4]float64{14}}, "ranks 2 and ", 2, false},
		"one file":    {simjob.Attempt{Ranks: 4, Steps: 120, Slow: 2, Extra: [4]float64{14}}, "ranks 2 and ", 1, true},
		"checkpoints": {simjob.Attempt{Ranks: 2, Steps: 100, Save: 1}, "ranks ", 2, false},
		"one rank":    {simjob.Attempt{Ranks: 1, Steps: 120}, "rank 0, ", 1, false},
	} {
		tc.job.Start = at
		dir := filepath.Join(t.TempDir(), "a job's")
		end, err := tc.job.Write(dir)
		if err != nil {
			t.Fatal(err)
		}
		if tc.one {
			concatenate(t, dir)
		}
		r := report.Build(read(t, dir))
		text := page(t, r)
		m := momentLine.FindStringSubmatch(text)
		if (m != nil) != (tc.what != "") {
			t.Errorf("%s, %s: the page has %q, want %q", name, r.Verdict.Diagnosis, m, tc.what)
		}
		if m == nil {
			continue
		}
		what, command := html.UnescapeString(m[1]), html.UnescapeString(m[2])
		if n := strings.Count(command, ".pfw.gz'"); n != tc.files {
			t.Errorf("%s: %d files, want %d: %s", name, n, tc.files, command)
		}
		if !strings.Contains(what, tc.what) || !strings.HasPrefix(what, "step ") {
			t.Errorf("%s: %q, want a step and %q", name, what, tc.what)
		}
		_, flags, _ := strings.Cut(command, " --from ")
		first, last, _ := strings.Cut(flags, " --to ")
		from, err1 := time.Parse(time.RFC3339Nano, first)
		to, err2 := time.Parse(time.RFC3339Nano, last)
		if err1 != nil || err2 != nil || from.Before(at) || !from.Before(to) || to.After(end.Add(time.Second)) || to.Sub(from) > 5*time.Second {
			t.Errorf("%s: from %v to %v, want some steps between %v and %v: %s", name, from, to, at, end, command)
		}
		if strings.Contains(command, "' --rank 2,") != tc.one {
			t.Errorf("%s: want --rank in the command only if no other rank is in the file (%v), got %s", name, tc.one, command)
		}
		if !strings.HasPrefix(command, "trainspan open '") || !strings.Contains(command, `a job'\''s/`) {
			t.Errorf("%s: want quoted files in the command, got %s", name, command)
		}
	}
}

// TestMomentOfHang checks that the moment of a hang is the step in which the ranks wait.
func TestMomentOfHang(t *testing.T) {
	dir := t.TempDir()
	j := simjob.Job{Layout: simjob.DP, Ranks: 4, Steps: 40, Seed: 7, Faults: []simjob.Fault{{What: simjob.Hang, Ranks: []int{2}, Phase: simjob.Backward, From: 36, Watchdog: 30000}}}
	if _, err := j.Write(dir); err != nil {
		t.Fatal(err)
	}
	r := report.Build(read(t, dir))
	m := momentLine.FindStringSubmatch(page(t, r))
	if m == nil || !strings.HasPrefix(m[1], fmt.Sprintf("step %d of ", r.Verdict.Rank.FromStep)) {
		t.Errorf("the moment is %q, want step %d: %s", m, r.Verdict.Rank.FromStep, r.Verdict.Why)
	}
}

// losing writes the trace of one process for each kind of loss that an interval of a trace shows: a
// start of 400 s, 20 steps of 10 s, and what costs most.
func losing(t *testing.T, kind finding.Kind, at time.Time) string {
	t.Helper()
	dir := t.TempDir()
	span := func(w *dftracer.Writer, cat, name string, from, to int, args ...dftracer.Arg) {
		w.Write(&dftracer.Event{Phase: dftracer.PhaseComplete, ID: w.NextID(), Cat: cat, Name: name, PID: 7, TID: 7, TS: at.Add(time.Duration(from) * time.Second).UnixMicro(), Dur: int64(to-from) * 1e6, Args: args, Parent: dftracer.NoParent})
	}
	write := func(number, begin, first, start, pause int) {
		w, err := dftracer.Create(filepath.Join(dir, fmt.Sprintf("trace-%d.pfw", number)), &dftracer.Options{Start: at.Add(time.Duration(begin) * time.Second), Process: dftracer.Process{PID: 7, Host: "a", JobID: "1", Attempt: &number}})
		if err != nil {
			t.Fatal(err)
		}
		now := begin
		span(w, "startup", "imports", now, now+start)
		now += start
		for step := range 20 {
			if kind == finding.Evaluation && step == 10 {
				span(w, "pipeline", "evaluate", now, now+pause)
				now += pause
			} else if step == 10 {
				now += pause
			}
			span(w, "compute", "forward", now, now+10)
			span(w, "pipeline", "train.iteration", now, now+10, dftracer.Int("step", int64(first+step)))
			now += 10
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	switch kind {
	case finding.StartUp:
		write(0, 0, 0, 400, 0)
	case finding.LostWork: // the second attempt continues at step 5
		write(0, 0, 0, 1, 0)
		write(1, 205, 5, 1, 0)
	default:
		write(0, 0, 0, 1, 300)
	}
	return dir
}

// TestMomentOfLosses checks that the page has the moment of each kind of loss that a trace shows.
func TestMomentOfLosses(t *testing.T) {
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	for kind, want := range map[finding.Kind]struct {
		what     string
		from, to int // seconds; half as much is shown around them
	}{
		finding.StartUp:    {"attempt 1, rank 0, ", 0, 410},
		finding.Evaluation: {"attempt 1, rank 0, ", 101, 401},
		finding.Other:      {"attempt 1, rank 0, ", 101, 401},
		finding.LostWork:   {"attempt 1, rank 0, ", 51, 201},
		finding.Recompile:  {"step 20 of attempt 1, rank 0, ", 0, 0},
	} {
		dir := ""
		if kind == finding.Recompile {
			dir = compiling(t)
		} else {
			dir = losing(t, kind, at)
		}
		r := report.Build(read(t, dir))
		if f := r.Verdict.Finding; f == nil || f.Kind != kind {
			t.Errorf("finding %+v of %q, want %s", f, r.Verdict.Diagnosis, kind)
			continue
		}
		m := momentLine.FindStringSubmatch(page(t, r))
		if m == nil {
			t.Errorf("%s: the page has no command that opens the time of the finding", kind)
			continue
		}
		if !strings.HasPrefix(html.UnescapeString(m[1]), want.what) {
			t.Errorf("%s: %q, want %q", kind, m[1], want.what)
		}
		_, flags, _ := strings.Cut(m[2], " --from ")
		first, last, _ := strings.Cut(flags, " --to ")
		from, err1 := time.Parse(time.RFC3339Nano, first)
		to, err2 := time.Parse(time.RFC3339Nano, last)
		around := time.Duration(want.to-want.from) * time.Second / 2
		if a, b := at.Add(time.Duration(want.from)*time.Second-around), at.Add(time.Duration(want.to)*time.Second+around); want.to > 0 && (err1 != nil || err2 != nil || from.Sub(a).Abs() > 2*time.Second || to.Sub(b).Abs() > 2*time.Second) {
			t.Errorf("%s: from %v to %v, want %v to %v", kind, from, to, a, b)
		}
	}
}

// TestMomentLinks checks that a page links to the existing traces of the moment relative to its
// folder, and that a page without a folder has no links.
func TestMomentLinks(t *testing.T) {
	a := simjob.Attempt{Ranks: 4, Steps: 120, Slow: 2, Extra: [4]float64{14}, Start: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)}
	dir := t.TempDir()
	traces := filepath.Join(dir, "2026-03-01T10:00, 50 % done", "rank #")
	if _, err := a.Write(traces); err != nil {
		t.Fatal(err)
	}
	r := report.Build(read(t, traces))
	link := regexp.MustCompile(`<a href="([^"]*)" download>`)
	if got := link.FindAllString(page(t, r), -1); got != nil {
		t.Errorf("a page without a directory links to %q, want no links", got)
	}
	for _, at := range []string{"report.html", "pages/report.html"} {
		path := filepath.Join(dir, at)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := report.WritePage(path, r); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found := link.FindAllStringSubmatch(string(text), -1)
		if len(found) != 2 {
			t.Errorf("%s has %d links, want those of two ranks", at, len(found))
		}
		for _, m := range found {
			to, err := url.PathUnescape(html.UnescapeString(m[1]))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), to)); err != nil {
				t.Errorf("%s: %v", at, err)
			}
		}
	}
}

// concatenate replaces the traces in a folder with one trace.
func concatenate(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.pfw.gz"))
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err == nil {
			err = os.Remove(f)
		}
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	if err := os.WriteFile(filepath.Join(dir, "all.pfw.gz"), all.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}
