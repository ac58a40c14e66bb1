package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/testkit/gziptest"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// toOTLP converts the traces of a job to OTLP, in a new folder.
func toOTLP(t *testing.T, job string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "otlp")
	files, err := filepath.Glob(filepath.Join(job, "*.pfw*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("files %v, %v; want one or more", files, err)
	}
	if err := os.Mkdir(out, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		want(t, "trace", "convert", f, "--to", "otlp", "-o", filepath.Join(out, strings.TrimSuffix(strings.TrimSuffix(filepath.Base(f), ".gz"), ".pfw")+".otlp.jsonl"))
	}
	return out
}

// reportJSON returns the JSON of a report, without the name and the number of
// records.
func reportJSON(t *testing.T, path ...string) map[string]any {
	t.Helper()
	r := lines[map[string]any](t, append([]string{"report", "--json"}, path...)...)[0]
	delete(r, "name")
	q := r["data_quality"].(map[string]any)
	delete(q, "spans") // a trace also counts the begins of open spans
	delete(q, "files")
	return r
}

func diffOf(t *testing.T, got, want map[string]any) (keys []string) {
	t.Helper()
	for key := range want {
		a, _ := json.Marshal(got[key])
		b, _ := json.Marshal(want[key])
		if !bytes.Equal(a, b) {
			at := 0
			for at < len(a) && at < len(b) && a[at] == b[at] {
				at++
			}
			at = max(at-80, 0)
			keys = append(keys, fmt.Sprintf("%s: ...%.300s\nwant ...%.300s", key, a[min(at, len(a)):], b[min(at, len(b)):]))
		}
	}
	return keys
}

// TestReportOfOTLP checks that a report of OTLP equals that of the traces from
// which it was made: goodput, categories, steps, diagnosis.
func TestReportOfOTLP(t *testing.T) {
	for _, name := range []string{"healthy", "slow-rank", "hidden", "device", "async-save", "missing", "imbalance", "hang", "moe", "bodies"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			contractJobs[name](t, dir)
			otlp := toOTLP(t, dir)
			of := reportJSON(t, dir)
			for _, diff := range diffOf(t, reportJSON(t, otlp), of) {
				t.Errorf("report of the OTLP files differs: %s", diff)
			}
			// Two copies of the same spans count once.
			both := reportJSON(t, dir, otlp)
			for _, diff := range diffOf(t, both, of) {
				t.Error("with the traces: " + diff)
			}
		})
	}
}

// TestVerbsOfOTLP checks that the other commands read a file of OTLP spans like
// the corresponding trace.
func TestVerbsOfOTLP(t *testing.T) {
	dir := t.TempDir()
	contractJobs["healthy"](t, dir)
	otlp := toOTLP(t, dir)
	trace, err := filepath.Glob(filepath.Join(dir, "*rank1*.pfw.gz"))
	if err != nil || len(trace) != 1 {
		t.Fatalf("traces %v, %v; want one of rank 1", trace, err)
	}
	file := filepath.Join(otlp, strings.TrimSuffix(filepath.Base(trace[0]), ".pfw.gz")+".otlp.jsonl")
	a, b := lines[stepJSON](t, "trace", "steps", "--json", file), lines[stepJSON](t, "trace", "steps", "--json", trace[0])
	if len(a) == 0 || len(a) != len(b) {
		t.Errorf("%d steps, want %d", len(a), len(b))
	}
	type event struct {
		Cat, Name string
		TS        int64 `json:"ts_us"`
		Dur       int64 `json:"dur_us"`
		TID       int64
	}
	counts := make(map[event]int)
	for _, e := range lines[event](t, "trace", "events", "--json", file) {
		counts[e]++
	}
	for _, e := range lines[event](t, "trace", "events", "--json", trace[0]) {
		counts[e]--
	}
	for e, n := range counts {
		if n != 0 {
			t.Errorf("%+v: %+d, want 0", e, n)
		}
	}
	type category struct {
		Category     string
		Count, Total int64
	}
	type summary struct{ Categories []category }
	x, _ := json.Marshal(lines[summary](t, "trace", "summary", "--json", file))
	y, _ := json.Marshal(lines[summary](t, "trace", "summary", "--json", trace[0]))
	if !bytes.Equal(x, y) {
		t.Errorf("summary %s, want %s", x, y)
	}
	if out := want(t, "trace", "validate", file); !strings.Contains(out, "ok, OTLP") {
		t.Errorf("validate: %s, want \"ok, OTLP\" in it", out)
	}
	if out := want(t, "trace", "info", file); !strings.Contains(out, "rank 1") {
		t.Errorf("info: %s, want \"rank 1\" in it", out)
	}
}

