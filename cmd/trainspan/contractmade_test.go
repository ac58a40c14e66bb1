package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/testkit/pyrun"
)

// traceNames are the category and name in traces for the spans of other
// formats.
var traceNames = map[string][2]string{
	"application": {"ai_root", "ai_root"}, "distributed_code_initialization": {"comm", "comm.init"}, "data_loader_initialization": {"dataloader", "dataloader.init"},
	"model_initialization": {"compute", "compute.init"}, "optimizer_initialization": {"compute", "step.init"}, "checkpoint_load": {"checkpoint", "restart"},
	"training_loop": {"pipeline", "train"}, "training_single_iteration": {"pipeline", "train.iteration"}, "data_loading": {"dataloader", "fetch.iter"},
	"model_forward": {"compute", "forward"}, "model_backward": {"compute", "backward"}, "optimizer_update": {"compute", "step"}, "transfer": {"device", "transfer"},
	"checkpoint_save_sync": {"checkpoint", "capture"}, "checkpoint_save_async": {"checkpoint", "capture.async"}, "validation_loop": {"pipeline", "evaluate"},
}

// madeProcess is a process whose spans are in another format.
type madeProcess struct {
	rank, attempt int
	host          string
	start, seen   int64 // microseconds; seen is 0 if it ended regularly
	spans         []madeSpan
}

type madeSpan struct {
	category, name string
	id, parent     int64 // parent is -1 for a root
	lane           int64
	start, dur     int64 // dur is -1 if it never ended
	args           map[string]any
}

// write writes the trace of a process line by line according to the format, so
// that the product's writer cannot hide errors of the reader.
func (p *madeProcess) write(t *testing.T, dir string) {
	t.Helper()
	pid := 1000*p.attempt + p.rank
	var out strings.Builder
	out.WriteString("[\n")
	id, last := int64(1_000_000), p.start
	line := func(fields map[string]any) {
		fields["pid"] = pid
		if fields["id"] == nil {
			id++
			fields["id"] = id
		}
		if fields["tid"] == nil {
			fields["tid"] = pid
		}
		fields["args"].(map[string]any)["hhash"] = "hash-" + p.host
		text, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(text, '\n'))
	}
	note := func(name, value string) {
		line(map[string]any{"name": name, "cat": "dftracer", "ph": "M", "args": map[string]any{"name": value, "value": "hash-" + p.host}})
	}
	note("HH", p.host)
	line(map[string]any{"name": "start", "cat": "dftracer", "ph": "X", "ts": p.start, "dur": 0, "args": map[string]any{"level": 1, "p_idx": -1, "version": "2.0.0", "attempt": p.attempt - 1, "session_tag": "job", "job_id": "j"}})
	line(map[string]any{"name": "PR", "cat": "dftracer", "ph": "M", "args": map[string]any{"name": "rank", "value": fmt.Sprint(p.rank)}})
	for _, s := range p.spans {
		args := map[string]any{"level": 2, "p_idx": s.parent}
		if s.parent < 0 {
			args["level"] = 1
		}
		for key, v := range s.args {
			args[key] = v
		}
		fields := map[string]any{"id": s.id, "tid": int64(pid) + s.lane, "args": args}
		if s.dur >= 0 {
			fields["ph"], fields["name"], fields["cat"], fields["ts"], fields["dur"] = "X", s.name, s.category, s.start, s.dur
			last = max(last, s.start+s.dur)
		} else {
			delete(fields, "id")
			fields["ph"], fields["name"], fields["cat"] = "M", "CM", "dftracer"
			args["name"], args["value"], args["begin_id"], args["begin_cat"], args["begin_ts"] = "span.begin", s.name, s.id, s.category, s.start
			last = max(last, s.start)
		}
		line(fields)
	}
	if p.seen > 0 {
		line(map[string]any{"name": "CM", "cat": "dftracer", "ph": "M", "args": map[string]any{"name": "heartbeat", "value": fmt.Sprint(max(p.seen, last))}})
	} else {
		line(map[string]any{"name": "end", "cat": "dftracer", "ph": "X", "ts": last, "dur": 0, "args": map[string]any{"level": 1, "p_idx": -1, "num_events": len(p.spans)}})
		out.WriteString("]\n")
	}
	put(t, filepath.Join(dir, fmt.Sprintf("a%d-rank%d.pfw", p.attempt, p.rank)), []byte(out.String()))
}

// stragglerJobs returns the smallest case of each kind in the straggler corpus.
func stragglerJobs(t *testing.T) ([]contractJob, error) {
	dir := filepath.Join(contractShared, "data", "straggler")
	data, err := os.ReadFile(filepath.Join(dir, "cases.json"))
	if err != nil {
		return nil, err
	}
	type stragglerCase struct {
		ID, Family string
		Params     struct{ N, M int }
	}
	var file struct{ Cases []stragglerCase }
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	slices.SortStableFunc(file.Cases, func(a, b stragglerCase) int { return cmp.Compare(a.Params.N*a.Params.M, b.Params.N*b.Params.M) })
	python := pyrun.Interpreter(t)
	var jobs []contractJob
	seen := make(map[string]bool)
	for _, c := range file.Cases {
		if seen[c.Family] {
			continue
		}
		seen[c.Family] = true
		to := t.TempDir()
		lines := filepath.Join(t.TempDir(), c.ID)
		if out, err := exec.Command(python, filepath.Join(dir, "gen.py"), filepath.Join(dir, "cases.json"), "--case", c.ID, "--out", lines).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("gen.py: %w\n%s", err, out)
		}
		text, err := os.ReadFile(lines)
		if err != nil {
			return nil, err
		}
		writeStragglerCase(t, to, text)
		jobs = append(jobs, contractJob{c.ID, []string{to}})
	}
	slices.SortFunc(jobs, func(a, b contractJob) int { return strings.Compare(a.name, b.name) })
	return jobs, nil
}

