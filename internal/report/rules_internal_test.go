package report

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/machine"
	"github.com/trainspan/trainspan/internal/analyze/profile"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/fsread"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// Each doubt is listed once, and the worst of them determines the confidence.
func TestConfidence(t *testing.T) {
	for _, c := range []struct {
		name string
		r    Report
		want string
		says []string
	}{
		{"none", Report{Ledger: &account.Report{}}, "high", nil},
		{"ends", Report{Ledger: &account.Report{Flags: []account.Flag{{Kind: account.MissingEnds}, {Kind: account.MissingEnds}}}}, "medium", []string{"spans lack their ends"}},
		{"disputed", Report{Ledger: &account.Report{}, Verdict: Verdict{Rank: &straggler.Verdict{Coverage: straggler.Coverage{Disputed: 1}}}}, "low", []string{"two records of the same rank and step differ"}},
		{"cut off", Report{Ledger: &account.Report{}, Quality: Quality{Torn: 2}}, "high", []string{"2 files truncated"}},
		{"several", Report{Quality: Quality{BadLines: 1}, Ledger: &account.Report{Flags: []account.Flag{{Kind: account.TwoWriters}}}}, "low",
			[]string{"several processes have the same rank", "1 line unreadable"}},
	} {
		if got, says := c.r.confidence(); got != c.want || !slices.Equal(says, c.says) {
			t.Errorf("%s: confidence %s, %q; want %s, %q", c.name, got, says, c.want, c.says)
		}
	}
}

