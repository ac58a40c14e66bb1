package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestArgumentsOfJSONLines: what a span of JSON lines says is what its events say, as
// in a trace: of start and stop, the stop's where both do.
func TestArgumentsOfJSONLines(t *testing.T) {
	const lines = `{"type":"start","id":"0102030405060708","name":"prefetch","attributes":{"dftracer.cat":"dataloader","dftracer.name":"fetch","background":1,"n":1,"word":"a \"b\"","half":0.5,"list":[1,"x",null]},"start_event":{"name":"span_start","attributes":{"timestamp_msec":1760000000000}},"count":1,"pid":7,"rank":3}
{"type":"start","id":"0102030405060709","name":"training_single_iteration","attributes":{"current_iteration":12},"start_event":{"name":"span_start","attributes":{"timestamp_msec":1760000000000}},"count":2,"pid":7,"rank":3}
{"type":"stop","id":"0102030405060708","name":"prefetch","attributes":{"n":2,"large":18446744073709551615,"yes":true,"device_us":1500,"duration_msec":2000},"stop_event":{"name":"span_stop","attributes":{"timestamp_msec":1760000002000}},"count":3,"pid":7,"rank":3}
`
	path := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errs := cli(t, "events", path, "--json")
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
