package job_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/job"
)

// fact returns a record about a process.
func fact(kind, key, value string) string {
	return fmt.Sprintf(`{"id":93,"name":%q,"cat":"dftracer","pid":PID,"tid":1,"ph":"M","args":{"hhash":"h","name":%q,"value":%q}}`, kind, key, value)
}

// A world size is used wherever it was written, and so are rank and attempt.
func TestWhereEvidenceIs(t *testing.T) {
	const jsonl = `{"type":"event","count":1,"pid":7,"rank":3,"attempt":1,"event":{"id":"1","name":"one_logger_initialization","attributes":{"timestamp_msec":1704067200000,"world_size":8,"rank":3%s}}}` + "\n"
	for _, c := range []struct {
		name, file, text string
		rank, world      int // -1 and 0 mean unknown
		attempt          int
		doubt            string
	}{
		{"the Python client and the receiver", "a.pfw", process(1, 0, 9, "", app, fact("PR", "rank", "3"), fact("CM", "world_size", "8")), 3, 8, 1, ""},
		{"the importer", "a.pfw", process(1, 0, 9, "", app, fact("PR", "rank", "3"), fact("CM", "pytorch.world_size", "8")), 3, 8, 1, ""},
		{"an attribute of a resource", "a.pfw", process(1, 0, 9, "", app, fact("CM", "nv.dl.rank", "3"), fact("CM", "nv.dl.world_size", "8"), fact("CM", "training.attempt", "1")), 3, 8, 2, ""},
		{"the start record", "a.pfw", process(1, 0, 9, `,"rank":3,"world_size":8,"attempt":1`, app), 3, 8, 2, ""},
		{"JSON lines", "a.jsonl", fmt.Sprintf(jsonl, ""), 3, 8, 2, ""},
		{"the name of JSON lines is another", "a-rank5.jsonl", fmt.Sprintf(jsonl, ""), 3, 8, 2, "rank"},
		{"the name alone", "a-rank5.pfw", process(1, 0, 9, "", app), 5, 0, 1, ""},
		{"the record before the name", "a-rank5.pfw", process(1, 0, 9, "", app, fact("PR", "rank", "3")), 3, 0, 1, "rank"},
		{"a world of nodes", "a.pfw", process(1, 0, 9, "", app, fact("PR", "rank", "3"), fact("CM", "world_size", "2")), 3, 2, 1, "world size"},
		{"a rank of something else", "a.pfw", process(1, 0, 9, "", app, fact("CM", "rank", "16"), fact("CM", "lora.rank", "8")), -1, 0, 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := readAll(t, files(t, map[string]string{c.file: c.text}))
			var p *job.Process
			for _, j := range r.jobs {
				for _, p = range append(j.Processes, j.Helpers...) {
					if j.Ranks != c.world {
						t.Errorf("a job of %d ranks, not %d", j.Ranks, c.world)
					}
				}
			}
			if p == nil || p.RankKnown != (c.rank >= 0) || p.RankKnown && p.Rank != c.rank || p.WorldSize != c.world || p.Doubt != c.doubt {
				t.Fatalf("process %+v, want rank %d of %d, doubt %q", p, c.rank, c.world, c.doubt)
			}
			if p.AttemptKnown != (c.attempt > 1) || p.AttemptKnown && p.Attempt != c.attempt {
				t.Errorf("attempt %d, known %v; want %d, known only above 1", p.Attempt, p.AttemptKnown, c.attempt)
			}
			text, err := p.AppendBinary(nil)
			var q job.Process
			if err != nil || q.UnmarshalBinary(text) != nil || q.Doubt != c.doubt {
				t.Errorf("doubt read back is not %q: %v", c.doubt, err)
			}
		})
	}
}

// The order of files, and how many are read at a time, makes no difference.
func TestOrderOfFiles(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	put := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	for i := range 6 {
		put(fmt.Sprintf("t%d.pfw", i), process(10+i, int64(i%2)*100, int64(i%2)*100+90, "", app, fact("CM", "world_size", fmt.Sprint(i+1))))
		put(fmt.Sprintf("t%d.jsonl", i), fmt.Sprintf(`{"type":"event","count":1,"pid":%d,"event":{"id":"1","name":"one_logger_initialization","attributes":{"timestamp_msec":%d,"session_tag":"s","world_size":%d}}}`+"\n", 10+i, base/1000, 16+i%3))
		put(fmt.Sprintf("u%d.jsonl", i), fmt.Sprintf(`{"type":"event","count":1,"pid":%d,"event":{"id":"1","name":"one_logger_initialization","attributes":{"timestamp_msec":%d,"session_tag":"r","rank":%d}}}`+"\n", 10+i, base/1000, i))
		put(fmt.Sprintf("v%d.txt", i), "nothing")
	}
	told := func(workers int) string {
		set, err := job.Open(paths...)
		if err != nil {
			t.Fatal(err)
		}
		set.Workers = workers
		jobs, err := set.Read(func(*job.Process) job.Sink { return nothing{} })
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, j := range jobs {
			fmt.Fprintf(&b, "%q %q %d\n", j.ID, j.SessionTag, j.Ranks)
			for _, p := range append(j.Processes, j.Helpers...) {
				fmt.Fprintf(&b, "\t%+v\n", reflect.Indirect(reflect.ValueOf(p)))
			}
		}
		return b.String() + fmt.Sprint(set.Skipped)
	}
	want := told(1)
	for i := range 20 {
		for j := range paths {
			k := (j*7 + i) % len(paths)
			paths[j], paths[k] = paths[k], paths[j]
		}
		if got := told(1 + i%5); got != want {
			t.Fatalf("with %d at a time:\n%s\nwant\n%s", 1+i%5, got, want)
		}
	}
}

// The rank in the name is that of the process that wrote the file, whatever
// comes first in it, and a line without a host has the host of the file.
func TestRankAndHostOfAFile(t *testing.T) {
	line := func(pid, ts int, name, host string) string {
		return fmt.Sprintf(`{"id":%d,"name":%q,"cat":"pipeline","pid":%d,"tid":1,"ts":%d,"dur":5,"ph":"X","args":{%s"level":1,"p_idx":-1}}`+"\n", ts, name, pid, base+ts, host)
	}
	start := func(pid, ts int) string {
		return strings.Replace(process(pid, int64(ts), 0, ""), "[\n", "", 1)
	}
	const h = `"hhash":"h",`
	for name, c := range map[string]struct {
		text string
		rank map[int64]int // of processes that have one
	}{
		"the earlier start":       {"[\n" + start(22, 1) + start(11, 0) + line(22, 10, "train.iteration", h) + line(11, 20, "train.iteration", h), map[int64]int{11: 3}},
		"no start":                {"[\n" + line(22, 10, "train.iteration", h) + line(11, 5, "train.iteration", h), map[int64]int{22: 3}},
		"a line without its host": {"[\n" + start(11, 0) + line(11, 10, "train.iteration", ""), map[int64]int{11: 3}},
		"no host before":          {"[\n" + line(11, 10, "train.iteration", "") + start(11, 20), map[int64]int{11: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			r := readAll(t, files(t, map[string]string{"job-rank3.pfw": c.text}))
			seen := make(map[int64]int)
			for p := range r.sinks {
				if p.RankKnown {
					seen[p.PID] = p.Rank
				}
			}
			if !reflect.DeepEqual(seen, c.rank) || len(r.sinks) > strings.Count(c.text, "\"pid\"") || strings.Contains(name, "host") && len(r.sinks) != 1 {
				t.Errorf("%d processes, ranks %v, not %v", len(r.sinks), seen, c.rank)
			}
		})
	}
}
