package rundir_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/job/rundir"
)

// claimIn is a variable with the folder in which a child claims attempts.
const claimIn = "RUNDIR_CLAIM_IN"

const claims = 25 // per child and goroutine

func TestMain(m *testing.M) {
	if dir := os.Getenv(claimIn); dir != "" {
		if err := os.Chdir(dir); err != nil {
			panic(err)
		}
		for range claims {
			p, err := wanted("").Make()
			if err != nil {
				panic(err)
			}
			fmt.Println(p.Attempt)
		}
		return
	}
	m.Run()
}

// Many processes and goroutines never get one number twice, also beside
// programs that create the empty folder of an attempt, as earlier libraries
// did.
func TestNoNumberTwice(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("trainspan-runs/a job", 0o755); err != nil {
		t.Fatal(err)
	}
	got := make(chan int, 1000)
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			child := exec.Command(os.Args[0])
			child.Env = append(os.Environ(), claimIn+"=.")
			out, err := child.Output()
			if err != nil {
				t.Errorf("child: %v: %s", err, out)
			}
			for text := range strings.FieldsSeq(string(out)) {
				n, err := strconv.Atoi(text)
				if err != nil {
					t.Error(err)
				}
				got <- n
			}
		})
		wait.Go(func() {
			for range claims {
				p, err := wanted("").Make()
				if err != nil {
					t.Error(err)
				}
				got <- p.Attempt
			}
		})
		if runtime.GOOS == "linux" { // on other systems an empty folder may be replaced
			wait.Go(func() {
				for i := 0; i < claims; {
					n := i
					for os.Mkdir(fmt.Sprintf("trainspan-runs/a job/attempt-%d", n+1), 0o755) != nil {
						n++
					}
					got <- n
					i++
				}
			})
		}
	}
	wait.Wait()
	close(got)
	seen := make(map[int]bool)
	for n := range got {
		if seen[n] {
			t.Errorf("attempt number %d was given twice", n)
		}
		seen[n] = true
	}
	if want := 4 * claims * 2; len(seen) < want {
		t.Errorf("%d attempts, want %d", len(seen), want)
	}
}

// If a member cannot take its place, that is an error, and not a sign that it
// has taken it.
func TestJoinFails(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	t.Chdir(t.TempDir())
	w := wanted("slurm/7")
	w.Member = "rank0"
	if _, err := w.Make(); err != nil {
		t.Fatal(err)
	}
	attempt := "trainspan-runs/a job/attempt-1"
	if err := os.Chmod(attempt, 0o500); err != nil {
		t.Fatal(err)
	}
	w.Member = "rank1"
	if p, err := w.Make(); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("Make() = %+v, %v; want fs.ErrPermission", p, err)
	}
	if err := os.Chmod(attempt, 0o700); err != nil {
		t.Fatal(err)
	}
}

// The remains of a killed claim do not affect others.
func TestLeftOfAClaim(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("trainspan-runs/a job/.start-123/attempt/h-9", 0o700); err != nil {
		t.Fatal(err)
	}
	if p, err := wanted("").Make(); err != nil || p.Attempt != 0 {
		t.Errorf("Make() = %+v, %v; want no attempt number", p, err)
	}
	if left, err := filepath.Glob("trainspan-runs/a job/.*"); err != nil || len(left) != 1 {
		t.Errorf("files left %v, %v; want one", left, err)
	}
}

// A launcher without a job id has each of its starts in a separate attempt,
// with all its ranks.
func TestStarted(t *testing.T) {
	t.Chdir(t.TempDir())
	ranks := func(rank, restart int, run string) *config.Ranks {
		return &config.Ranks{Rank: config.Value(rank), WorldSize: config.Value(2), Attempt: config.Value(restart), Run: run}
	}
	if runtime.GOOS != "linux" {
		t.Skip("it is not known when a process was started")
	}
	for i, c := range []struct {
		ranks  *config.Ranks
		parent int
		want   int
	}{
		{ranks(0, 0, ""), os.Getpid(), 0}, {ranks(1, 0, ""), os.Getpid(), 0},
		{ranks(0, 0, ""), os.Getppid(), 1}, {ranks(1, 0, ""), os.Getppid(), 1}, // another launcher
		{ranks(1, 1, ""), os.Getpid(), 2}, {ranks(0, 1, ""), os.Getpid(), 2}, // restarts
		{ranks(0, 0, "x"), os.Getpid(), 3}, {ranks(1, 0, "x"), os.Getppid(), 3},
		{ranks(0, 7, "y"), os.Getpid(), 7}, {ranks(1, 7, "y"), os.Getpid(), 7},
		{ranks(0, 0, ""), os.Getpid(), 4}, // the same launcher again
	} {
		w := wanted("")
		w.Least = c.ranks.Attempt.Get()
		w.Start, w.Member = rundir.Started(c.ranks, "h", c.parent)
		if p, err := w.Make(); err != nil || p.Attempt != c.want || w.Start == "" {
			t.Errorf("%d: %+v, %v; want %d", i, p, err, c.want)
		}
	}
	if start, member := rundir.Started(&config.Ranks{}, "h", os.Getpid()); start != "" || member != "" {
		t.Errorf("Started without ranks = %q, %q; want both empty", start, member)
	}
}

