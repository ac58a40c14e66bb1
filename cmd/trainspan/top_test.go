package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// noon is the time of top's tests.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func fixed() time.Time { return noon }

func newTestModel() *topModel {
	return newTopModel(context.Background(), &topReader{paths: []string{"out/job"}, interval: time.Second, now: fixed}, ui.Painter{})
}

func update(m *topModel, msgs ...tea.Msg) (cmd tea.Cmd) {
	for _, msg := range msgs {
		_, cmd = m.Update(msg)
	}
	return cmd
}

// screenOf returns the lines of the screen and checks that they fit.
func screenOf(t *testing.T, m *topModel) []string {
	t.Helper()
	v := m.View()
	if !v.AltScreen {
		t.Error("top does not use the alternate screen")
	}
	lines := strings.Split(v.Content, "\n")
	if len(lines) > max(m.height, 1) {
		t.Errorf("top shows %d lines on a screen of %d", len(lines), m.height)
	}
	for _, l := range lines {
		if n := utf8.RuneCountInString(l); n > m.width {
			t.Errorf("a line has %d letters on a screen of %d columns: %q", n, m.width, l)
		}
	}
	return lines
}

func key(text string) tea.KeyPressMsg {
	special := map[string]rune{"up": tea.KeyUp, "down": tea.KeyDown, "pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "home": tea.KeyHome, "end": tea.KeyEnd, "esc": tea.KeyEscape}
	if code, ok := special[text]; ok {
		return tea.KeyPressMsg{Code: code}
	}
	if letter, ok := strings.CutPrefix(text, "ctrl+"); ok {
		return tea.KeyPressMsg{Code: rune(letter[0]), Mod: tea.ModCtrl}
	}
	return tea.KeyPressMsg{Code: rune(text[0]), Text: text}
}

// faultyReport returns the report of a job with a slow rank.
func faultyReport(t *testing.T) *report.Report {
	t.Helper()
	dir := makeJob(t, filepath.Join(t.TempDir(), "job"), simjob.Attempt{Ranks: 8, Steps: 60, Slow: 2, Extra: [4]float64{12}, Save: 20, Start: noon.Add(-time.Minute)})
	found, err := findJobs(t.Context(), silent(), []string{dir})
	if err != nil {
		t.Fatal(err)
	}
	return report.Live(found[0], noon.UnixNano())
}

func TestTopShowsWhatWasRead(t *testing.T) {
	m := newTestModel()
	m.Init()
	if got := strings.Join(screenOf(t, m), "\n"); !strings.Contains(got, "reading since 12:00:00") {
		t.Errorf("before the first reading:\n%s, want \"reading since 12:00:00\" in it", got)
	}
	update(m, topReading{at: noon, rest: time.Second, waiting: "there is nothing"})
	if got := strings.Join(screenOf(t, m), "\n"); !strings.Contains(got, "Waiting for telemetry in out/job:") || !strings.Contains(got, "there is nothing.") {
		t.Errorf("top without telemetry: want that it waits and why, got\n%s", got)
	}
	r := faultyReport(t)
	update(m, tea.WindowSizeMsg{Width: 100, Height: 60}, topReading{at: noon.Add(time.Second), took: time.Second, rest: 4 * time.Second, report: r, others: 2})
	lines := screenOf(t, m)
	got := strings.Join(lines, "\n")
	for _, want := range []string{"out/job · read 12:00:01 · records up to 11:59:", "next 12:00:06", "2 other jobs not shown", "Rank 2's", "STEPS  60, 59 compared: ", "q quit"} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "↑↓") || len(lines) != 60 {
		t.Errorf("%d lines, want some below the screen:\n%s", len(lines), got)
	}
	// On a narrow screen a long name does not cut off the times.
	m.reader.paths = []string{"/shared/runs/of/the/team/2026-11-20/large-model/out/job-with-a-long-name"}
	update(m, tea.WindowSizeMsg{Width: 80, Height: 24})
	if got := screenOf(t, m)[0]; !strings.Contains(got, "next 12:00:06") || !strings.Contains(got, "…") {
		t.Errorf(`first line %q, want the time of the next reading and "…"`, got)
	}
	m.reader.paths = []string{"out/job"}
	update(m, tea.WindowSizeMsg{Width: 100, Height: 60})
	// The same files again, then unreadable ones: the report stays.
	update(m, topReading{at: noon.Add(10 * time.Second), same: true})
	if got := screenOf(t, m)[0]; !strings.Contains(got, "read 12:00:01") || !strings.Contains(got, "nothing new at 12:00:10") {
		t.Errorf("first line %q, want when the files were read and that nothing is new", got)
	}
	update(m, topReading{at: noon.Add(20 * time.Second), err: errors.New("the disk\nis gone")})
	if got := screenOf(t, m); !strings.Contains(got[0], "the disk; is gone at 12:00:20") || !strings.Contains(strings.Join(got, "\n"), "Rank 2's") {
		t.Errorf("first line %q, want the error and its time, above the last report", got[0])
	}
}

