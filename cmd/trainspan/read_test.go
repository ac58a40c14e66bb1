package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
)

// TestArgumentsOfJSONLines checks that a span of JSON lines has the arguments
// of its start and stop events, as in a trace. Those of the stop event take
// precedence.
func TestArgumentsOfJSONLines(t *testing.T) {
	const lines = `{"type":"start","id":"0102030405060708","name":"prefetch","attributes":{"dftracer.cat":"dataloader","dftracer.name":"fetch","background":1,"n":1,"word":"a \"b\"","half":0.5,"list":[1,"x",null]},"start_event":{"name":"span_start","attributes":{"timestamp_msec":1760000000000}},"count":1,"pid":7,"rank":3}
{"type":"start","id":"0102030405060709","name":"training_single_iteration","attributes":{"current_iteration":12},"start_event":{"name":"span_start","attributes":{"timestamp_msec":1760000000000}},"count":2,"pid":7,"rank":3}
{"type":"stop","id":"0102030405060708","name":"prefetch","attributes":{"n":2,"large":18446744073709551615,"yes":true,"device_us":1500,"duration_msec":2000},"stop_event":{"name":"span_stop","attributes":{"timestamp_msec":1760000002000}},"count":3,"pid":7,"rank":3}
`
	path := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errs := cli(t, "trace", "events", path, "--json")
	got := map[string]map[string]any{}
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
		var ev struct {
			Name string
			Args map[string]any
		}
		if err := d.Decode(&ev); err != nil {
			t.Fatal(err)
		}
		got[ev.Name] = ev.Args
	}
	for name, args := range map[string]map[string]any{
		"fetch":           {"background": 1.0, "n": 2.0, "word": `a "b"`, "half": 0.5, "list": []any{1.0, "x", nil}, "yes": 1.0, "large": 18446744073709551615.0, "device_us": 1500.0},
		"train.iteration": {"current_iteration": 12.0, "step": 12.0, "truncated": 1.0},
	} {
		for _, known := range []string{"hhash", "level", "p_idx"} {
			delete(got[name], known)
		}
		if !reflect.DeepEqual(got[name], args) {
			t.Errorf("status %d, %s: %v, want %v\n%s%s", status, name, got[name], args, out, errs)
		}
	}
}

// TestEventsByDuration compares the lines of --sort duration with those of all
// events, sorted.
func TestEventsByDuration(t *testing.T) {
	dir := t.TempDir()
	key := dftracer.NewKey("compute", "forward")
	for _, name := range []string{"a.pfw", "b.pfw.gz"} {
		w, err := dftracer.Create(filepath.Join(dir, name), nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range int64(30) {
			// Several spans have equal durations, and an argument is longer than the
			// strings that the reader interns.
			w.WriteComplete(&key, dftracer.Span{TID: 1, TS: 1_700_000_000_000_000 + 100*(i%7), Dur: 10 + i*7%13},
				dftracer.Int("step", i), dftracer.String("note", name+strings.Repeat("x", 70)+strconv.FormatInt(i, 10)))
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, out, _ := call("trace", "events", dir, "--json")
	all := slices.Collect(strings.Lines(out))
	number := func(line, key string) (n int64) {
		_, line, _ = strings.Cut(line, `"`+key+`":`)
		_, _ = fmt.Sscan(line, &n)
		return n
	}
	// A stable sort leaves spans that begin together in the order of the files.
	slices.SortStableFunc(all, func(a, b string) int {
		return cmp.Or(cmp.Compare(number(b, "dur_us"), number(a, "dur_us")), cmp.Compare(number(a, "ts_us"), number(b, "ts_us")))
	})
	if len(all) != 60 {
		t.Fatalf("events printed %d lines, want 60", len(all))
	}
	for _, tt := range []struct {
		limit string
		want  int
		note  string
	}{
		{"", 20, "the 20 longest of 60 spans; --limit shows more"},
		{"1", 1, ""},
		{"7", 7, ""},
		{"60", 60, ""},
		{"1000", 60, ""},
	} {
		args := []string{"trace", "events", dir, "--sort", "duration", "--json"}
		if tt.limit != "" {
			args = append(args, "--limit", tt.limit)
		}
		status, out, note := call(args...)
		if got, want := out, strings.Join(all[:tt.want], ""); status != 0 || got != want {
			t.Errorf("--limit %s: status %d, got\n%s\nwant\n%s", tt.limit, status, got, want)
		}
		if got := strings.TrimSuffix(strings.TrimPrefix(note, "trainspan: "), "\n"); got != tt.note {
			t.Errorf("--limit %s: the note is %q, want %q", tt.limit, got, tt.note)
		}
	}
}
