//go:build linux

package python_test

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/ingest/pyring"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/testkit/pyrun"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// TestFiles checks that the calls of a program and of its forks on files below
// a folder are recorded, with the names and arguments of DFTracer; many calls
// in a short time are aggregated.
func TestFiles(t *testing.T) {
	const many = 5000
	rings, root := t.TempDir(), t.TempDir()
	pyrun.Run(t, rings, filepath.Join("testdata", "dftracer", "io.py"), root, fmt.Sprint(many))
	_, traces := importRings(t, pyring.Options{Attempt: -1}, rings)
	if len(traces) != 2 {
		t.Fatalf("%d traces, want 2", len(traces))
	}
	slices.SortFunc(traces, func(a, b string) int { return cmp.Compare(len(dftest.Events(t, b)), len(dftest.Events(t, a))) })
	want := `
open64 in/a flags=524865 mode=438
write in/a count=5000 ret=5000
close in/a ret=0
open64 in/a flags=524288
read in/a count=4096 ret=4096
lseek64 in/a whence=2 ret=5000 offset=0
close in/a ret=0
open64 in/a flags=524288
read in/a count=5000 ret=5000
close in/a ret=0
open64 in/b flags=524354 mode=384
write in/b count=3 ret=3
pwrite in/b count=2 ret=2 offset=3
pread in/b count=9 ret=4 offset=1
lseek64 in/b whence=0 ret=0 offset=0
read in/b count=100 ret=5
fsync in/b
mmap64 in/b length=5 flags=1 offset=0
close in/b ret=0
stat in/b
rename in/b newpath_hash=in/b.new
open64 in/b.new flags=524288
read in/b.new count=5 ret=5
close in/b.new ret=0
unlink in/b.new
mkdir in/d mode=511
rmdir in/d
opendir in
opendir in
open64 in/none flags=524288 ret=-1
open64 in/a flags=524288
`
	got, totals := fileCalls(t, traces[0], root)
	first := strings.Split(strings.TrimSpace(want), "\n")
	if len(got) < len(first) || strings.Join(got[:len(first)], "\n") != strings.Join(first, "\n") {
		t.Errorf("%s\nwant\n%s", strings.Join(got[:min(len(got), len(first))], "\n"), strings.Join(first, "\n"))
	}
	calls := int64(len(got) - len(first))
	for _, n := range totals {
		calls += n
	}
	if calls != 2*many+1 || len(totals) == 0 { // and the last close
		t.Errorf("%d events and totals of %v, want %d calls", len(got)-len(first), totals, 2*many+1)
	}
	forked, _ := fileCalls(t, traces[1], root)
	if want := "open64 in/a flags=524288, read in/a count=4096 ret=4096, close in/a ret=0"; strings.Join(forked, ", ") != want {
		t.Errorf("the fork: %s, want %s", strings.Join(forked, ", "), want)
	}
	var item uint64
	for _, ev := range dftest.Events(t, traces[0]) {
		if ev.Name == "item" {
			item = ev.ID
		}
	}
	inside := 0
	for _, ev := range dftest.Events(t, traces[0]) {
		if ev.Cat == "POSIX" && ev.Parent == int64(item) {
			inside++
		}
	}
	if inside != 3 {
		t.Errorf("%d calls are inside of the span around them, want 3", inside)
	}
	set, err := job.Open(traces[0])
	if err != nil {
		t.Fatal(err)
	}
	accounts, err := account.Collect(set)
	if err != nil || len(accounts) != 1 {
		t.Fatalf("%d jobs, %v; want 1", len(accounts), err)
	}
	for _, f := range accounts[0].Job.Processes[0].Files {
		if strings.HasSuffix(f.Path, "/in/a") && (f.Read.Bytes != 4096+5000+10*many || f.Written.Bytes != 5000) {
			t.Errorf("file is %+v, want %d bytes read, 5000 written", f, 4096+5000+10*many)
		}
	}
}

// TestAllFiles checks that with DFTRACER_DATA_DIR=all the client's own calls are
// neither recorded nor counted as lost, and that calls after a lost record have
// the names of their files.
func TestAllFiles(t *testing.T) {
	const program = `
import os, sys, threading
from trainspan import _ring
from trainspan.dftracer import dftracer
dftracer.initialize_log("all.pfw", "all")
def use(name):
    with open(sys.argv[1] + name, "wb") as f: f.write(b"ab")
use("/a")
use("/b")
t = threading.Thread(target=use, args=("/c",)); t.start(); t.join()
n = _ring.name("n", "test")
for i in range(30000): _ring.end(_ring.start(n))
if os.fork() == 0:
    use("/d")
    os._exit(0)
os.wait()
if len(sys.argv) > 2: _ring.lose()
use("/a")
`
	for _, lost := range []int64{0, 1} {
		rings, root := t.TempDir(), t.TempDir()
		pyrun.Run(t, rings, program, append([]string{root}, []string{"lose"}[:lost]...)...)
		st, traces := importRings(t, pyring.Options{Attempt: -1}, rings)
		if st.Lost != lost || len(traces) != 2 {
			t.Errorf("%d records of %d processes lost, want %d of 2", st.Lost, len(traces), lost)
		}
		var got []string
		for _, trace := range traces {
			calls, _ := fileCalls(t, trace, root)
			got = append(got, calls...)
		}
		slices.Sort(got)
		var want []string
		for _, name := range strings.Fields("a a b c d") {
			want = append(want, "close "+name+" ret=0", "open64 "+name+" flags=524865 mode=438", "write "+name+" count=2 ret=2")
		}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("calls %q, want %q", got, want)
		}
	}
}

// fileCalls returns the calls of a trace, and the number of aggregated calls by
// name.
func fileCalls(t *testing.T, path, root string) (calls []string, totals map[string]int64) {
	t.Helper()
	paths := make(map[string]string)
	totals = make(map[string]int64)
	events := dftest.Events(t, path)
	for _, ev := range events {
		if key, value := ev.Meta(); ev.Name == tracefile.NameFileHash {
			paths[value] = strings.TrimPrefix(key, root+"/")
		}
	}
	slices.SortStableFunc(events, func(a, b dftracer.Event) int { return cmp.Compare(a.ID, b.ID) })
	for _, ev := range events {
		if ev.Cat != "POSIX" {
			continue
		}
		name, rest := "", ""
		for _, a := range ev.Args {
			switch a.Key {
			case "fhash":
				name = paths[a.Text()]
			case "newpath_hash":
				rest += " newpath_hash=" + paths[a.Text()]
			case tracefile.ArgCalls:
				totals[ev.Name] += a.Int64()
			default:
				rest += fmt.Sprintf(" %s=%s", a.Key, a.Text())
			}
		}
		if ev.Phase == dftracer.PhaseComplete {
			calls = append(calls, ev.Name+" "+name+rest)
		}
	}
	return calls, totals
}