func TestTopOnSmallScreens(t *testing.T) {
	r := faultyReport(t)
	for _, size := range [][2]int{{0, 0}, {1, 1}, {20, 2}, {39, 3}, {60, 10}, {80, 24}, {99, 30}, {100, 40}, {300, 100}} {
		m := newTestModel()
		update(m, tea.WindowSizeMsg{Width: size[0], Height: size[1]}, topReading{at: noon, report: r})
		all := len(m.body())
		seen := make(map[string]bool)
		for i := range all + 3 {
			lines := screenOf(t, m)
			for _, l := range lines {
				seen[l] = true
			}
			if note := lines[len(lines)-1]; size[0] >= 60 && size[1] < 24 && !regexp.MustCompile(`lines \d+ to \d+ of \d+`).MatchString(note) {
				t.Errorf(`size %v, %d lines down: last line %q, want "lines N to M of K"`, size, i, note)
			}
			update(m, key("down"))
		}
		if size[1] > 2 && m.top != max(all-m.room(), 0) {
			t.Errorf("size %v: scrolled to line %d of %d, want %d", size, m.top, all, max(all-m.room(), 0))
		}
		if size[0] >= 60 && size[1] > 2 {
			for _, l := range m.body() {
				if !seen[l] {
					t.Errorf("%v: %q is never seen", size, l)
				}
			}
		}
	}
}

func TestTopKeys(t *testing.T) {
	m := newTestModel()
	update(m, tea.WindowSizeMsg{Width: 100, Height: 12}, topReading{at: noon, report: faultyReport(t)})
	all := len(m.body())
	for _, c := range []struct {
		key string
		top int
	}{
		{"down", 1}, {"j", 2}, {"k", 1}, {"up", 0}, {"up", 0}, {"pgdown", 9}, {"b", 0}, {"f", 9}, {"pgup", 0}, {"G", all - 10}, {"down", all - 10}, {"home", 0}, {"end", all - 10}, {"g", 0}, {"x", 0},
	} {
		if update(m, key(c.key)); m.top != c.top {
			t.Errorf("%s: line %d, want %d", c.key, m.top, c.top)
		}
	}
	update(m, key("G"), key("?"))
	if got := strings.Join(screenOf(t, m), "\n"); !strings.Contains(got, "read the files now") || strings.Contains(got, "STEPS") {
		t.Errorf("top after ?: want its keys and no steps, got\n%s", got)
	}
	update(m, key("esc"))
	if got := strings.Join(screenOf(t, m), "\n"); !strings.Contains(got, "█ compute ") {
		t.Errorf("after help:\n%s, want \"█ compute \" in it", got)
	}
	for _, k := range []string{"q", "ctrl+c"} {
		cmd := update(m, key(k))
		if cmd == nil || !reflect.DeepEqual(cmd(), tea.Quit()) {
			t.Errorf("key %s does not end top", k)
		}
	}
	if cmd := update(m, key("ctrl+z")); cmd == nil || !reflect.DeepEqual(cmd(), tea.Suspend()) {
		t.Error("Ctrl-Z does not suspend it")
	}
}

