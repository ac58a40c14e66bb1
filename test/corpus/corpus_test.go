package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCorpus writes a small corpus, answers it with each published rule, and with the truth
// itself, and reads the scores.
func TestCorpus(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3:", err)
	}
	dir := t.TempDir()
	if err := write(dir, []string{"healthy", "two", "hang", "drift"}, 1); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(python, args...)
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		return string(out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "truth.json"))
	if err != nil {
		t.Fatal(err)
	}
	var truths map[string]truth
	if err := json.Unmarshal(text, &truths); err != nil {
		t.Fatal(err)
	}
	if len(truths) != 4 {
		t.Fatalf("truth.json has %d jobs, want 4", len(truths))
	}
	var right, wrong strings.Builder
	for job, is := range truths {
		line, _ := json.Marshal(map[string]any{"job": job, "kind": is.Right[0].Kind, "ranks": is.Right[0].Ranks})
		right.Write(append(line, '\n'))
		innocent := 0
		for _, r := range is.Culprits {
			if r == innocent {
				innocent++
			}
		}
		line, _ = json.Marshal(map[string]any{"job": job, "kind": "slow_ranks", "ranks": []int{innocent}})
		wrong.Write(append(line, '\n'))
	}
	files := map[string]string{"right": right.String(), "wrong": wrong.String(), "nothing": ""}
	for _, rule := range []string{"section-scores", "least-visible", "last-starters"} {
		files[rule] = run("answer.py", rule)
		if n := strings.Count(files[rule], "\n"); n != 4 {
			t.Errorf("%s: got %d answers, want 4:\n%s", rule, n, files[rule])
		}
	}
	names := make([]string, 0, len(files))
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	scores := run(append([]string{"score.py"}, names...)...)
	for _, want := range []string{
		`(?m)^right +4 +0 +0 +0 +0 +0 `, // right, silent, partly, missed, alarm, blamed
		`(?m)^wrong +0 +0 +0 +0 +0 +4 `,
		`(?m)^nothing +0 +1 +0 +3 +0 +0 `,
	} {
		if !regexp.MustCompile(want).MatchString(scores) {
			t.Errorf("scores are\n%s\nwant a line %s", scores, want)
		}
	}
}
