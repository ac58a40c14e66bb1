package report_test

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// sample writes samples as trainspan run takes them, one per second, of four ranks on node-a0.
func sample(t *testing.T, dir string, from, to time.Time, delay [4]float64, runnable int64) {
	t.Helper()
	w, err := dftracer.Create(filepath.Join(dir, "resources.pfw.gz"), &dftracer.Options{Process: dftracer.Process{PID: 900, Host: "node-a0", JobID: "4711", SessionTag: "made-up"}})
	if err != nil {
		t.Fatal(err)
	}
	for at := from.Add(-time.Second); at.Before(to.Add(time.Second)); at = at.Add(time.Second) {
		count := func(pid int64, name string, args ...dftracer.Arg) {
			w.Write(&dftracer.Event{Phase: dftracer.PhaseCounter, Cat: "resources", Name: name, PID: pid, TID: pid, TS: at.UnixMicro(), Args: args})
		}
		for rank, share := range delay {
			count(int64(1000+rank), "sched", dftracer.Float("run_delay_share", share), dftracer.Int("allowed_cores", 8))
		}
		count(900, "system", dftracer.Int("runnable", runnable), dftracer.Int("cores", 8))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// The report names the cause of a slow rank in the machine if the samples show it, and the
// report of a digest is the same.
func TestMachine(t *testing.T) {
	const (
		move  = "move other programs away from the processors of rank 1, or give the rank its own processors"
		fewer = "run fewer processes and threads at once, or use more processors, before looking for anything else"
	)
	for name, c := range map[string]struct {
		extra          float64 // ms of a step of rank 1
		delay          [4]float64
		runnable       int64
		says, not      string // texts that are, and are not, on the screen
		next, notKnown string
	}{
		"rank 1 waits for a processor": {15, [4]float64{0.01, 0.22, 0.01, 0.02}, 5, "Rank 1 was ready and had no processor for 22.0 % of the time", "no cause on record", move, ""},
		"rank 0 does, and is on time":  {15, [4]float64{0.3, 0.01, 0.01, 0.01}, 5, "", "had no processor", "", "why rank 1 is late: no cause on record in the samples of the machine"},
		"all wait":                     {15, [4]float64{0.5, 0.5, 0.5, 0.5}, 31, "Host node-a0 is overloaded: 30 threads want to run on 8 processors", "Rank 1 was ready", fewer, "why rank 1 is late: no cause on record in the samples of the machine"},
		"all wait, rank 1 longer":      {15, [4]float64{0.2, 0.5, 0.2, 0.2}, 31, "Rank 1 was ready and had no processor", "no cause on record", fewer, ""},
		"nobody is late":               {0, [4]float64{0.01, 0.22, 0.01, 0.02}, 5, "", "had no processor", "", ""},
		"nobody is late, all wait":     {0, [4]float64{0.3, 0.3, 0.3, 0.3}, 31, "Host node-a0 is overloaded", "no cause on record", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir, start := t.TempDir(), time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
			end := write(t, dir, simjob.Attempt{Ranks: 4, Steps: 600, Start: start, Slow: 1, Extra: [4]float64{0, c.extra / 3, 2 * c.extra / 3}})
			sample(t, dir, start, end, c.delay, c.runnable)
			r := report.Build(read(t, dir))
			text := strings.Join(strings.Fields(strings.Join(screen(t, r), " ")), " ")
			if !strings.Contains(text, c.says) || strings.Contains(text, c.not) {
				t.Errorf("want %q and not %q in\n%s", c.says, c.not, strings.Join(screen(t, r), "\n"))
			}
			if c.next != "" && (len(r.Verdict.Next) == 0 || r.Verdict.Next[0] != c.next) {
				t.Errorf("next = %q, want %q first", r.Verdict.Next, c.next)
			}
			if c.notKnown != "" && !slices.Contains(r.Verdict.NotKnown, c.notKnown) {
				t.Errorf("not known: %q, want %q", r.Verdict.NotKnown, c.notKnown)
			}
			if got := report.Build(digested(t, dir)); !reflect.DeepEqual(got.Verdict.Machine.Overloaded, r.Verdict.Machine.Overloaded) || len(got.Verdict.Machine.Causes) != len(r.Verdict.Machine.Causes) {
				t.Errorf("of the digest got %+v, want %+v", got.Verdict.Machine, r.Verdict.Machine)
			}
		})
	}
}

// A digest with windows has the causes of its files: the delay of a rank is that of all steps of a window.
func TestMachineOfWindows(t *testing.T) {
	for name, c := range map[string]struct {
		delay float64 // of the late rank, as a share of its time
		want  int     // number of causes
	}{
		"too short for the delay": {0.08, 0},
		"long enough":             {0.3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir, start := t.TempDir(), time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
			end := write(t, dir, simjob.Attempt{Ranks: 2, Steps: 2400, Start: start, Slow: 1, Extra: [4]float64{30}})
			sample(t, dir, start, end, [4]float64{0.01, c.delay}, 3)
			set, err := report.Load(nil, dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := set.Window(true); err != nil {
				t.Fatal(err)
			}
			for of, r := range map[string]*report.Report{"files": report.Build(read(t, dir)), "windows": report.Build(set.Jobs()[0])} {
				m := r.Verdict.Machine
				if m == nil || len(m.Causes) != c.want || c.want > 0 && (m.Causes[0].Late < 0.3 || m.Causes[0].Late > 0.4) {
					t.Errorf("%s: got %+v, want %d causes of a delay of 36 %% of the time", of, m, c.want)
				}
			}
		})
	}
}

// The clock of a GPU explains a slow rank only if the records show that the rank uses this GPU:
// the order of ranks and GPUs may differ.
func TestMachineDevice(t *testing.T) {
	for name, c := range map[string]struct {
		devices [4]int64 // of the ranks, -1 for several, -2 if not recorded
		slow    int      // index of the slow GPU; the slow rank is 1
		want    int      // number of causes
	}{
		"in their order":              {[4]int64{0, 1, 2, 3}, 1, 1},
		"in their order, another GPU": {[4]int64{0, 1, 2, 3}, 3, 0},
		"in another order":            {[4]int64{1, 3, 0, 2}, 3, 1},
		"in another order, GPU 1":     {[4]int64{1, 3, 0, 2}, 1, 0},
		"not on record":               {[4]int64{-2, -2, -2, -2}, 1, 0},
		"of rank 1 unknown":           {[4]int64{1, -2, 0, 2}, 1, 0},
		"rank 1 uses several":         {[4]int64{0, -1, 2, 3}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir, start := t.TempDir(), time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
			end := write(t, dir, simjob.Attempt{Ranks: 4, Steps: 450, Start: start, Slow: 1, Extra: [4]float64{0, 5, 10}})
			w, err := dftracer.Create(filepath.Join(dir, "resources.pfw.gz"), &dftracer.Options{Process: dftracer.Process{PID: 900, Host: "node-a0", JobID: "4711", SessionTag: "made-up"}})
			if err != nil {
				t.Fatal(err)
			}
			for at := start.Add(-time.Second); at.Before(end.Add(time.Second)); at = at.Add(time.Second) {
				count := func(pid int64, name string, args ...dftracer.Arg) {
					w.Write(&dftracer.Event{Phase: dftracer.PhaseCounter, Cat: "resources", Name: name, PID: pid, TID: pid, TS: at.UnixMicro(), Args: args})
				}
				for i := range 4 {
					clock, slowed := int64(1900), int64(0)
					if i == c.slow {
						clock, slowed = 1000, 1
					}
					count(900, fmt.Sprint("gpu", i), dftracer.Int("clock_mhz", clock), dftracer.Int("clock_max_mhz", 1980), dftracer.Int("slowed", slowed))
					count(int64(1000+i), "sched", dftracer.Float("run_delay_share", 0.01))
					if d := c.devices[i]; d > -2 {
						count(int64(1000+i), "compute_gpu", dftracer.Int("gpu", d))
					}
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			for of, set := range map[string]*report.Report{"traces": report.Build(read(t, dir)), "digest": report.Build(digested(t, dir))} {
				m := set.Verdict.Machine
				if m == nil || len(m.Causes) != c.want || c.want > 0 && (m.Causes[0].Cause != "device_clock" || !m.Causes[0].Slowed) {
					t.Errorf("%s: got %+v, want %d causes", of, m, c.want)
				}
			}
		})
	}
}
