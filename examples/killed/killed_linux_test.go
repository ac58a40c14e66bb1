// Package killed kills programs that record themselves and checks their files
// for missing records.
package killed

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/testkit/pyrun"
	"github.com/trainspan/trainspan/internal/testkit/until"
	"github.com/trainspan/trainspan/internal/tracefile/recovery"
)

// The age of a record is the number of pulses of its process after it. A
// process without CPU time has no pulses, so load does not make records older.
const (
	pulse   = 10 * time.Millisecond
	promise = int(fswrite.FlushInterval / pulse)
	// patience allows for the path of a record to the file: the goroutines that
	// compress and write must run, like that of the pulse.
	patience = 15
	most     = promise + patience
)

// program is a program to kill.
type program struct {
	name  string
	build func(t *testing.T, dir string) string // the path of the executable
	args  []string
	step  string // name of a step in the trace
	lines bool   // it writes JSON lines
	run   bool   // it runs under trainspan run
}

var programs = []program{
	{name: "library", build: library, step: "train.iteration", lines: true},
	{name: "front door", build: frontDoor, step: "train.iteration", lines: true},
	{name: "demo", build: demo, step: "train.iteration", lines: true,
		args: []string{"-out", "out", "-text", "text/", "-epochs", "100000", "-steps", "400", "-checkpoint-every", "40", "-validate-every", "100", "-hidden", "32", "-progress", "off"}},
	{name: "trainspan run", build: command, step: "forward", run: true},
}

// TestKilled checks that the files of a killed program have all records that
// are older than the flush interval. The first kill of each program comes when
// its trace has not grown for longer than that, if that happens; the others at
// random.
func TestKilled(t *testing.T) {
	kills := 20
	if testing.Short() {
		kills = 3
	}
	for i := range programs {
		p := &programs[i]
		t.Run(p.name, func(t *testing.T) {
			exe := p.build(t, t.TempDir())
			random := rand.New(rand.NewPCG(uint64(i), 2))
			var trace, lines missing
			for n := range kills {
				after := promise + random.IntN(2*promise)
				if n == 0 {
					after = 0
				}
				p.kill(t, exe, after, &trace, &lines)
			}
			t.Logf("%d kills, %d steps on the journal; the oldest step that is missing: trace %v, JSON lines %v", kills, trace.steps, &trace, &lines)
		})
	}
}

// missing has the missing records of one kind of file after all kills.
type missing struct {
	steps, lost int
	pulses      int // age of the oldest
	age         time.Duration
}

func (m *missing) String() string {
	if m.lost == 0 {
		return "none"
	}
	return fmt.Sprintf("%d ms, %d pulses (%d steps in all)", m.age.Milliseconds(), m.pulses, m.lost)
}

// kill starts the program, kills it after the given number of pulses, or for 0
// when its trace does not grow, and looks for its steps.
func (p *program) kill(t *testing.T, exe string, after int, trace, lines *missing) {
	t.Helper()
	dir := t.TempDir()
	text, err := filepath.Abs("../charlm") // training text of the demo
	if err == nil {
		err = os.Symlink(text, filepath.Join(dir, "text"))
	}
	if err != nil {
		t.Fatal(err)
	}
	journal := filepath.Join(dir, "journal")
	cmd := exec.CommandContext(t.Context(), exe, p.args...)
	if p.run {
		script, err := filepath.Abs("testdata/train.py")
		if err != nil {
			t.Fatal(err)
		}
		cmd.Args = append(cmd.Args, "run", "--", pyrun.Interpreter(t), script)
	}
	cmd.Dir = dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TRAINSPAN_") && !strings.HasPrefix(v, "DFTRACER_") && !strings.HasPrefix(v, "OTEL_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "KILLED_JOURNAL="+journal, "TRAINSPAN_EXPORT_MODE=EXPORT_ALL_SPANS")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }()
	over := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(over)
	}()
	size, grown := int64(0), 0
	until.True(t, "the moment of the kill", func() bool {
		select {
		case <-over:
			t.Fatalf("the program has ended before the kill: %s", &out)
		default:
		}
		now := pulses(journal)
		if now == 0 || trace.path(dir) == "" && !p.run {
			return false
		}
		if after > 0 {
			return now >= after
		}
		if info, err := os.Stat(trace.path(dir)); err == nil && info.Size() != size {
			size, grown = info.Size(), now
		}
		return now-grown > most || now >= 6*promise
	})
	p.strike(t, cmd)
	<-over
	path := trace.path(dir)
	if path == "" {
		t.Fatalf("the program made no trace: %s", &out)
	}
	p.look(t, "trace", journal, steps(t, path, p.step), trace)
	if p.lines {
		p.look(t, "JSON lines", journal, stops(t, dir), lines)
	}
	if _, err := recovery.File(path, nil); err != nil {
		t.Error(err)
	}
	dftest.Check(t, path)
}

