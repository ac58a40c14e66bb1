package main

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
)

// TestTimesInNanoseconds checks that a trace with times in nanoseconds, as DFTracer
// writes it with DFTRACER_TIME_METRIC=NS, gives the same answers and files as one
// in microseconds.
func TestTimesInNanoseconds(t *testing.T) {
	dir := t.TempDir()
	path, out := filepath.Join(dir, "a.pfw"), filepath.Join(dir, "out.pfw")
	want(t, "trace", "convert", smallTrace(t), "--to", "v22", "-o", path)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	answers := make(map[string]string)
	events := make(map[string][]dftracer.Event)
	for _, unit := range []string{"US", "NS"} {
		if unit == "NS" {
			ns := strings.Replace(string(text), `"value":"US"`, `"value":"NS"`, 1)
			ns = regexp.MustCompile(`"(ts|dur)":([1-9]\d*)`).ReplaceAllString(ns, `"$1":${2}000`)
			if err := os.WriteFile(path, []byte(ns), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, to := range []string{"v2", "v22"} {
			want(t, "trace", "convert", path, "--to", to, "-o", out, "--force")
			got := dftest.Events(t, out)
			if events[to] == nil {
				events[to] = got
			} else if !reflect.DeepEqual(got, events[to]) {
				t.Errorf("%s: %v from nanoseconds, want %v", to, got, events[to])
			}
		}
		for _, command := range []string{"report --json", "trace summary --json", "trace steps --json", "trace events --json"} {
			got := want(t, append(strings.Fields(command), path)...)
			if answers[command] == "" {
				answers[command] = got
			} else if got != answers[command] {
				t.Errorf("%s: %s from nanoseconds, want %s", command, got, answers[command])
			}
		}
	}
}