// TestTopReadsOneAtATime checks that readings do not overlap: the key r starts
// a reading at once, and the replaced timer starts no other.
func TestTopReadsOneAtATime(t *testing.T) {
	m := newTestModel()
	if m.Init() == nil {
		t.Fatal("no reading begins at the start, want one")
	}
	if update(m, key("r")) != nil || update(m, topDue{m.turn}) != nil {
		t.Error("got a second reading during the first, want one at a time")
	}
	if update(m, topSlow{m.turn}); !m.slow {
		t.Error("a long reading is not shown")
	}
	if update(m, topReading{at: noon}) == nil {
		t.Error("no timer for the next reading")
	}
	if line := m.status(); !strings.Contains(line, "next 12:00:00") || strings.Contains(line, "reading since") {
		t.Errorf("status after a long reading: %q, want the time of the next one", line)
	}
	old := m.turn
	if update(m, key("r")) == nil {
		t.Error("got no reading after r, want one")
	}
	update(m, topReading{at: noon})
	if update(m, topDue{old}) != nil {
		t.Error("a timer from before r starts a reading, want none")
	}
	if update(m, topDue{m.turn}) == nil {
		t.Error("got no reading after the timer, want one")
	}
}

func TestTopReader(t *testing.T) {
	dir := t.TempDir()
	now := noon
	r := &topReader{paths: []string{dir}, interval: 10 * time.Millisecond, now: func() time.Time { return now }}
	got := r.read(t.Context(), true)
	if got.err != nil || got.report != nil || !strings.Contains(got.waiting, "no trace file") || !strings.Contains(got.waiting, "0 files") {
		t.Errorf(`read of an empty directory: %+v, want no report, "no trace file" and 0 files`, got)
	}
	if got := r.read(t.Context(), false); !got.same || got.rest != r.interval {
		t.Errorf("read of a directory that stays empty: %+v, want same and the usual interval", got)
	}

	// A file appears, half written, and grows.
	source := makeJob(t, t.TempDir(), simjob.Attempt{Ranks: 1, Steps: 4000, Killed: true, Start: noon.Add(-5 * time.Minute)})
	files, err := os.ReadDir(source)
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v; want one", files, err)
	}
	text, err := os.ReadFile(filepath.Join(source, files[0].Name()))
	if err != nil {
		t.Fatal(err)
	}
	grow := func(n int) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, files[0].Name()), text[:n], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	grow(0)
	if got := r.read(t.Context(), false); got.err != nil || got.report != nil || got.waiting == "" {
		t.Errorf("read of an empty file: %+v, want no report and why it waits", got)
	}
	last := 0
	for _, n := range []int{len(text) / 3, len(text) / 2, len(text)} {
		grow(n)
		now = now.Add(time.Second)
		got := r.read(t.Context(), false)
		if got.err != nil || got.report == nil || got.report.Steps.Count <= last {
			t.Fatalf("read of %d of %d bytes: %+v; want a report with more than %d steps", n, len(text), got, last)
		}
		last = got.report.Steps.Count
	}
	if got := r.read(t.Context(), false); !got.same {
		t.Errorf("read without changes: %+v, want same", got)
	}
	if got := r.read(t.Context(), true); got.same || got.report == nil {
		t.Errorf("forced read: %+v, want a new report", got)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if got := r.read(t.Context(), false); got.err == nil || got.rest < r.interval {
		t.Errorf("read of a deleted directory: %+v, want an error and at least the usual interval", got)
	}
}