// A run.json that another program has put in the place of ours is not changed.
func TestFileOfSomebodyElse(t *testing.T) {
	dir := t.TempDir()
	f, _, err := rundir.CreateFile(dir)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := f.Write(&rundir.Run{Name: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(dir, "other")
	if err := errors.Join(os.WriteFile(other, []byte("precious"), 0o600), os.Rename(other, f.Path())); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(&rundir.Run{Name: "y"}); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if text, err := os.ReadFile(f.Path()); err != nil || string(text) != "precious" {
		t.Errorf(`file of the user contains %q, %v; want "precious" as before`, text, err)
	}
}

func wanted(start string) rundir.Wanted {
	return rundir.Wanted{Name: "a job", Attempt: -1, Start: start, Host: "h", PID: 1}
}

// For any number of concurrent claims, processes of one start get one number
// and every other start another one.
func TestMakeIsAtomic(t *testing.T) {
	t.Chdir(t.TempDir())
	const starts, members = 8, 6
	var mu sync.Mutex
	of := make(map[string][]int)
	var wait sync.WaitGroup
	for i := range starts * members {
		start := fmt.Sprintf("job/%d", i%starts)
		if i%starts == 0 {
			start = "" // each separately
		}
		wait.Go(func() {
			w := wanted(start)
			w.PID = i
			p, err := w.Make()
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			of[start] = append(of[start], p.Attempt)
		})
	}
	wait.Wait()
	seen := make(map[int]bool)
	for start, list := range of {
		slices.Sort(list)
		if start == "" {
			if list = slices.Compact(list); len(list) != members {
				t.Errorf("starts without a launcher share attempts: %v", list)
			}
		} else if list = slices.Compact(list); len(list) != 1 {
			t.Errorf("start %s has the attempts %v, want one", start, list)
		}
		for _, n := range list {
			if seen[n] {
				t.Errorf("attempt number %d was given twice", n)
			}
			seen[n] = true
		}
	}
	if len(seen) != starts-1+members {
		t.Errorf("%d attempts, want %d", len(seen), starts-1+members)
	}
}

func TestMake(t *testing.T) {
	t.Chdir(t.TempDir())
	for i, c := range []struct {
		w    rundir.Wanted
		want rundir.Place
	}{
		{wanted(""), rundir.Place{Dir: "trainspan-runs/a job/attempt-1/h-1", Job: "trainspan-runs/a job", Attempt: 0}},
		{wanted("slurm/7"), rundir.Place{Dir: "trainspan-runs/a job/attempt-2/h-1", Job: "trainspan-runs/a job", Attempt: 1}},
		{wanted("slurm/7"), rundir.Place{Dir: "trainspan-runs/a job/attempt-2/h-1", Job: "trainspan-runs/a job", Attempt: 1}},
		{rundir.Wanted{Name: "../x", Attempt: 5, Host: "a/b", PID: 2}, rundir.Place{Dir: "trainspan-runs/_x/attempt-6/a_b-2", Job: "trainspan-runs/_x", Attempt: 5}},
		{rundir.Wanted{Name: strings.Repeat("ä", 150), Host: "h", PID: 3}, rundir.Place{Dir: "trainspan-runs/" + strings.Repeat("ä", 100) + "/attempt-1/h-3", Job: "trainspan-runs/" + strings.Repeat("ä", 100), Attempt: 0}},
		{rundir.Wanted{Dir: "there", Attempt: -1}, rundir.Place{Dir: "there", Job: "there", Attempt: -1}},
	} {
		got, err := c.w.Make()
		if err != nil || got != c.want {
			t.Errorf("%d: %+v, %v; want %+v", i, got, err, c.want)
		}
		if info, err := os.Stat(got.Dir); err != nil || !info.IsDir() {
			t.Errorf("%d: directory of the attempt: %v, want it to exist", i, err)
		}
	}
}

// The folder of an attempt identifies it from its creation on: otherwise others
// would have to guess how long its creator needs.
func TestAttemptAppearsWhole(t *testing.T) {
	t.Chdir(t.TempDir())
	done := make(chan struct{})
	var look sync.WaitGroup
	look.Go(func() {
		for over := false; !over; {
			select {
			case <-done:
				over = true // and checks once more
			default:
			}
			made, err := filepath.Glob("trainspan-runs/a job/attempt-*")
			if err != nil {
				t.Error(err)
			}
			for _, dir := range made {
				if _, err := os.Stat(filepath.Join(dir, ".start")); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	for i := range 100 {
		if p, err := wanted(fmt.Sprint(i)).Make(); err != nil || p.Attempt != i {
			t.Errorf("Make() = %+v, %v; want attempt %d", p, err, i)
		}
	}
	close(done)
	look.Wait()
	if left, err := filepath.Glob("trainspan-runs/a job/.*"); err != nil || len(left) != 0 {
		t.Errorf("files left %v, %v; want none", left, err)
	}
}

// A folder that another program made is not joined, even if it is new.
func TestForeignAttempt(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"attempt-1/h-1", "attempt-2"} {
		if err := os.MkdirAll(filepath.Join("trainspan-runs/a job", dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if p, err := wanted("slurm/7").Make(); err != nil || p.Attempt != 2 {
		t.Errorf("Make() = %+v, %v; want attempt 2", p, err)
	}
}

func TestFile(t *testing.T) {
	dir, rings := t.TempDir(), t.TempDir()
	for n, want := range []string{"run.json", "run.run2.json", "run.run3.json"} {
		f, earlier, err := rundir.CreateFile(dir)
		if err != nil || earlier != n || filepath.Base(f.Path()) != want {
			t.Fatalf("file %v, %d earlier starts, %v; want %s, %d", f, earlier, err, want, n)
		}
		in := &rundir.Run{Name: "x", Attempt: n, Started: time.Unix(5, 0).UTC()}
		if n == 1 {
			in.Ring = rings + string(filepath.ListSeparator) + filepath.Join(rings, "gone")
		}
		if err := f.Write(in); err != nil {
			t.Fatal(err)
		}
		out, err := rundir.Read(f.Path())
		if err != nil || out.Version != rundir.Version || out.Attempt != n || !out.Started.Equal(in.Started) {
			t.Errorf("run.json read back: %+v, %v; want attempt %d, started at %v", out, err, n, in.Started)
		}
	}
	if got := rundir.FindLeft(filepath.Dir(dir), dir, filepath.Join(dir, "run.run2.json")); len(got) != 1 || got[0].Dir != dir || !slices.Equal(got[0].Folders, []string{rings}) {
		t.Errorf("FindLeft() = %+v, want %s with %s", got, dir, rings)
	}
	newer := filepath.Join(dir, "newer.json")
	if err := os.WriteFile(newer, []byte(`{"version":99}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := rundir.Read(newer); err == nil {
		t.Error("got no error for a newer version, want one")
	}
}

func TestOutline(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want rundir.Outline
		job  string
	}{
		"script":   {[]string{"/usr/bin/python3", "-u", "dir/train.py", "--lr", "0.1", "--key=secret"}, rundir.Outline{Program: "python3", Script: "train.py", Flags: []string{"-u", "--lr", "--key"}}, "train"},
		"module":   {[]string{"python", "-m", "pkg.train", "x"}, rundir.Outline{Program: "python", Script: "pkg.train", Flags: []string{"-m"}}, "pkg.train"},
		"launcher": {[]string{"python", "-m", "torch.distributed.run", "--nproc-per-node=8", "train.py"}, rundir.Outline{Program: "python", Script: "train.py", Flags: []string{"-m", "--nproc-per-node"}}, "train"},
		"program":  {[]string{"./charlm", "secret", "-psecret"}, rundir.Outline{Program: "charlm", Flags: []string{"-p"}}, "charlm"},
		"no flags": {[]string{"x", "--", "--a b", "-", "--1"}, rundir.Outline{Program: "x"}, "x"},
	} {
		got := rundir.NewOutline(c.args)
		if got.Program != c.want.Program || got.Script != c.want.Script || !slices.Equal(got.Flags, c.want.Flags) || got.Name() != c.job {
			t.Errorf("%s: %+v, job %s; want %+v, %s", name, got, got.Name(), c.want, c.job)
		}
	}
}
