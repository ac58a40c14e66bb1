package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// TestASCII checks that with LANG=C the output of commands about jobs with ASCII names is ASCII, on
// standard output and standard error, from 40 to 200 columns and in a pipe. With a UTF-8 locale it
// must not be, so that the test covers the characters that are replaced.
func TestASCII(t *testing.T) {
	dir := t.TempDir()
	jobs := map[string]simjob.Job{
		"slow": {Layout: simjob.DP, Ranks: 4, Steps: 60, Seed: 1, Faults: []simjob.Fault{{What: simjob.Slow, Ranks: []int{2}, Phase: simjob.Input, Add: 20}}},
		"hang": {Layout: simjob.DP, Ranks: 4, Steps: 24, Seed: 5, Faults: []simjob.Fault{{What: simjob.Hang, Ranks: []int{3}, Phase: simjob.Backward, From: 20, Watchdog: 30_000}}},
		"fine": {Layout: simjob.DP, Ranks: 4, Steps: 60, Seed: 2},
	}
	for name, j := range jobs {
		if _, err := j.Write(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	writeProfile(t, filepath.Join(dir, "profile.json"), 2026, 0, 200)
	lines := []string{"--help", "trace --help", "report --help", "run --help", "help report", "help troubleshooting", "none", "report none", "compare slow fine", "runs slow"}
	for _, job := range []string{"slow", "hang", "fine", "profile.json"} {
		lines = append(lines, "report "+job, "report --full "+job, "trace summary "+job)
	}
	lines = append(lines, "trace steps fine", "trace info fine", "trace events fine --limit 5", "trace validate fine")
	t.Chdir(dir)
	drawn := make(map[rune]bool) // with UTF-8
	for _, line := range lines {
		for _, locale := range []string{"C.UTF-8", "C", "POSIX"} {
			for _, columns := range []int{0, 40, 61, 80, 119, 200} {
				env := map[string]string{"LANG": locale}
				if columns > 0 {
					env["COLUMNS"] = fmt.Sprint(columns)
				}
				var out bytes.Buffer
				run(t.Context(), strings.Fields(line), ui.Streams{Out: &out, Err: &out, Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok }})
				for text := range strings.Lines(out.String()) {
					text = strings.TrimSuffix(text, "\n")
					for _, r := range text {
						switch {
						case locale == "C.UTF-8":
							drawn[r] = true
						case r >= utf8.RuneSelf:
							t.Fatalf("%s, LANG=%s, %d columns: %q has %q, want ASCII only", line, locale, columns, text, r)
						}
					}
					if table := strings.HasPrefix(line, "report") && !strings.Contains(line, "-") && columns > 0; table && display.Width(text) > columns {
						t.Errorf("%s, LANG=%s: %d columns, want at most %d: %q", line, locale, display.Width(text), columns, text)
					}
				}
			}
		}
	}
	for _, r := range "█▓·…" {
		if !drawn[r] {
			t.Errorf("%q is on no screen: the test shows nothing", r)
		}
	}
}
