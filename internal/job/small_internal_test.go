package job

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/job/rundir"
)

// Only a missing id is the number 0, which means no span.
func TestSpanID(t *testing.T) {
	for id, want := range map[string]uint64{"": 0, "00000000000000ff": 255} {
		if got := spanID(id); got != want {
			t.Errorf("%q is %d, want %d", id, got, want)
		}
	}
	seen := map[uint64]string{}
	for _, id := range []string{"0", "ff", "0000000000000000", "000000000000000g", "a text"} {
		n := spanID(id)
		if n == 0 || seen[n] != "" {
			t.Errorf("%q and %q have the same ID %d, want different ones above 0", id, seen[n], n)
		}
		seen[n] = id
	}
}

// The same command has the same program and script; the later one may have more
// flags.
func TestSameCommand(t *testing.T) {
	first := rundir.Run{Program: "python", Script: "train.py", Flags: []string{"--lr", "--seed"}}
	for name, c := range map[string]struct {
		change func(*rundir.Run)
		want   bool
	}{
		"equal":          {func(*rundir.Run) {}, true},
		"one flag more":  {func(r *rundir.Run) { r.Flags = []string{"--resume", "--lr", "--seed"} }, true},
		"one flag less":  {func(r *rundir.Run) { r.Flags = []string{"--lr"} }, false},
		"other program":  {func(r *rundir.Run) { r.Program = "torchrun" }, false},
		"another script": {func(r *rundir.Run) { r.Script = "eval.py" }, false},
	} {
		later := first
		c.change(&later)
		if got := sameCommand(&first, &later); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// An attempt continues the previous one if the launcher shows it, if there is
// no evidence, and if the same command died before and the next continues its
// training.
func TestBefore(t *testing.T) {
	failed, well := 1, 0
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	type starts struct{ first, next *rundir.Run }
	for name, c := range map[string]struct {
		change func(*starts, *Process)
		want   bool
	}{
		"it died, and the same goes on": {func(*starts, *Process) {}, true},
		"it begins anew":                {func(_ *starts, p *Process) { p.Steps.GoesOn = false }, false},
		"it ended well":                 {func(s *starts, _ *Process) { s.first.ExitStatus = &well }, false},
		"another command":               {func(s *starts, _ *Process) { s.next.Script = "eval.py" }, false},
		"its end was not seen":          {func(s *starts, _ *Process) { s.first.ExitStatus = nil; s.first.State = rundir.Running }, true},
		"it was alive when the next started": {func(s *starts, _ *Process) {
			s.first.ExitStatus, s.first.State, s.first.Seen = nil, rundir.Running, at(30)
		}, false},
		"the launcher says that it goes on": {func(s *starts, p *Process) { s.next.Job, p.Steps.GoesOn = s.first.Job, false }, true},
		"one has no job":                    {func(s *starts, p *Process) { s.next.Job, p.Steps.GoesOn = "", false }, true},
	} {
		s := starts{
			&rundir.Run{Program: "python", Script: "train.py", Job: "1", Started: at(10), Seen: at(20), ExitStatus: &failed, State: rundir.Ended},
			&rundir.Run{Program: "python", Script: "train.py", Job: "2", Started: at(25), Seen: at(35), ExitStatus: &well, State: rundir.Ended},
		}
		p := newProcess()
		p.Steps.GoesOn = true
		c.change(&s, p)
		a, b := &attemptStarts{starts: []*rundir.Run{s.first}}, &attemptStarts{starts: []*rundir.Run{s.next}, procs: []*Process{p}}
		if got := a.precedes(b); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Attempts that complement each other have other ids, ranks and hosts of one
// world.
func TestComplements(t *testing.T) {
	proc := func(rank int, host string) *Process {
		p := newProcess()
		p.Rank, p.RankKnown, p.WorldSize, p.Host = rank, true, 4, host
		return p
	}
	for name, c := range map[string]struct {
		jobs   []string
		change func(*Process)
		want   bool
	}{
		"the other half":  {[]string{"b"}, func(*Process) {}, true},
		"one job":         {[]string{"b", "a"}, func(*Process) {}, false},
		"no job":          {nil, func(*Process) {}, false},
		"a rank twice":    {[]string{"b"}, func(p *Process) { p.Rank = 1 }, false},
		"the same host":   {[]string{"b"}, func(p *Process) { p.Host = "one" }, false},
		"another world":   {[]string{"b"}, func(p *Process) { p.WorldSize = 8 }, false},
		"a rank too many": {[]string{"b"}, func(p *Process) { p.Rank = 4 }, false},
		"unknown rank":    {[]string{"b"}, func(p *Process) { p.RankKnown = false }, false},
	} {
		a := &attemptStarts{jobs: []string{"a"}, procs: []*Process{proc(0, "one"), proc(1, "one")}}
		b := &attemptStarts{jobs: c.jobs, procs: []*Process{proc(2, "two"), proc(3, "two")}}
		c.change(b.procs[1])
		n, m := nodesOf(a), nodesOf(b)
		if got := m != nil && !n.meets(m); got != c.want {
			t.Errorf("%s: complements = %v, want %v", name, got, c.want)
		}
	}
}

// Files are compared to the last byte, also if they are longer than one read.
func TestSameBytes(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const read = 64 << 10
	for _, size := range []int{0, 1, read, read + 1, 2*read + 5} {
		b := bytes.Repeat([]byte{'x'}, size)
		one, two := write("one", b), write("two", b)
		if !sameBytes(one, two) {
			t.Errorf("two files of the same %d bytes differ, want them equal", size)
		}
		if longer := write("longer", append(b, 'x')); sameBytes(one, longer) {
			t.Errorf("file of %d bytes equals one with a byte more, want a difference", size)
		}
		if size > 0 {
			b[size-1] = 'y'
			if sameBytes(one, write("other", b)) {
				t.Errorf("file of %d bytes equals one with another last byte, want a difference", size)
			}
		}
		if missing := filepath.Join(dir, "missing"); sameBytes(one, missing) || sameBytes(missing, one) {
			t.Error("two unreadable files are equal, want different")
		}
	}
}

// Signals have their names on Linux.
func TestSignals(t *testing.T) {
	for number, want := range map[int64]string{6: "SIGABRT", 9: "SIGKILL", 11: "SIGSEGV", 12: "", 15: "SIGTERM"} {
		if got := signals[number]; got != want {
			t.Errorf("signal %d is %q, want %q", number, got, want)
		}
	}
}

// A time after the year 2255 is ignored, because it may not fit in nanoseconds.
func TestTimeOfARecord(t *testing.T) {
	for ms, want := range map[string]int64{"-1": 0, "0": 0, "1": 1e6, "9000000000000": 9e18, "9000000000001": 0, "9300000000000": 0} {
		var e recordEvent
		if err := json.Unmarshal([]byte(`{"attributes":{"timestamp_msec":`+ms+`}}`), &e); err != nil {
			t.Fatal(err)
		}
		if got := e.time(); got != want {
			t.Errorf("%s ms is %d, want %d", ms, got, want)
		}
	}
}