// The exit status is that of a finding in any attempt. Insufficient records of the last attempt
// count only without a finding.
func TestExitCodeOfAttempts(t *testing.T) {
	slow, fine := &straggler.Verdict{Finding: finding.Finding{Kind: finding.SlowRanks}}, &straggler.Verdict{Finding: finding.Finding{Kind: finding.Fine}}
	unknown := &straggler.Verdict{Finding: finding.Finding{Kind: finding.Unknown}}
	for name, c := range map[string]struct {
		attempts []*straggler.Verdict
		want     int
	}{
		"a finding, then too little": {[]*straggler.Verdict{slow, unknown}, slow.ExitCode()},
		"too little":                 {[]*straggler.Verdict{unknown, unknown}, 4},
		"healthy":                    {[]*straggler.Verdict{fine, fine}, 0},
		"healthy, then too little":   {[]*straggler.Verdict{fine, unknown}, 4},
	} {
		half := 0.5
		r := &Report{Ledger: &account.Report{}, Goodput: &half, Verdict: Verdict{Rank: c.attempts[1]}, Steps: Steps{Compared: 10}}
		for _, v := range c.attempts {
			r.Attempts = append(r.Attempts, Attempt{Straggler: v})
		}
		if got := r.ExitCode(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// A sentence links to the first existing part of the page for its place.
func TestPartsOfThePage(t *testing.T) {
	first := func(p *page, at place) string {
		for _, x := range p.parts(at) {
			if x.there {
				return x.id
			}
		}
		return ""
	}
	full := &page{
		R: &Report{Checkpoints: make([]Checkpoint, 1)}, Waits: &waitTable{}, Ranks: make([]rankRow, 1), Disruptions: make([]account.Disruption, 1),
		Chart: map[string]bool{"steps": true, "heat": true, "comm": true},
	}
	empty := &page{R: &Report{}, Ranks: make([]rankRow, 1)} // one rank has no table
	profile := &page{R: &Report{Profile: &Profile{}}, Ranks: make([]rankRow, 1), Disruptions: make([]account.Disruption, 1)}
	for at, want := range map[place][3]string{
		placeTime: {"time", "time", "time"}, placeStarts: {"lost", "attempts", "time"}, placeSteps: {"h-steps", "time", "time"},
		placeRanks: {"h-heat", "time", "time"}, placeWaits: {"waits", "time", "time"}, placeTransfers: {"h-comm", "time", "time"},
		placeSaves: {"h-saves", "time", "time"}, placeData: {"data-behind", "data-behind", "data-behind"},
	} {
		if got := [3]string{first(full, at), first(empty, at), first(profile, at)}; got != want {
			t.Errorf("place %d: %q, want %q", at, got, want)
		}
	}
}

// Only profiles are imported. Without profiles and records there is no telemetry.
func TestNothingToImport(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("nothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := LoadWith(nil, func(profiles []string) ([]Imported, []*job.FileError, error) {
		t.Errorf("%q are offered for import, want none", profiles)
		return nil, nil, nil
	}, dir)
	if !errors.Is(err, job.ErrNoTelemetry) {
		t.Error(err)
	}
}

// If the temporary file of a job is lost, its report has a remark, also for a job that was imported from
// profiles.
func TestLostSpillFile(t *testing.T) {
	if _, err := os.ReadDir("/proc/self/fd"); err != nil {
		t.Skip("open files are found in /proc: ", err)
	}
	packedMemory = 0
	defer func(limit int64) { packedMemory = limit }(packedMemory)
	t.Setenv("TMPDIR", t.TempDir())
	traces, profiles := t.TempDir(), t.TempDir()
	if _, err := (simjob.Attempt{Ranks: 2, Steps: 400}).Write(traces); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(profiles, "rank0.pt.trace.json"), []byte(`{"schemaVersion": 1, "traceEvents": []}`), 0o600); err != nil {
		t.Fatal(err)
	}
	imports := func([]string) ([]Imported, []*job.FileError, error) {
		return []Imported{{Trace: traces}}, nil, nil
	}
	for name, path := range map[string]string{"traces": traces, "profiles": profiles} {
		s, err := LoadWith(nil, imports, path)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if n := truncateTemporary(t); n != 1 {
			t.Fatalf("%s: %d temporary files, want 1", name, n)
		}
		r := Build(s.Jobs()[0])
		incomplete := func(remark string) bool { return strings.Contains(remark, "the answers are incomplete") }
		if !slices.ContainsFunc(r.Quality.Remarks, incomplete) {
			t.Errorf("%s: remarks %q, want one that the answers are incomplete", name, r.Quality.Remarks)
		}
		runtime.KeepAlive(s)
	}
}

// truncateTemporary empties the temporary files that this process has open, and returns their number.
func truncateTemporary(t *testing.T) (n int) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		path := filepath.Join("/proc/self/fd", fd.Name())
		to, err := os.Readlink(path)
		if err != nil || !strings.Contains(to, "trainspan-sort-") {
			continue
		}
		if info, err := os.Stat(path); err != nil || info.Size() == 0 {
			continue
		}
		if err := os.Truncate(path, 0); err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// The number of steps of the whole job decides whether digests keep single steps.
func TestStepsOfAJob(t *testing.T) {
	dir := t.TempDir()
	for number, ranks := range []int{1, 4} {
		if _, err := (simjob.Attempt{Ranks: ranks, Steps: 60, Number: number, Start: time.Unix(1_700_000_000+100*int64(number), 0)}).Write(dir); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Load(nil, dir)
	if err != nil {
		t.Fatal(err)
	}
	if n := s.jobSteps(); n != 4*60 {
		t.Errorf("%d, want %d", n, 4*60)
	}
}

// The productive time is known if there are steps, or if no process began training.
func TestTrainingIsKnown(t *testing.T) {
	steps, begun, silent := job.Steps{Count: 3, Begun: true}, job.Steps{Begun: true}, job.Steps{}
	for name, c := range map[string]struct {
		procs []job.Process
		want  bool
	}{
		"steps":                  {[]job.Process{{Steps: steps}}, true},
		"steps of another":       {[]job.Process{{Steps: begun, Heartbeats: true}, {Steps: steps}}, true},
		"it began":               {[]job.Process{{Steps: begun, Heartbeats: true}}, false},
		"no step of a long run":  {[]job.Process{{Steps: silent, Heartbeats: true}}, false},
		"no step of a short run": {[]job.Process{{Steps: silent}}, false},
	} {
		j := &job.Job{}
		for i := range c.procs {
			j.Processes = append(j.Processes, &c.procs[i])
		}
		if got := trainingKnown(j); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A start has resources if any of its usage is known.
func TestResourcesOfStarts(t *testing.T) {
	at := time.Unix(100, 0)
	starts := []*rundir.Run{
		{Host: "processor", Started: at, Seen: at.Add(2 * time.Second), User: 3, System: 1},
		{Host: "memory", Started: at, Seen: at.Add(time.Second), MaxRSS: 7},
		{Host: "devices", Started: at, Seen: at.Add(time.Second), GPUs: make([]rundir.GPU, 1)},
		{Host: "nothing", Started: at, Seen: at.Add(time.Second)},
		{Host: "no time", Started: at, Seen: at, User: 3},
	}
	var r Report
	r.resources(starts)
	var hosts []string
	for _, u := range r.Resources {
		hosts = append(hosts, u.Host)
	}
	if !slices.Equal(hosts, []string{"processor", "memory", "devices"}) || r.Resources[0].Cores != 2 || r.Resources[1].Memory != 7 || r.Resources[0].Stop-r.Resources[0].Start != 2e9 {
		t.Errorf("resources %+v, want 2 cores over 2 s, 7 bytes of memory, and devices", r.Resources)
	}
}

// TestManyRecompilations: the JSON has the first recompilations; the shares and the evidence count all.
func TestManyRecompilations(t *testing.T) {
	const ranks, n = 50, 40
	d, s := &details{}, &steps{}
	for rank := range ranks {
		for i := range int64(n) {
			d.compiled = append(d.compiled, Recompilation{Rank: rank, Attempt: 1, Step: i, Time: 1e6, inWarmup: 1e6})
		}
	}
	for i := range int64(n) {
		s.number, s.attempt = append(s.number, i), append(s.attempt, 1)
	}
	r := &Report{Ledger: &account.Report{}}
	for rank := range ranks {
		r.Ledger.Ranks = append(r.Ledger.Ranks, account.RankReport{Rank: rank, Categories: account.Totals{account.Warmup: 1e9}})
	}
	r.recompiled(d, s)
	var all int64
	for i := range r.Ledger.Ranks {
		ns, _ := r.recompileTime(&r.Ledger.Ranks[i])
		all += ns
	}
	if all != ranks*n*1e6 {
		t.Errorf("the share of recompilations is %d ns, want %d", all, int64(ranks*n*1e6))
	}
	if e := r.recompileEvidence(); e.Affected != n || e.Excess != 1 {
		t.Errorf("evidence %+v, want %d steps with 1 ms", e, n)
	}
	var text bytes.Buffer
	if err := JSON(&text, r); err != nil {
		t.Fatal(err)
	}
	if got := bytes.Count(text.Bytes(), []byte(`"step": `)); got != maxRecompiled {
		t.Errorf("the JSON has %d recompilations, want %d", got, maxRecompiled)
	}
}

// A single detail is shown, and without details there is no empty line.
func TestOneDetail(t *testing.T) {
	for _, doubts := range [][]string{nil, {"spans lack their ends"}} {
		s := &screen{columns: maxColumns}
		s.details(&Report{Ledger: &account.Report{}, Verdict: Verdict{Confidence: "medium", Doubts: doubts}})
		if len(s.lines) != 2*len(doubts) {
			t.Errorf("doubts %q: lines %q, want two for each", doubts, s.lines)
		}
	}
}

// The action for downtime does not mention the log if all attempts ended as planned.
func TestDowntimeOfPlannedStops(t *testing.T) {
	r := &Report{Ledger: &account.Report{}}
	r.Ledger.Disruptions = []account.Disruption{{Proper: true}, {Proper: true}}
	loss := &Loss{Category: account.Downtime}
	if got := r.adviceOnLoss(loss); strings.Contains(got, "log") || !strings.Contains(got, "sooner") {
		t.Errorf(`advice %q, want "sooner" and no log`, got)
	}
	r.Ledger.Disruptions[1].Proper = false
	if got := r.adviceOnLoss(loss); got != actions[account.Downtime] {
		t.Errorf("advice %q, want %q", got, actions[account.Downtime])
	}
}

// The verdict has the cost of disruptions, except of planned stops without lost steps.
func TestDisruptionsInTheVerdict(t *testing.T) {
	r := Report{Ranks: make([]Rank, 2), Ledger: &account.Report{Wall: 100e9}}
	r.conclude()
	if strings.Contains(r.Verdict.Sentence, "disruption") {
		t.Errorf("sentence %q, want no disruption in it", r.Verdict.Sentence)
	}
	r.Ledger.Disruptions = []account.Disruption{{Total: 8e9, Down: 6e9, Iterations: 5}, {Proper: true, Total: 1e9}}
	r.conclude()
	if want := "5 steps repeated, 3.0 s down; 4.0 s of each rank's time in all."; !strings.Contains(r.Verdict.Sentence, want) {
		t.Errorf("sentence %q, want one with %q", r.Verdict.Sentence, want)
	}
	r.Ledger.Disruptions[0] = account.Disruption{Total: 8e9, Down: 2e9, DownMost: 3e9, Unrecorded: 1e9, Iterations: 26, IterationsMost: 41}
	r.conclude()
	if want := "26 to 41 steps repeated, 1.0 to 1.5 s down; 4.0 s of each rank's time in all: up to 500 ms before a kill are not on record."; !strings.Contains(r.Verdict.Sentence, want) {
		t.Errorf("sentence %q, want one with %q", r.Verdict.Sentence, want)
	}
	if got, want := partsOf(&r.Ledger.Disruptions[0], 2), "26 to 41 steps redone (0 s), 1.0 to 1.5 s down, 500 ms not on record before the kill"; got != want {
		t.Errorf("partsOf() = %q, want %q", got, want)
	}
}

func TestDurationRange(t *testing.T) {
	for _, tt := range []struct {
		least, most int64
		want        string
	}{{1e9, 0, "1.0 s"}, {1e9, 2e9, "1.0 to 2.0 s"}, {900e6, 1400e6, "900 ms to 1.4 s"}, {61e9, 61_000_000_001, display.Duration(61e9)}, {0, 5e8, display.Duration(0) + " to 500 ms"}} {
		if got := durationRange(tt.least, tt.most); got != tt.want {
			t.Errorf("durationRange(%d, %d) = %q, want %q", tt.least, tt.most, got, tt.want)
		}
	}
	if got, want := (&Attempt{Start: 1e9, Stop: 15.3e9, Latest: 15.8e9}).lasted(), "14.3 to 14.8 s"; got != want {
		t.Errorf("lasted() = %q, want %q", got, want)
	}
}

// Flags of the same kind are one remark with their number.
func TestRemarksOfFlags(t *testing.T) {
	led := &account.Report{Flags: []account.Flag{
		{Kind: "odd_thing", Rank: 3, Attempt: 2}, {Kind: "other", Rank: 1}, {Kind: "odd_thing", Rank: 4, Count: 5},
	}}
	if got, want := remarks(led, false), []string{"odd thing (ranks 3, 4, attempt 2, 7 times)", "other (rank 1)"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The action is about the rank that slows the others down. There is no action if the ranks were
// compared and none is slow.
func TestActionOfADiagnosis(t *testing.T) {
	for kind, want := range map[finding.Kind]string{finding.SlowRanks: "look there", finding.Fine: ""} {
		r := Report{Verdict: Verdict{Rank: &straggler.Verdict{Finding: finding.Finding{Kind: kind}, Next: "look there"}, kind: kind}}
		r.Verdict.Finding = r.Verdict.ofRanks()
		if got := r.adviceOnDiagnosis(); got != want {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
	}
}

// The time of a hang is the last record of any of its ranks.
func TestHangLasts(t *testing.T) {
	a := Attempt{Straggler: &straggler.Verdict{Finding: finding.Finding{Kind: finding.Hang, Ranks: []int{1}}}}
	a.hung([]*job.Process{{Rank: 0, LastSeen: 50, Host: "a"}, {Rank: 1, LastSeen: 30, Host: "b"}, {Rank: 1, LastSeen: 20, Host: "b"}})
	if o := a.Outcome; o == nil || o.How != job.Hung || o.At != 50 || o.Host != "b" {
		t.Errorf("outcome %+v, want a hang since 50 ns on host b", o)
	}
}

// The ledger on the page of a profile has only the parts of its steps. Each rank has the shares
// of its own time, and the mean time of its steps.
func TestPartsOfAProfile(t *testing.T) {
	half := func(ns int64) map[string]int64 { return map[string]int64{profile.Compute.String(): ns / 2} }
	goodputs := 0.5
	r := &Report{Goodput: &goodputs, Losses: []Loss{{Category: account.Stall, Share: 0.5}}, Profile: &Profile{
		Steps: 4, Time: 4e9, Parts: half(4e9), Ranks: []ProfileRank{{Rank: 0, Steps: 1, Time: 3e9, Parts: half(3e9)}, {Rank: 1, Time: 0}},
	}}
	r.Shares = r.shares()
	p := &page{R: r}
	p.ledger()
	if len(p.Ledger) != 1 || p.Ledger[0].Name != "compute" || p.Ledger[0].Share != 0.5 || p.Ledger[0].Time != 5e8 {
		t.Errorf("rows %+v, want compute with the half of a step, 500 ms", p.Ledger)
	}
	s := &screen{columns: maxColumns}
	s.profileRanks(r.Profile)
	var rows []string
	for _, l := range s.lines {
		rows = append(rows, strings.Join(strings.Fields(l), " "))
	}
	want := []string{"0 3.0 s 50.0 % 0.0 % 0.0 % 0.0 % 0.0 %", "1 0 s 0.0 % 0.0 % 0.0 % 0.0 % 0.0 %"}
	for _, w := range want {
		if !slices.Contains(rows, w) {
			t.Errorf("want %q in %q", w, rows)
		}
	}
}

// The times of phases are wrapped only between phases, within the columns of the terminal.
func TestPartsFitTheScreen(t *testing.T) {
	phases := map[string]float64{}
	for _, p := range straggler.Phases() {
		phases[p.String()] = 1234.5
	}
	whole := regexp.MustCompile(`^  \w+( \w+)? 1234 ms(, \w+( \w+)? 1234 ms)*$`)
	for columns := 40; columns < 100; columns++ {
		s := &screen{columns: columns}
		s.steps(&Report{Ledger: &account.Report{}, Steps: Steps{Count: 9, Compared: 9, Phases: phases}})
		for _, l := range s.lines {
			if len([]rune(l)) > columns || strings.Contains(l, "1234") && !whole.MatchString(l) {
				t.Errorf("a line for %d columns is too long or cuts a number: %q", columns, l)
			}
		}
	}
}

// An attempt without a number is shown without one.
func TestAttemptWithoutANumber(t *testing.T) {
	s := &screen{columns: maxColumns}
	s.attempts(&Report{Ledger: &account.Report{}, Attempts: []Attempt{{Number: 0, FirstStep: -1}, {Number: 2, FirstStep: -1}}})
	var names []string
	for _, l := range s.lines {
		if f := strings.Fields(l); len(f) > 0 {
			names = append(names, f[0])
		}
	}
	if !slices.Equal(names, []string{"ATTEMPTS", "?", "2"}) {
		t.Errorf("table of attempts begins with %q, want [ATTEMPTS ? 2]", names)
	}
	none := &screen{columns: maxColumns}
	if none.attempts(&Report{Ledger: &account.Report{}}); len(none.lines) != 0 {
		t.Errorf("of no attempts: %q, want none", none.lines)
	}
}

// The table of waits is in nanoseconds, the budget in microseconds.
func TestWaitsAreNanoseconds(t *testing.T) {
	table := waits(&straggler.Verdict{Waits: &straggler.Waits{Total: 9, By: "rank", Names: []string{"0", "1"}, Cells: []straggler.WaitCell{{Waiter: 1, For: 0, Time: 8}, {Waiter: 0, For: 1, Time: 1}}}})
	if table.Rows[1].Cells[0].Time != 8000 || table.Rows[1].Total != 8000 || table.Rows[0].Total != 1000 {
		t.Errorf("rows %+v, want 1000 in the first, 8000 in the second and its first cell", table.Rows)
	}
}

// A process keeps at most as many names as a digest may have. A save without a step is assigned
// to an interval between steps, if there are steps.
func TestBoundsOfDetails(t *testing.T) {
	d := newDetailSink(&job.Process{})
	for i := range maxNames + 9 {
		d.Span(&job.Span{ID: 1, Name: fmt.Sprint("name", i), Start: 5, End: 9})
	}
	d.saves[7] = save{name: "checkpoint", step: job.Unknown, start: 5, end: 9}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if len(d.names) != maxNames || d.saves[7].step != job.Unknown {
		t.Errorf("%d names, saves %+v; want %d names and an unknown step of save 7", len(d.names), d.saves, maxNames)
	}
	for count, fits := range map[int64]bool{-1: false, 0: false, 1: true, 1 << 40: true, 1<<40 + 1: false} {
		d.names["name0"].count = count
		body, err := d.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := new(detailSink).UnmarshalBinary(body); (err == nil) != fits {
			t.Errorf("a name counted %d times: UnmarshalBinary() = %v, want an error: %v", count, err, !fits)
		}
	}
}

// A part of a digest without its unpacked size must be small.
func TestPartThatHidesItsSize(t *testing.T) {
	for size, fits := range map[int]bool{100: true, 8 * smallPart: false} {
		s := &State{names: []string{strings.Repeat("x", size)}}
		var packed bytes.Buffer
		z, err := zstd.NewWriter(&packed, zstd.WithWindowSize(zstd.MinWindowSize))
		if err != nil {
			t.Fatal(err)
		}
		for body := s.appendHeader(nil); len(body) > 0; body = body[min(64, len(body)):] {
			if _, err := z.Write(body[:min(64, len(body))]); err != nil {
				t.Fatal(err)
			}
			if err := z.Flush(); err != nil { // so that the encoder does not know the size
				t.Fatal(err)
			}
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		var digest bytes.Buffer
		if err := new(State).WriteDigest(&digest); err != nil {
			t.Fatal(err)
		}
		start := len(fsread.DigestMagic) + 1 // and the version
		_, n := binary.Uvarint(digest.Bytes()[start+1:])
		size0, _ := binary.Uvarint(digest.Bytes()[start+1:])
		text := append([]byte{}, digest.Bytes()[:start+1]...)
		text = append(binary.AppendUvarint(text, uint64(packed.Len())), packed.Bytes()...)
		text = append(text, digest.Bytes()[start+1+n+int(size0):]...)
		got, err := readDigest(bytes.NewReader(text), nil)
		if (err == nil) != fits || err != nil && !errors.Is(err, errDamagedDigest) || fits && !slices.Equal(got.names, s.names) {
			t.Errorf("a part of %d bytes: %v; want an error: %v", size, err, !fits)
		}
	}
}

// Loading can be stopped, and a file is a digest if it has the name or the magic of one.
func TestLoadOfDigests(t *testing.T) {
	dir := t.TempDir()
	put := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var digest bytes.Buffer
	if err := new(State).WriteDigest(&digest); err != nil {
		t.Fatal(err)
	}
	named := put("a.digest", digest.Bytes())
	other := put("other", digest.Bytes())
	for _, path := range []string{named, other} {
		if _, err := Load(nil, path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := Load(nil, put("no.digest", []byte("nothing"))); !errors.Is(err, ErrDigest) {
		t.Errorf("a file that only calls itself one: %v", err)
	}
	trace := put("trace.pfw", []byte("[\n"+`{"id":1,"name":"ai_root","cat":"ai_root","pid":7,"tid":1,"ts":1704067200000000,"dur":9,"ph":"X","args":{"level":1,"p_idx":-1}}`+"\n"))
	stopped := errors.New("stopped")
	if _, err := Load(func() error { return stopped }, trace); !errors.Is(err, stopped) {
		t.Errorf("it was stopped: %v", err)
	}
}

// TestGPUSentence checks that each GPU counts with the last start on its host.
func TestGPUSentence(t *testing.T) {
	of := func(host string, start int64, gpus ...rundir.GPU) Resource {
		return Resource{Host: host, Start: start, GPUs: gpus}
	}
	for _, c := range []struct {
		resources []Resource
		want      string
	}{
		{nil, ""},
		{[]Resource{of("a", 1)}, ""},
		{[]Resource{of("a", 1, rundir.GPU{Index: "0", Busy: 96, Memory: 61e9, MemoryTotal: 80e9})}, "96 % busy, at most 61 GB of 80 GB of memory in use"},
		{[]Resource{of("a", 1, rundir.GPU{Index: "0", Busy: 96})}, "96 % busy"},
		{[]Resource{of("a", 1, rundir.GPU{Index: "0", Busy: 5}), of("a", 2, rundir.GPU{Index: "0", Busy: 90})}, "90 % busy"},
		{[]Resource{of("a", 1, rundir.GPU{Index: "0", Busy: 96}, rundir.GPU{Index: "1", Busy: 94}), of("b", 1, rundir.GPU{Index: "0", Busy: 97})}, "3, 94 to 97 % busy"},
		{[]Resource{of("a", 1, rundir.GPU{Index: "0", Busy: 96.1}, rundir.GPU{Index: "1", Busy: 95.9})}, "2, 96 % busy"},
	} {
		if got := (&Report{Resources: c.resources}).gpuSentence(); got != c.want {
			t.Errorf("gpuSentence() of %+v = %q, want %q", c.resources, got, c.want)
		}
	}
}

// TestWordsForTheMachine checks the sentences about one rank and several, and about equal and different shares.
func TestWordsForTheMachine(t *testing.T) {
	for _, c := range []struct {
		ranks []int
		want  string
	}{
		{[]int{1}, "why rank 1 is late: "},
		{[]int{1, 2}, "why ranks 1, 2 are late: "},
		{[]int{1, 2, 3, 4, 5, 6}, "why ranks 1, 2, 3, 4, 5, 6 are late: "},
	} {
		r := &Report{Verdict: Verdict{Machine: &machine.Finding{NoCause: c.ranks}}}
		if got := r.causeNotKnown(); !strings.HasPrefix(got, c.want) {
			t.Errorf("ranks %v: %q, want %q", c.ranks, got, c.want)
		}
	}
	for most, want := range map[float64]string{0.51: " for one for 51.0 % of the time.", 0.6: " for one for 51.0 % to 60.0 % of the time."} {
		for _, o := range []machine.Overload{{Cores: 2}, {Cores: 2, Limit: true}, {Cores: 2, Runnable: 8}} {
			o.Host, o.Least, o.Most = "a", 0.51, most
			if got := overloadSentence(&o); !strings.HasSuffix(got, want) {
				t.Errorf("%q, want %q at its end", got, want)
			}
		}
	}
}

// TestRunOfOnlyItsStart: a short run that is all start has no time after it.
func TestRunOfOnlyItsStart(t *testing.T) {
	none := 0.0
	led := &account.Report{Categories: account.Totals{account.Init: 1e9}, Ranks: []account.RankReport{{}}}
	led.Wall = 1e9
	r := &Report{Goodput: &none, Ranks: make([]Rank, 1), Ledger: led, Losses: losses(led)}
	r.Shares = r.shares()
	if _, _, why := r.findCostliest(); !strings.Contains(why, "0.0 % of the time is in steps") {
		t.Errorf("the reason is %q, want 0.0 %% of the time", why)
	}
}

// TestSampledDevices checks the remark on the rank with the fewest steps that have times of their device.
func TestSampledDevices(t *testing.T) {
	for _, c := range []struct {
		facts []string
		want  string
	}{
		{[]string{"", ""}, ""},
		{[]string{"8 of 8", "text"}, ""},
		{[]string{"8 of 16", "8 of 64", "8 of 32"}, "only 8 of 64 steps"},
	} {
		var all []*job.Process
		for _, text := range c.facts {
			all = append(all, &job.Process{Facts: map[string]string{job.FactSampled: text}})
		}
		got := sampledDevices(all)
		if (got == "") != (c.want == "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("sampledDevices(%q) = %q, want %q", c.facts, got, c.want)
		}
	}
}
