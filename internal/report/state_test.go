package report_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// collect reads some files into a State.
func collect(t testing.TB, files ...string) *report.State {
	t.Helper()
	set, err := job.Open(files...)
	if err != nil {
		t.Fatal(err)
	}
	s, err := report.Collect(set)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asJSON returns the reports of all jobs of a State.
func asJSON(t testing.TB, s *report.State) string {
	t.Helper()
	var out bytes.Buffer
	for _, j := range s.Jobs() {
		if err := report.JSON(&out, report.Build(j)); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// digest returns the digest of a State.
func digest(t testing.TB, s *report.State) []byte {
	t.Helper()
	var file bytes.Buffer
	if err := s.WriteDigest(&file); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// throughFile writes a State as a digest and reads it.
func throughFile(t testing.TB, s *report.State) *report.State {
	t.Helper()
	out, err := report.ReadDigest(bytes.NewReader(digest(t, s)))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// firstDifference returns the first different line, for error messages.
func firstDifference(have, want string) string {
	a, b := strings.Split(have, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d: %s\nwant %s", i, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(a), len(b))
}

// stateJobs returns jobs that differ in the dependencies between their parts.
func stateJobs(t *testing.T) map[string]string {
	several := func(attempts ...simjob.Attempt) string {
		dir := t.TempDir()
		for _, a := range attempts {
			write(t, dir, a)
		}
		return dir
	}
	twice := several(simjob.Attempt{Ranks: 3, Steps: 60})
	files, err := filepath.Glob(filepath.Join(twice, "*.gz"))
	if err != nil || len(files) != 3 {
		t.Fatalf("files %v, %v; want 3", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"copy.pfw.gz": text, "cut.pfw.gz": []byte("half a trace"), "notes.txt": []byte("no telemetry")} {
		if err := os.WriteFile(filepath.Join(twice, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	large := t.TempDir()
	if err := (simjob.Large{Ranks: 16, Steps: 120, Slow: 5, Extra: 12, Save: 50}).Write(large); err != nil {
		t.Fatal(err)
	}
	hang := t.TempDir()
	j := simjob.Job{Layout: simjob.DP, Ranks: 4, Steps: 40, Seed: 7, Faults: []simjob.Fault{{What: simjob.Hang, Ranks: []int{2}, Group: "world", From: 36, Watchdog: 30000}}}
	if _, err := j.Write(hang); err != nil {
		t.Fatal(err)
	}
	at := report.Build(read(t, hang)).Ledger.To
	for rank := range 4 {
		dumped(t, filepath.Join(hang, fmt.Sprintf("nccl_trace_rank_%d", rank)), at, int64(40-rank/3), rank == 3)
	}
	if !strings.Contains(asJSON(t, collect(t, hang)), "flight recorder") {
		t.Fatal("the report does not quote the dumps")
	}
	return map[string]string{
		"a hang with dumps":  hang,
		"killed and resumed": faulty(t),
		"twelve spans":       large,
		"a copy and others":  twice,
		"missing rank":       several(simjob.Attempt{Ranks: 6, Steps: 80, Skip: map[int]bool{2: true}}),
		"work":               several(simjob.Attempt{Ranks: 4, Steps: 90, Weights: map[int]float64{1: 1.4}}),
		"two jobs": several(simjob.Attempt{Ranks: 4, Steps: 50, Tag: "one"},
			simjob.Attempt{Ranks: 3, Steps: 40, Number: 1, Tag: "two", NoComm: true, Start: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)}),
	}
}

// TestReportOfTheUnion checks that the report of all files equals the report of the
// states of any parts, merged in any order, directly or through digests, and so do the bytes
// of their digests.
func TestReportOfTheUnion(t *testing.T) {
	for name, dir := range stateJobs(t) {
		t.Run(name, func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join(dir, "*"))
			if err != nil || len(files) < 3 {
				t.Fatalf("files %v, %v; want 3 or more", files, err)
			}
			var telemetry []string
			for _, f := range files {
				if strings.Contains(f, ".pfw") && !strings.Contains(f, "cut.") {
					telemetry = append(telemetry, f)
				}
			}
			all := collect(t, files...)
			want := asJSON(t, all)
			if got := asJSON(t, throughFile(t, all)); got != want {
				t.Errorf("report through a digest of all differs: %s", firstDifference(got, want))
			}
			seeds := uint64(5)
			if testing.Short() {
				seeds = 2
			}
			for seed := range seeds {
				rng := rand.New(rand.NewPCG(seed, 1))
				parts := make([][]string, 2+rng.IntN(min(5, len(telemetry))))
				for i, f := range telemetry {
					// Each part needs a file: an empty part cannot be read.
					k := i
					if i >= len(parts) {
						k = rng.IntN(len(parts))
					}
					parts[k%len(parts)] = append(parts[k%len(parts)], f)
				}
				for _, f := range files { // other files are in a part with telemetry
					if !strings.Contains(f, ".pfw") || strings.Contains(f, "cut.") {
						k := rng.IntN(len(parts))
						for len(parts[k]) == 0 {
							k = rng.IntN(len(parts))
						}
						parts[k] = append(parts[k], f)
					}
				}
				// Merge two random states until one is left: a tree of random shape.
				var states []*report.State
				for _, part := range parts {
					if len(part) > 0 {
						states = append(states, collect(t, part...))
					}
				}
				for len(states) > 1 {
					rng.Shuffle(len(states), func(i, j int) { states[i], states[j] = states[j], states[i] })
					into := &report.State{}
					for _, s := range states[:2] {
						if rng.IntN(2) == 0 {
							s = throughFile(t, s)
						}
						into.Merge(s)
					}
					states = append(states[2:], into)
				}
				merged := states[0]
				inOrder := &report.State{}
				for _, part := range parts {
					if len(part) > 0 {
						inOrder.Merge(collect(t, part...))
					}
				}
				got := digest(t, merged)
				if !bytes.Equal(got, digest(t, inOrder)) {
					t.Errorf("digest of %d merged parts (seed %d): got other bytes than in the order of the parts, want the same", len(parts), seed)
				}
				// The spans of a copy of a file stay in the digest if the copy is in another part.
				if name != "a copy and others" && !bytes.Equal(got, digest(t, all)) {
					t.Errorf("digest of %d merged parts (seed %d): got other bytes than those of all files, want the same", len(parts), seed)
				}
				if got := asJSON(t, merged); got != want {
					t.Errorf("report of %d merged parts (seed %d) differs: %s", len(parts), seed, firstDifference(got, want))
				}
				if again := asJSON(t, merged); again != want {
					t.Errorf("second report of the same state differs: %s", firstDifference(again, want))
				}
			}
		})
	}
}

// TestDamagedDigest checks that reading a damaged digest returns an error.
func TestDamagedDigest(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, simjob.Attempt{Ranks: 2, Steps: 30})
	var file bytes.Buffer
	if err := collect(t, dir).WriteDigest(&file); err != nil {
		t.Fatal(err)
	}
	text, want := file.Bytes(), asJSON(t, collect(t, dir))
	for n := 0; n < len(text); n += 1 + n/50 {
		if _, err := report.ReadDigest(bytes.NewReader(text[:n])); err == nil {
			t.Fatalf("ReadDigest of %d of %d bytes: no error, want one", n, len(text))
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		broken := bytes.Clone(text)
		at := rng.IntN(len(broken))
		broken[at] ^= 1 << rng.IntN(8)
		// A few bits have no meaning: the digest must then have the same contents.
		if s, err := report.ReadDigest(bytes.NewReader(broken)); err == nil && asJSON(t, s) != want {
			t.Fatalf("ReadDigest with one bit of byte %d of %d changed: no error and another report, want an error or the same report", at, len(text))
		}
	}
	text[len("trspdig\n")] = 99
	if _, err := report.ReadDigest(bytes.NewReader(text)); err == nil || !strings.Contains(err.Error(), "version 99") || !strings.Contains(err.Error(), "trainspan trace digest") {
		t.Errorf("ReadDigest of version 99: error %v, want one with the version and the command that writes a new digest", err)
	}
}

// TestDigestIsSmall checks the bytes per step of a rank.
func TestDigestIsSmall(t *testing.T) {
	dir := t.TempDir()
	l := simjob.Large{Ranks: 8, Steps: 1000, Slow: 3, Extra: 5, Save: 100}
	if err := l.Write(dir); err != nil {
		t.Fatal(err)
	}
	s := collect(t, dir)
	var file bytes.Buffer
	if err := s.WriteDigest(&file); err != nil {
		t.Fatal(err)
	}
	procs, steps := s.Size()
	if steps != int64(l.Ranks*l.Steps) || procs != l.Ranks {
		t.Fatalf("%d steps of %d processes, want %d of %d", steps, procs, l.Ranks*l.Steps, l.Ranks)
	}
	each := float64(file.Len()) / float64(steps)
	t.Logf("%.1f bytes for a step of a rank with %d spans", each, simjob.SpansPerStep)
	if each > 80 {
		t.Errorf("%.1f bytes for a step of a rank, want at most 80", each)
	}
}

// TestWindowedDigest checks that windows take less than four bytes per step of a rank,
// and that the report has the same results and lists what is no longer exact.
func TestWindowedDigest(t *testing.T) {
	dir := t.TempDir()
	l := simjob.Large{Ranks: 4, Steps: 12_000, Slow: 2, Extra: 9, Save: 500}
	if testing.Short() {
		l.Steps = 3000
	}
	if err := l.Write(dir); err != nil {
		t.Fatal(err)
	}
	s := collect(t, dir)
	want := report.Build(s.Jobs()[0])
	if err := s.Window(true); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := s.WriteDigest(&file); err != nil {
		t.Fatal(err)
	}
	each := float64(file.Len()) / float64(l.Ranks*l.Steps)
	t.Logf("%.2f bytes for a step of a rank", each)
	if each > 4 && !testing.Short() {
		t.Errorf("%.2f bytes for a step of a rank, want at most 4", each)
	}
	read, err := report.ReadDigest(&file)
	if err != nil {
		t.Fatal(err)
	}
	have := report.Build(read.Jobs()[0])
	v, w := want.Verdict.Rank, have.Verdict.Rank
	if v.Kind != w.Kind || fmt.Sprint(v.Ranks) != fmt.Sprint(w.Ranks) || v.Cause != w.Cause || math.Abs(v.Evidence.Excess-w.Evidence.Excess) > 0.2 {
		t.Errorf("%s\nwant %s", w.Sentence, v.Sentence)
	}
	// Windows are complete, so a few steps at both ends are left out.
	near := func(what string, got, want int) {
		t.Helper()
		if got < want-3*straggler.WindowSteps || got > want {
			t.Errorf("%s %d, want %d less at most %d", what, got, want, 3*straggler.WindowSteps)
		}
	}
	near("judged", w.Coverage.Steps, v.Coverage.Steps)
	near("last step", int(w.Coverage.LastStep), int(v.Coverage.LastStep))
	near("judged steps of the finding", w.Evidence.Judged, v.Evidence.Judged)
	near("affected", w.Evidence.Affected, v.Evidence.Affected)
	if int(w.Coverage.LastStep-w.Coverage.FirstStep)+1 != w.Coverage.Steps || w.Evidence.Every != 0 {
		t.Errorf("coverage %+v, evidence %+v; want as many steps as from the first to the last, and no distance of affected steps", w.Coverage, w.Evidence)
	}
	// There are at least ten windows in a quarter of 4,000 steps.
	if text := strings.Join(have.Screen(80), "\n"); strings.Contains(text, "in the last quarter") != (l.Steps > 4000) || (have.Steps.Trend != nil) != (l.Steps > 4000) {
		t.Errorf("trend %v of %d steps:\n%s", have.Steps.Trend, l.Steps, text)
	}
	if math.Abs(*have.Goodput-*want.Goodput) > 1e-4 || have.Ledger.Categories.Sum() != want.Ledger.Categories.Sum() ||
		have.Ledger.Iterations.Kept != want.Ledger.Iterations.Kept || have.Quality.Spans != want.Quality.Spans {
		t.Errorf("goodput %v, want %v; iterations %+v, want %+v", *have.Goodput, *want.Goodput, have.Ledger.Iterations, want.Ledger.Iterations)
	}
	a, b := have.Steps, want.Steps
	if math.Abs(a.Median-b.Median) > 0.3 || math.Abs(a.P99-b.P99) > 3 || float64(a.Count) < 0.85*float64(b.Count) {
		t.Errorf("steps %+v\nwant %+v", a, b)
	}
	if text := strings.Join(have.Quality.Remarks, " "); !strings.Contains(text, "windows of 100 steps") {
		t.Errorf(`remarks %q, want "windows of 100 steps"`, have.Quality.Remarks)
	}
	screen(t, have)
	if err := report.HTML(io.Discard, have, ""); err != nil {
		t.Error(err)
	}
}

// TestDigestWithoutTimes checks a process without any possible time, for example because its clock
// is years off: a digest gives the same report.
func TestDigestWithoutTimes(t *testing.T) {
	dir := t.TempDir()
	for name, start := range map[string]time.Time{"now": time.Now(), "relative": time.UnixMicro(0)} {
		w, err := dftracer.Create(filepath.Join(dir, name+".pfw"), &dftracer.Options{Start: start, Process: dftracer.Process{PID: 7, Host: name}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range int64(10) {
			w.Write(&dftracer.Event{Phase: dftracer.PhaseComplete, Cat: "pipeline", Name: "train.iteration", PID: 8, TS: i * 1000, Dur: 900, Args: []dftracer.Arg{dftracer.Int("step", i)}})
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		s := collect(t, filepath.Join(dir, name+".pfw"))
		if got, want := asJSON(t, throughFile(t, s)), asJSON(t, s); got != want {
			t.Errorf("%s: report through a digest differs: %s", name, firstDifference(got, want))
		}
	}
}

// TestLiveOfFinishedJobs checks that the view of a running job, which top, alert and the metrics
// show, equals the report once the job has ended: the account, the diagnosis and the words.
func TestLiveOfFinishedJobs(t *testing.T) {
	for name, dir := range stateJobs(t) {
		t.Run(name, func(t *testing.T) {
			for i, j := range collect(t, dir).Jobs() {
				want := report.Build(j)
				want.Series = nil
				live := report.Live(collect(t, dir).Jobs()[i], want.Ledger.To+int64(time.Hour))
				var got, all bytes.Buffer
				if err := errors.Join(report.JSON(&got, live), report.JSON(&all, want)); err != nil {
					t.Fatal(err)
				}
				if got.String() != all.String() {
					t.Errorf("job %d: the live view differs from the report: %s", i, firstDifference(got.String(), all.String()))
				}
			}
		})
	}
}
