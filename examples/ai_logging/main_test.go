package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/dft"
	"github.com/trainspan/trainspan/internal/dftest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// trace runs the program and gives the path of the trace and its physical
// lines, as Python's readlines counts them; -1 without a file.
func trace(t *testing.T, env string, args ...string) (path string, lines int) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "trace.pfw")
	args = append(args, "-out", path)
	if err := command(args, func(string) string { return env }, io.Discard); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return path, -1
	}
	if err != nil {
		t.Fatal(err)
	}
	lines = bytes.Count(data, []byte("\n"))
	if len(data) > 0 && data[len(data)-1] != '\n' {
		lines++
	}
	return path, lines
}

// records is the multiset of category, name and phase that the original
// writes for so many files and epochs, framing left out.
func records(files, epochs int, metadata bool, disabled string) map[string]int {
	steps := files * epochs
	all := map[string]int{
		"checkpoint/checkpoint.init/X": 1,
		"checkpoint/restart/X":         1,
		"checkpoint/capture/X":         1,
		"pipeline/train/X":             1,
		"pipeline/epoch.iter/X":        epochs,
		"pipeline/epoch.block/X":       epochs,
		"dataloader/fetch/X":           epochs,
		"dataloader/fetch.iter/X":      steps,
		"dataloader/fetch.block/X":     steps,
		"data/item/X":                  steps,
		"data/preprocess.collate/X":    steps,
		"device/transfer/X":            steps,
		"compute/forward/X":            steps,
		"compute/backward/X":           steps,
		"compute/compute/X":            steps,
		"compute/step/X":               steps,
	}
	if metadata {
		delete(all, "pipeline/epoch.iter/X")
		delete(all, "pipeline/epoch.block/X")
		if disabled != "pipeline" && disabled != "all" {
			all["CM/epoch.start/M"] = epochs
			all["CM/epoch.end/M"] = epochs
		}
	}
	maps.DeleteFunc(all, func(key string, n int) bool {
		cat, _, _ := strings.Cut(key, "/")
		return n == 0 || disabled == "all" || disabled == cat || disabled == "ckpt" && cat == "checkpoint"
	})
	return all
}

func count(t *testing.T, path string) map[string]int {
	t.Helper()
	all := make(map[string]int)
	for _, ev := range dftest.Events(t, path) {
		cat, name := ev.Cat, ev.Name
		if cat == dftracer.CatDFTracer {
			key, value := ev.Meta()
			if name != dft.NameCustom || key == "time_metric" {
				continue
			}
			cat, name = name, key
			if us, err := strconv.ParseInt(value, 10, 64); err != nil || us < 1e15 {
				t.Errorf("%s has the value %q", key, value)
			}
		}
		all[cat+"/"+name+"/"+ev.Phase.String()]++
	}
	return all
}

// Line counts that the original's tests assert, for each of its generations.
func TestLinesOfTheOriginal(t *testing.T) {
	for _, c := range []struct {
		name, args string
		v2, v22    int // physical lines; -1: no file
		disabled   string
	}{
		{"normal", "", 76, 75, ""},
		{"epoch as metadata", "-epoch-as-metadata", 76, 75, ""},
		{"all disabled", "-disable all", 9, -1, "all"},
		{"dataloader disabled", "-disable dataloader", 61, 60, "dataloader"},
		{"device disabled", "-disable device", 70, 69, "device"},
		{"compute disabled", "-disable compute", 52, 51, "compute"},
		{"checkpoint disabled", "-disable ckpt", 73, 72, "ckpt"},
		{"comm disabled", "-disable comm", 76, 75, "comm"},
	} {
		for dialect, want := range map[string]int{"v2": c.v2, "v22": c.v22} {
			t.Run(c.name+" "+dialect, func(t *testing.T) {
				path, lines := trace(t, "", append(strings.Fields(c.args), "-dialect", dialect)...)
				if lines != want {
					t.Errorf("%d lines, want %d", lines, want)
				}
				if lines < 0 {
					return
				}
				dftest.Check(t, path)
				got := count(t, path)
				if want := records(2, 3, strings.Contains(c.args, "metadata"), c.disabled); !maps.Equal(got, want) {
					t.Errorf("records are\n%v, want\n%v", got, want)
				}
			})
		}
	}
}