// strike kills the training process.
func (p *program) strike(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	pid := cmd.Process.Pid
	if p.run {
		pid = childOf(t, pid)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// childOf returns the child of trainspan run that is the program.
func childOf(t *testing.T, parent int) (child int) {
	t.Helper()
	until.True(t, "the program below trainspan run", func() bool {
		list, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, path := range list {
			text, _ := os.ReadFile(path)
			_, rest, _ := bytes.Cut(text, []byte(") "))
			args, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
			if f := bytes.Fields(rest); len(f) > 1 && string(f[1]) == strconv.Itoa(parent) && bytes.HasSuffix(args, []byte("train.py\x00")) && bytes.Contains(args[:bytes.IndexByte(args, 0)], []byte("python")) {
				child, _ = strconv.Atoi(filepath.Base(filepath.Dir(path)))
			}
		}
		return child != 0
	})
	return child
}

// look compares the steps of the journal with the number in a file.
func (p *program) look(t *testing.T, what, journal string, have int, m *missing) {
	t.Helper()
	f, err := os.Open(journal)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	type entry struct {
		at     int64
		pulses int // before it
	}
	var list []entry
	beats, last := 0, int64(0)
	for s := bufio.NewScanner(f); s.Scan(); {
		kind, text, _ := strings.Cut(s.Text(), " ")
		at, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			break // the kill truncated the line
		}
		if last = max(last, at); kind == "pulse" {
			beats++
			continue
		}
		list = append(list, entry{at, beats})
	}
	m.steps += len(list)
	if have >= len(list) {
		return
	}
	m.lost += len(list) - have
	age, old := time.Duration(last-list[have].at), beats-list[have].pulses
	m.age, m.pulses = max(m.age, age), max(m.pulses, old)
	if old > most {
		t.Errorf("%s: step %d of %d is missing, recorded %v and %d pulses before the kill, want at most %d", what, have, len(list), age, old, most)
	}
}

// pulses returns the number of pulses of the process so far.
func pulses(journal string) int {
	text, _ := os.ReadFile(journal)
	return bytes.Count(text, []byte("pulse"))
}

// path returns the trace below a folder, empty if there is none yet.
func (*missing) path(dir string) (path string) {
	_ = filepath.WalkDir(dir, func(at string, _ os.DirEntry, _ error) error {
		if strings.HasSuffix(at, ".pfw.gz") && filepath.Base(at) != "resources.pfw.gz" {
			path = at
		}
		return nil
	})
	return path
}

// steps returns the number of steps in a truncated trace, which must be in
// order.
func steps(t *testing.T, path, name string) (n int) {
	t.Helper()
	r, err := dftracer.OpenReader(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // only read
	for ev, err := range r.All() {
		if err == nil && ev.Phase == dftracer.PhaseComplete && ev.Name == name {
			n++
		}
	}
	return n
}

// stops returns the number of step ends in JSON lines.
func stops(t *testing.T, dir string) (n int) {
	t.Helper()
	_ = filepath.WalkDir(dir, func(at string, _ os.DirEntry, _ error) error {
		if !strings.HasSuffix(at, ".jsonl") {
			return nil
		}
		text, err := os.ReadFile(at)
		if err != nil {
			t.Error(err)
		}
		for line := range bytes.Lines(text) {
			var rec struct{ Type, Name string }
			if json.Unmarshal(line, &rec) == nil && rec.Type == "stop" && rec.Name == "training_single_iteration" {
				n++
			}
		}
		return nil
	})
	return n
}

// overlay builds a package of the examples with the journal, and with
// replacements in a file; each old text must occur once.
func overlay(t *testing.T, dir, pkg, file string, replace ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", pkg, file))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(replace); i += 2 {
		if n := strings.Count(string(text), replace[i]); n != 1 {
			t.Fatalf("%s has %q %d times, want once", file, replace[i], n)
		}
		text = []byte(strings.Replace(string(text), replace[i], replace[i+1], 1))
	}
	return build(t, dir, "../"+pkg, map[string][]byte{filepath.Join("..", pkg, file): text, filepath.Join("..", pkg, "journal.go"): testdata(t, "journal.go.txt")})
}

func testdata(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// build builds a package with replaced files.
func build(t *testing.T, dir, pkg string, files map[string][]byte) string {
	t.Helper()
	var o struct{ Replace map[string]string }
	o.Replace = make(map[string]string)
	for path, text := range files {
		abs, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		o.Replace[abs] = filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(o.Replace[abs], text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	at, exe := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "program")
	if err := os.WriteFile(at, list, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", at, "-o", exe, pkg).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return exe
}

func library(t *testing.T, dir string) string {
	return build(t, dir, "../library_program", map[string][]byte{
		"../library_program/main.go": testdata(t, "library.go.txt"), "../library_program/journal.go": testdata(t, "journal.go.txt")})
}

// frontDoor returns the path of the README's program with an endless loop.
func frontDoor(t *testing.T, dir string) string {
	return overlay(t, dir, "first", "main.go", "range 200 {", "range 1 << 40 {", "\t\tstep.End()\n", "\t\ttime.Sleep(2 * time.Millisecond)\n\t\tstep.End()\n\t\trecorded()\n",
		"\t\"log\"\n", "\t\"log\"\n\t\"time\"\n")
}

func demo(t *testing.T, dir string) string {
	return overlay(t, dir, "charlm", "step.go", "\tt.report.step(t.pos, loss, t.rows)\n", "\tt.report.step(t.pos, loss, t.rows)\n\trecorded()\n")
}

func command(t *testing.T, dir string) string {
	pyrun.Interpreter(t)
	return build(t, dir, "github.com/trainspan/trainspan/cmd/trainspan", nil)
}