// TestReportOfDamagedOTLP checks that defects of an OTLP file are reported, and
// missing data is not invented.
func TestReportOfDamagedOTLP(t *testing.T) {
	dir := t.TempDir()
	attempts(simjob.Attempt{Ranks: 1, Steps: 120})(t, dir)
	otlp := toOTLP(t, dir)
	var text []byte
	files, err := filepath.Glob(filepath.Join(otlp, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, data...)
	}
	logs := []byte(`{"resourceLogs":[{"resource":{},"scopeLogs":[]}]}` + "\n")
	for _, c := range []struct {
		name         string
		text         []byte
		code         int
		outcome, say string
	}{
		{"whole", text, 0, "COMPLETED", ""},
		{"compressed", gziptest.Pack(text), 0, "COMPLETED", ""},
		{"with log records", append(bytes.Clone(logs), text...), 0, "COMPLETED", "1 line of OTLP log records"},
		{"a line cut off", text[:len(text)-40], 1, "END UNKNOWN", "damaged or cut off"},
		{"gzip cut off", gziptest.Pack(text)[:len(gziptest.Pack(text))*9/10], 1, "END UNKNOWN", "damaged or cut off"},
		{"only log records", logs, 1, "", "log records or metrics"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "spans-1.otlp.jsonl")
			if err := os.WriteFile(path, c.text, 0o644); err != nil {
				t.Fatal(err)
			}
			code, out, stderr := cli(t, "report", "--json", path)
			if code != c.code || !strings.Contains(out+stderr, c.say) || !strings.Contains(out, c.outcome) {
				t.Errorf("status %d, %.300s\n%s; want %d, %q, %q", code, out, stderr, c.code, c.outcome, c.say)
			}
		})
	}
}

// TestRanksNumberedByStart checks that, if no record has a rank, the report
// mentions that the rank numbers are assigned by start, and which process the
// slow one is.
func TestRanksNumberedByStart(t *testing.T) {
	dir := t.TempDir()
	attempts(simjob.Attempt{Ranks: 3, Steps: 60, Seed: 1, Slow: 2, Extra: [4]float64{0, 0, 20, 0}})(t, dir)
	otlp := toOTLP(t, dir)
	files, err := filepath.Glob(filepath.Join(otlp, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range files { // neither the resource nor the name has the rank
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		data = bytes.ReplaceAll(data, []byte(`"key":"training.rank"`), []byte(`"key":"some.number"`))
		if err := os.WriteFile(filepath.Join(otlp, fmt.Sprintf("part-%d.jsonl", i)), data, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		path     string
		invented any
		say      bool
	}{{dir, nil, false}, {otlp, true, true}} {
		q := reportJSON(t, c.path)["data_quality"].(map[string]any)
		screen := strings.Join(strings.Fields(want(t, "report", c.path)), " ")
		named := strings.Contains(screen, " is pid ") && strings.Contains(screen, "part-")
		if q["ranks_invented"] != c.invented || strings.Contains(screen, "No record has a rank: ranks are numbered in the order of start.") != c.say || named != c.say {
			t.Errorf("ranks_invented %v, want %v: %s", q["ranks_invented"], c.invented, screen)
		}
	}
}