// TestTopReaderOfAPattern checks that the files that match a pattern are read
// like those in a folder.
func TestTopReaderOfAPattern(t *testing.T) {
	dir := makeJob(t, t.TempDir(), simjob.Attempt{Ranks: 1, Steps: 40, Start: noon.Add(-time.Hour)})
	r := &topReader{paths: []string{filepath.Join(dir, "*")}, interval: time.Millisecond, now: fixed}
	if got := r.read(t.Context(), true); got.err != nil || got.report == nil {
		t.Fatalf("forced read = %+v, want a report", got)
	}
	if got := r.read(t.Context(), false); !got.same {
		t.Errorf("read without changes: %+v, want same", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "more"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := r.read(t.Context(), false); got.same {
		t.Error("a new file that matches is not seen")
	}
}

// TestTopPause checks that readings take at most a fifth of one core, counted
// from the begin of one to the begin of the next.
func TestTopPause(t *testing.T) {
	const ms = time.Millisecond
	r := &topReader{interval: 2000 * ms}
	for _, c := range []struct{ took, cpu, want time.Duration }{
		{10 * ms, 15 * ms, 2000 * ms},      // a small job: the interval
		{1000 * ms, 1000 * ms, 4000 * ms},  // one core: four times as long as the reading
		{1000 * ms, 8000 * ms, 39000 * ms}, // eight cores
		{9000 * ms, 100 * ms, 9000 * ms},   // a slow disk
		{3000 * ms, 0, 3000 * ms},          // the processor time is unknown
	} {
		if got := r.pause(c.took, c.cpu); got != c.want || got+c.took < topShare*c.cpu {
			t.Errorf("after %v with %v of processor time: %v, want %v", c.took, c.cpu, got, c.want)
		}
	}
}

// TestTopSeesThatAJobStopped checks that a job with recent activity is running;
// without activity for some time it is not, although no file has changed.
func TestTopSeesThatAJobStopped(t *testing.T) {
	dir := makeJob(t, t.TempDir(), simjob.Attempt{Ranks: 2, Steps: 100, Killed: true, Start: noon.Add(-8 * time.Second)})
	now := noon
	r := &topReader{paths: []string{dir}, interval: time.Second, now: func() time.Time { return now }}
	got := r.read(t.Context(), true)
	if got.report == nil || !got.report.Attempts[0].Running || strings.Contains(strings.Join(got.report.Screen(100), "\n"), "no proper end") {
		t.Fatalf(`read of a running job: %+v, want it running, without "no proper end"`, got)
	}
	now = noon.Add(10 * time.Second)
	if got := r.read(t.Context(), false); !got.same {
		t.Errorf("read ten seconds later: %+v, want same", got)
	}
	now = noon.Add(time.Minute)
	if got := r.read(t.Context(), false); got.report == nil || got.report.Attempts[0].Running || !strings.Contains(strings.Join(got.report.Screen(100), "\n"), "no proper end") {
		t.Errorf(`read a minute later: %+v, want it stopped, with "no proper end"`, got)
	}
	if got := r.read(t.Context(), false); !got.same {
		t.Errorf("read again: %+v, want same", got)
	}
}

func TestTopEndsAReading(t *testing.T) {
	dir := makeJob(t, t.TempDir(), simjob.Attempt{Ranks: 2, Steps: 100})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := &topReader{paths: []string{dir}, interval: time.Second, now: fixed}
	if got := r.read(ctx, true); !errors.Is(got.err, context.Canceled) {
		t.Errorf("read with a cancelled context = %+v, want context.Canceled", got)
	}
	if got := r.read(t.Context(), false); got.report == nil {
		t.Errorf("read after one that failed: %+v, want a report", got)
	}
}

func TestTopNeedsATerminal(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"top", dir}, "trainspan report"},
		{[]string{"top"}, "trainspan-runs has no run"},
		{[]string{"top", filepath.Join(dir, "none")}, "there is no such file"},
		{[]string{"top", dir, "--interval", "0s"}, "above 0"},
	} {
		if code, out, problems := call(c.args...); code != ui.StatusUse || out != "" || !strings.Contains(problems, c.want) {
			t.Errorf("%v: status %d, output %q, stderr %q; want %d, none and %q", c.args, code, out, problems, ui.StatusUse, c.want)
		}
	}
}
