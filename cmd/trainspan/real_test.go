package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// TestRealTraceSurvivesRewriting checks that the trace of eight ranks that
// DFTracer 1.0.8 wrote gives the same numbers unchanged, merged, in another
// dialect and split again.
func TestRealTraceSurvivesRewriting(t *testing.T) {
	real := filepath.Join("..", "..", "..", "shared", "data", "dftracer")
	if _, err := os.Stat(real); err != nil {
		t.Skip("the sample data is not here:", err)
	}
	type name struct {
		Category, Name string
		Count          int64
		Total          int64 `json:"total_us"`
		Self           int64 `json:"self_us"`
	}
	type sums struct {
		Events int64
		Names  []name
		Use    []map[string]any `json:"processes"`
	}
	read := func(path string) sums {
		var s sums
		if err := json.Unmarshal([]byte(want(t, "trace", "summary", "--json", "--sort", "name", path)), &s); err != nil {
			t.Fatal(err)
		}
		for _, u := range s.Use {
			delete(u, "host_hash") // it depends on the dialect
		}
		return s
	}
	dir := t.TempDir()
	original := read(real)
	if original.Events != 18023 || len(original.Use) != 8 {
		t.Fatalf("the trace has %d events of %d processes, want 18023 of 8", original.Events, len(original.Use))
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	want(t, "trace", "merge", real, "-o", at("job.pfw.gz"))
	want(t, "trace", "convert", at("job.pfw.gz"), "--to", "v2", "-o", at("v2.pfw.gz"))
	want(t, "trace", "convert", at("v2.pfw.gz"), "--to", "v22", "-o", at("v22.pfw"))
	want(t, "trace", "split", at("v2.pfw.gz"), "-o", at("ranks"))
	for _, path := range []string{"job.pfw.gz", "v2.pfw.gz", "ranks"} {
		if got := read(at(path)); !reflect.DeepEqual(got, original) {
			t.Errorf("%s: the sums differ", path)
		}
	}
	if got := read(at("v22.pfw")); got.Events != original.Events || !reflect.DeepEqual(got.Use, original.Use) {
		t.Errorf("v22: %d events, want %d with the same sums", got.Events, original.Events)
	}
	want(t, "trace", "validate", "--foreign", "--missing-parents", at("v2.pfw.gz"), at("ranks"))
}