func TestSwitchedOff(t *testing.T) {
	if _, lines := trace(t, "0"); lines != -1 {
		t.Errorf("there is a file of %d lines", lines)
	}
}

func TestOtherParameters(t *testing.T) {
	for _, p := range []struct{ files, epochs int }{{0, 0}, {0, 3}, {1, 1}, {5, 2}, {40, 10}} {
		for _, disabled := range []string{"", "pipeline", "data"} {
			for _, metadata := range []bool{false, true} {
				for dialect, framing := range map[string]int{"v1": 8, "v2": 9, "v22": 8} {
					if disabled == "data" && dialect != "v2" {
						continue
					}
					t.Run(fmt.Sprint(p, disabled, metadata, dialect), func(t *testing.T) {
						args := []string{"-num-files", strconv.Itoa(p.files), "-niter", strconv.Itoa(p.epochs), "-dialect", dialect}
						if disabled != "" {
							args = append(args, "-disable", disabled)
						}
						if metadata {
							args = append(args, "-epoch-as-metadata")
						}
						path, lines := trace(t, "", args...)
						want := records(p.files, p.epochs, metadata, disabled)
						total := framing
						for _, n := range want {
							total += n
						}
						if events := total - framing - want["CM/epoch.start/M"] - want["CM/epoch.end/M"]; dialect == "v22" && events < 3 {
							total = -1 // fewer than five with start and end
						}
						if lines != total {
							t.Errorf("%d lines, want %d", lines, total)
						}
						if lines < 0 {
							return
						}
						dftest.Check(t, path)
						if got := count(t, path); !maps.Equal(got, want) {
							t.Errorf("records are\n%v, want\n%v", got, want)
						}
					})
				}
			}
		}
	}
}

// Epoch, step and count are those of the moment, and count never lingers.
func TestArguments(t *testing.T) {
	path, _ := trace(t, "")
	steps := make(map[string]int)
	for _, ev := range dftest.Events(t, path) {
		n, counted := ev.Arg("count")
		loop := strings.HasSuffix(ev.Name, ".iter") || strings.HasSuffix(ev.Name, ".block")
		if counted != loop {
			t.Errorf("%s: count is %v", ev.Name, counted)
		}
		if most := map[string]int64{"epoch": 3, "fetch": 2}[strings.SplitN(ev.Name, ".", 2)[0]]; loop && (n.Int64() < 1 || n.Int64() > most) {
			t.Errorf("%s has count %d", ev.Name, n.Int64())
		}
		if ev.Name == "step" {
			e, known := ev.Arg("epoch")
			s, _ := ev.Arg("step")
			if known {
				steps[e.Text()+"."+s.Text()]++
			} else {
				steps["unknown"]++
			}
		}
	}
	// The program updates at the end of a step, like the original: each step
	// has the numbers of the one before.
	if want := map[string]int{"unknown": 1, "0.0": 1, "0.1": 1, "1.0": 1, "1.1": 1, "2.0": 1}; !maps.Equal(steps, want) {
		t.Errorf("steps are %v, want %v", steps, want)
	}
}

func TestBadFlags(t *testing.T) {
	for _, args := range [][]string{{"-disable", "everything"}, {"-num-files", "-1"}, {"-dialect", "v3"}} {
		args = append(args, "-out", filepath.Join(t.TempDir(), "trace.pfw"))
		if err := command(args, os.Getenv, io.Discard); err == nil {
			t.Errorf("%v were accepted", args)
		}
	}
}
