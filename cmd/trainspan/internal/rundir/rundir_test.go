package rundir_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/rundir"
)

func wanted(start string) rundir.Wanted {
	return rundir.Wanted{Name: "a job", Attempt: -1, Start: start, Host: "h", PID: 1}
}

// However many ask at once, those of one start get one number and every other
// start another one.
func TestMakeIsAtomic(t *testing.T) {
	t.Chdir(t.TempDir())
	const starts, members = 8, 6
	var mu sync.Mutex
	of := make(map[string][]int)
	var wait sync.WaitGroup
	for i := range starts * members {
		start := fmt.Sprintf("job/%d", i%starts)
		if i%starts == 0 {
			start = "" // each by itself
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
				t.Errorf("starts by themselves share attempts: %v", list)
			}
		} else if list = slices.Compact(list); len(list) != 1 {
			t.Errorf("start %s has the attempts %v", start, list)
		}
		for _, n := range list {
			if seen[n] {
				t.Errorf("attempt %d is taken twice", n)
			}
			seen[n] = true
		}
	}
	if len(seen) != starts-1+members {
		t.Errorf("%d attempts", len(seen))
	}
}

func TestMake(t *testing.T) {
	t.Chdir(t.TempDir())
	for i, c := range []struct {
		w    rundir.Wanted
		want rundir.Place
	}{
		{wanted(""), rundir.Place{Dir: "trainspan-runs/a job/attempt-0/h-1", Job: "trainspan-runs/a job", Attempt: 0}},
		{wanted("slurm/7"), rundir.Place{Dir: "trainspan-runs/a job/attempt-1/h-1", Job: "trainspan-runs/a job", Attempt: 1}},
		{wanted("slurm/7"), rundir.Place{Dir: "trainspan-runs/a job/attempt-1/h-1", Job: "trainspan-runs/a job", Attempt: 1}},
		{rundir.Wanted{Name: "../x", Attempt: 5, Host: "a/b", PID: 2}, rundir.Place{Dir: "trainspan-runs/_x/attempt-5/a_b-2", Job: "trainspan-runs/_x", Attempt: 5}},
		{rundir.Wanted{Name: strings.Repeat("ä", 150), Host: "h", PID: 3}, rundir.Place{Dir: "trainspan-runs/" + strings.Repeat("ä", 100) + "/attempt-0/h-3", Job: "trainspan-runs/" + strings.Repeat("ä", 100), Attempt: 0}},
		{rundir.Wanted{Dir: "there", Attempt: -1}, rundir.Place{Dir: "there", Job: "there", Attempt: -1}},
	} {
		got, err := c.w.Make()
		if err != nil || got != c.want {
			t.Errorf("%d: %+v, %v; want %+v", i, got, err, c.want)
		}
		if info, err := os.Stat(got.Dir); err != nil || !info.IsDir() {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// The folder of an attempt says whose it is from the moment it is there: others
// would have to guess how long its maker needs.
func TestAttemptAppearsWhole(t *testing.T) {
	t.Chdir(t.TempDir())
	done := make(chan struct{})
	var look sync.WaitGroup
	look.Go(func() {
		for over := false; !over; {
			select {
			case <-done:
				over = true // and looks once more
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
			t.Errorf("%+v, %v", p, err)
		}
	}
	close(done)
	look.Wait()
	if left, err := filepath.Glob("trainspan-runs/a job/.*"); err != nil || len(left) != 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}

// A folder that another program made is not joined, nor one that it has just made.
func TestForeignAttempt(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"attempt-0/h-1", "attempt-1"} {
		if err := os.MkdirAll(filepath.Join("trainspan-runs/a job", dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if p, err := wanted("slurm/7").Make(); err != nil || p.Attempt != 2 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestFile(t *testing.T) {
	dir, rings := t.TempDir(), t.TempDir()
	for n, want := range []string{"run.json", "run.run2.json", "run.run3.json"} {
		f, earlier, err := rundir.CreateFile(dir)
		if err != nil || earlier != n || filepath.Base(f.Path()) != want {
			t.Fatalf("%v, %d, %v", f, earlier, err)
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
			t.Errorf("%+v, %v", out, err)
		}
	}
	if got := rundir.FindLeft(filepath.Dir(dir)); len(got) != 1 || got[0].Dir != dir || !slices.Equal(got[0].Folders, []string{rings}) {
		t.Errorf("left are %+v", got)
	}
	newer := filepath.Join(dir, "newer.json")
	if err := os.WriteFile(newer, []byte(`{"version":99}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := rundir.Read(newer); err == nil {
		t.Error("a newer version is read")
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
			t.Errorf("%s: %+v, %s", name, got, got.Name())
		}
	}
}
