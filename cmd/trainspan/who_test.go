package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// lines returns the objects that a command prints.
func lines[T any](t *testing.T, args ...string) (all []T) {
	t.Helper()
	code, out, problems := call(args...)
	if code != 0 {
		t.Fatalf("%v: status %d, want 0: %s", args, code, problems)
	}
	d := json.NewDecoder(strings.NewReader(out))
	for d.More() {
		var v T
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

type ranked struct {
	PID     int64  `json:"pid"`
	Rank    string `json:"rank"`
	Attempt int    `json:"attempt"`
}

// TestVerbsAgreeOnRanks checks that every command assigns a span to the same
// process.
func TestVerbsAgreeOnRanks(t *testing.T) {
	const (
		host  = `{"id":9,"name":"HH","cat":"dftracer","pid":11,"tid":0,"ph":"M","args":{"hhash":"aa","name":"node","value":"aa"}}`
		first = `{"id":1,"name":"start","cat":"dftracer","pid":%d,"tid":0,"ts":17000000000000%02d,"dur":0,"ph":"X","args":{"hhash":"aa"}}`
		step  = `{"id":%d,"name":"train.iteration","cat":"pipeline","pid":%d,"tid":0,"ts":17000000000001%02d,"dur":9,"ph":"X","args":{"hhash":"aa","step":1}}`
		bare  = `{"id":%d,"name":"train.iteration","cat":"pipeline","pid":%d,"tid":0,"ts":17000000000001%02d,"dur":9,"ph":"X","args":{"step":1}}`
		rank  = `{"id":8,"name":"PR","cat":"dftracer","pid":%d,"tid":0,"ph":"M","args":{"hhash":"aa","name":"rank","value":"%s"}}`
		world = `{"id":8,"name":"CM","cat":"dftracer","pid":%d,"tid":0,"ph":"M","args":{"hhash":"aa","name":"%s","value":"%d"}}`
	)
	for name, c := range map[string]struct {
		file string
		text []string
		want map[int64]string // pid: rank
	}{
		"two starts":              {"job-rank3.pfw", []string{fmt.Sprintf(first, 11, 0), fmt.Sprintf(first, 22, 1), fmt.Sprintf(step, 3, 22, 0), fmt.Sprintf(step, 4, 11, 20)}, map[int64]string{11: "3", 22: ""}},
		"the later start first":   {"job-rank3.pfw", []string{fmt.Sprintf(first, 22, 1), fmt.Sprintf(first, 11, 0), fmt.Sprintf(step, 3, 22, 0), fmt.Sprintf(step, 4, 11, 20)}, map[int64]string{11: "3", 22: ""}},
		"no start":                {"job-rank3.pfw", []string{fmt.Sprintf(step, 3, 22, 0), fmt.Sprintf(step, 4, 11, 20)}, map[int64]string{22: "", 11: "3"}},
		"a record of another":     {"job-rank3.pfw", []string{fmt.Sprintf(first, 11, 0), fmt.Sprintf(rank, 22, "7"), fmt.Sprintf(step, 3, 22, 0), fmt.Sprintf(step, 4, 11, 20)}, map[int64]string{22: "7", 11: "3"}},
		"a record of the writer":  {"job-rank3.pfw", []string{fmt.Sprintf(first, 11, 0), fmt.Sprintf(rank, 11, "5"), fmt.Sprintf(step, 4, 11, 20)}, map[int64]string{11: "5"}},
		"a resource of Megatron":  {"otlp.pfw", []string{fmt.Sprintf(first, 11, 0), fmt.Sprintf(world, 11, "megatron.rank", 6), fmt.Sprintf(step, 4, 11, 20)}, map[int64]string{11: "6"}},
		"no number":               {"otlp.pfw", []string{fmt.Sprintf(first, 11, 0), fmt.Sprintf(rank, 11, "first"), fmt.Sprintf(step, 4, 11, 20)}, map[int64]string{11: ""}},
		"a record after the span": {"a.pfw", []string{fmt.Sprintf(first, 11, 0), fmt.Sprintf(step, 4, 11, 20), fmt.Sprintf(rank, 11, "5")}, map[int64]string{11: "5"}},
		"a span without a host":   {"job-rank3.pfw", []string{fmt.Sprintf(first, 11, 0), fmt.Sprintf(bare, 4, 11, 20)}, map[int64]string{11: "3"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, c.file)
			if err := os.WriteFile(path, []byte("[\n"+host+"\n"+strings.Join(c.text, "\n")+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			told := map[string]map[int64]string{}
			note := func(verb string, all ...ranked) {
				if told[verb] == nil {
					told[verb] = map[int64]string{}
				}
				for _, r := range all {
					if was, twice := told[verb][r.PID]; twice && was != r.Rank {
						t.Errorf("%s: pid %d has rank %q, then %q, want one rank", verb, r.PID, was, r.Rank)
					}
					told[verb][r.PID] = r.Rank
				}
			}
			note("events", lines[ranked](t, "trace", "events", "--json", path)...)
			note("steps", lines[ranked](t, "trace", "steps", "--json", path)...)
			note("events --sort", lines[ranked](t, "trace", "events", "--sort", "duration", "--json", path)...)
			type processes struct {
				Processes []ranked `json:"processes"`
			}
			note("info", lines[[]processes](t, "trace", "info", "--json", path)[0][0].Processes...)
			note("summary", lines[processes](t, "trace", "summary", "--json", path)[0].Processes...)
			for pid, rank := range c.want {
				if n, err := strconv.Atoi(rank); err == nil {
					note("--rank", lines[ranked](t, "trace", "events", "--json", "--rank", strconv.Itoa(n), path)...)
				} else {
					note("--rank", ranked{PID: pid})
				}
			}
			merged := filepath.Join(dir, "all.pfw")
			if code, _, problems := call("trace", "merge", path, "-o", merged); code != 0 {
				t.Fatalf("trace merge fails: %s", problems)
			}
			note("merge", lines[processes](t, "trace", "summary", "--json", merged)[0].Processes...)
			if code, _, problems := call("trace", "split", path, "-o", filepath.Join(dir, "pieces")); code != 0 {
				t.Fatalf("trace split fails: %s", problems)
			}
			pieces, err := filepath.Glob(filepath.Join(dir, "pieces", "*"))
			if err != nil || len(pieces) != len(c.want) {
				t.Errorf("found %d pieces, want %d: %v", len(pieces), len(c.want), err)
			}
			for _, piece := range pieces {
				note("split", lines[processes](t, "trace", "summary", "--json", piece)[0].Processes...)
			}
			for verb, got := range told {
				if !maps.Equal(got, c.want) {
					t.Errorf("%s says %v, not %v", verb, got, c.want)
				}
			}
		})
	}
}

// TestVerbsAgreeOnAttempts checks that the summary and the report count
// attempts from 1, although launchers count from 0 or set no number.
func TestVerbsAgreeOnAttempts(t *testing.T) {
	for name, c := range map[string]struct {
		recorded, want []int // -1 means not recorded
	}{
		"counted":                   {[]int{0, 1, 2}, []int{1, 2, 3}},
		"not counted":               {[]int{0, 0, 0}, []int{1, 2, 3}},
		"not recorded":              {[]int{-1, -1}, []int{1, 2}},
		"one left nothing":          {[]int{0, 2}, []int{1, 3}},
		"counted again":             {[]int{0, 2, 0, 1}, []int{1, 3, 4, 5}},
		"always the same, not zero": {[]int{4, 4}, []int{5, 6}},
		"some recorded":             {[]int{1, -1, 1}, []int{2, 3, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			rank, step := 0, dftracer.NewKey("pipeline", "train.iteration")
			for i, n := range c.recorded {
				at := int64(1_700_000_000_000_000) + int64(i)*1_000_000_000
				now := at
				o := dftracer.Options{Process: dftracer.Process{PID: 7, Host: "pod-0", Rank: &rank, SessionTag: "job"}, Now: (&clock{}).now}
				if n >= 0 {
					o.Process.Attempt = &n
				}
				var c clock
				c.us.Store(now)
				o.Now = c.now
				w, err := dftracer.Create(filepath.Join(dir, fmt.Sprintf("t%d.pfw", i)), &o)
				if err != nil {
					t.Fatal(err)
				}
				for s := range 10 {
					w.WriteComplete(&step, dftracer.Span{TS: at + int64(s)*1_000_000, Dur: 900_000}, dftracer.Int("step", int64(10*i+s)))
				}
				c.us.Store(at + 10_000_000)
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
			}
			attempts := func(verb, list string) (all []int) {
				for _, raw := range lines[map[string]json.RawMessage](t, append(strings.Fields(verb), "--json", dir)...) {
					var rows []ranked
					if err := json.Unmarshal(raw[list], &rows); err != nil {
						t.Fatal(err)
					}
					for _, r := range rows {
						all = append(all, r.Attempt)
					}
				}
				return all
			}
			var steps []int
			for _, r := range lines[ranked](t, "trace", "steps", "--json", dir) {
				steps = append(steps, r.Attempt)
			}
			slices.Sort(steps)
			for verb, got := range map[string][]int{"summary": attempts("trace summary", "processes"), "report": attempts("report", "attempts"), "steps": slices.Compact(steps)} {
				if !slices.Equal(got, c.want) {
					t.Errorf("%s numbers %v, not %v", verb, got, c.want)
				}
			}
		})
	}
}

// TestOrderOfFilesOfVerbs checks that neither the order of the files nor the
// number of processors changes the output.
func TestOrderOfFilesOfVerbs(t *testing.T) {
	dir := t.TempDir()
	step := dftracer.NewKey("pipeline", "train.iteration")
	var paths []string
	for i := range 4 {
		at := int64(1_700_000_000_000_000) + int64(i/2)*1_000_000_000
		var c clock
		c.us.Store(at)
		path := filepath.Join(dir, fmt.Sprintf("t%d-rank%d.pfw", 3-i, i%2))
		w, err := dftracer.Create(path, &dftracer.Options{Process: dftracer.Process{PID: 7 + i%2, Host: "pod"}, Now: c.now})
		if err != nil {
			t.Fatal(err)
		}
		tracefile.WriteCustom(w, "world_size", fmt.Sprint(2+i))
		for s := range 10 {
			w.WriteComplete(&step, dftracer.Span{TS: at + int64(s)*1_000_000, Dur: 900_000}, dftracer.Int("step", int64(s)))
		}
		c.us.Store(at + 10_000_000)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	for _, verb := range []string{"trace summary", "report", "trace steps", "trace events --sort duration"} {
		var want string
		for i := range len(paths) {
			before := runtime.GOMAXPROCS(1 + i)
			code, out, problems := call(append(append(strings.Fields(verb), "--json"), append(slices.Clone(paths[i:]), paths[:i]...)...)...)
			runtime.GOMAXPROCS(before)
			if code != 0 {
				t.Fatalf("status %d, want 0: %s", code, problems)
			}
			if want == "" {
				want = out
			}
			if out != want {
				t.Errorf("%s: files in another order give\n%s\nwant\n%s", verb, out, want)
			}
		}
	}
}