func writeStragglerCase(t *testing.T, dir string, text []byte) {
	t.Helper()
	var hosts []int
	byRank := make(map[int]*madeProcess)
	for row := range strings.Lines(string(text)) {
		var l struct {
			Hosts    []int
			Rank     int
			Step     int64
			Name     string
			Category string
			Start    int64 `json:"start_ns"`
			Dur      int64 `json:"dur_ns"`
			Attrs    struct{ Group string }
		}
		if err := json.Unmarshal([]byte(row), &l); err != nil {
			t.Fatal(err)
		}
		if l.Hosts != nil {
			hosts = l.Hosts
			continue
		}
		p := byRank[l.Rank]
		if p == nil {
			p = &madeProcess{rank: l.Rank, attempt: 1, host: fmt.Sprintf("host%d", hosts[l.Rank]), start: l.Start / 1000}
			p.spans = append(p.spans, madeSpan{"pipeline", "train", 1, -1, 0, l.Start / 1000, -1, map[string]any{"train_iterations_start": 0}})
			byRank[l.Rank] = p
		}
		s := madeSpan{l.Category, l.Name, int64(len(p.spans)) + 1, 1, 0, l.Start / 1000, -1, map[string]any{"step": l.Step}}
		if known, ok := traceNames[l.Name]; ok {
			s.category, s.name = known[0], known[1]
		}
		if l.Dur >= 0 {
			s.dur = (l.Start+l.Dur)/1000 - s.start
			p.spans[0].dur = max(p.spans[0].dur, s.start+s.dur-p.spans[0].start)
		} else {
			p.seen = s.start
		}
		if l.Attrs.Group != "" {
			s.args["pg"] = l.Attrs.Group
		}
		if l.Name != "training_single_iteration" {
			for i := len(p.spans) - 1; i > 0; i-- {
				if p.spans[i].name == "train.iteration" {
					s.parent = p.spans[i].id
					break
				}
			}
		}
		p.spans = append(p.spans, s)
	}
	for _, p := range byRank {
		if p.seen > 0 {
			p.spans[0].dur = -1
		}
		p.write(t, dir)
	}
}

// goodputJobs returns the recorded jobs of goodput accounting.
func goodputJobs(t *testing.T) ([]contractJob, error) {
	files, err := filepath.Glob(filepath.Join(contractShared, "golden", "goodput", "*.json"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no scenarios: %w", cmp.Or(err, os.ErrNotExist))
	}
	var jobs []contractJob
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var s struct {
			Epoch    int64 `json:"epoch_ms"`
			Attempts []struct {
				Attempt, Rank int
				Start         int64  `json:"start_ms"`
				End           *int64 `json:"end_ms"`
				Seen          int64  `json:"last_seen_ms"`
			}
			Spans []struct {
				ID            int64
				Parent        *int64
				Rank, Attempt int
				Name          string
				Start         int64  `json:"start_ms"`
				End           *int64 `json:"end_ms"`
				Attributes    map[string]any
			}
		}
		if err := json.Unmarshal(data, &s); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if len(s.Attempts) == 0 {
			continue
		}
		dir := t.TempDir()
		for _, a := range s.Attempts {
			p := &madeProcess{rank: a.Rank, attempt: a.Attempt, host: "host0", start: (s.Epoch + a.Start) * 1000}
			if a.End == nil {
				p.seen = (s.Epoch + a.Seen) * 1000
			}
			for _, sp := range s.Spans {
				if sp.Rank != a.Rank || sp.Attempt != a.Attempt {
					continue
				}
				out := madeSpan{"custom", sp.Name, sp.ID, -1, 0, (s.Epoch + sp.Start) * 1000, -1, map[string]any{}}
				if known, ok := traceNames[sp.Name]; ok {
					out.category, out.name = known[0], known[1]
				}
				if sp.Parent != nil {
					out.parent = *sp.Parent
				}
				if sp.End != nil {
					out.dur = (*sp.End - sp.Start) * 1000
				}
				for key, v := range sp.Attributes {
					switch key {
					case "iteration":
						out.args["step"] = v
					case "background":
						out.lane = 1
					default:
						out.args[key] = v
					}
				}
				p.spans = append(p.spans, out)
			}
			p.write(t, dir)
		}
		jobs = append(jobs, contractJob{strings.TrimSuffix(filepath.Base(path), ".json"), []string{dir}})
	}
	return jobs, nil
}

// oneLoggerJobs returns the recorded JSON lines.
func oneLoggerJobs(*testing.T) ([]contractJob, error) {
	files, err := filepath.Glob(filepath.Join(contractShared, "golden", "one-logger", "*", "*.jsonl"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no scenarios: %w", cmp.Or(err, os.ErrNotExist))
	}
	var jobs []contractJob
	for _, path := range files {
		jobs = append(jobs, contractJob{filepath.Base(filepath.Dir(path)), []string{path}})
	}
	return jobs, nil
}
