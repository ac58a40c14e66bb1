package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// TestDigests checks that the report of digests, of digests and traces, and of
// a digest of digests equals that of the traces.
func TestDigests(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for i, name := range []string{"a", "b"} {
		l := simjob.Large{Ranks: 8, Steps: 60, Slow: 5, Extra: 12, Save: 20, First: 4 * i, Last: 4 * (i + 1)}
		if err := l.Write(name); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		t.Helper()
		status, stdout, stderr := cli(t, args...)
		if status != 0 {
			t.Fatalf("%v: status %d, want 0, %s", args, status, stderr)
		}
		return stdout
	}
	want := run("report", "a", "b", "--json")
	if !strings.Contains(want, `"kind": "slow_ranks"`) || !strings.Contains(want, `"name": "a b"`) {
		t.Fatalf(`report has no finding slow_ranks or no run named "a b": %.2000s`, want)
	}
	run("trace", "digest", "a", "-o", "a.digest")
	run("trace", "digest", "b", "-o", "b.digest")
	run("trace", "digest", "b.digest", "a.digest", "-o", "all.digest")
	if err := os.Mkdir("digests", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.digest", "b.digest"} {
		if err := os.Rename(name, filepath.Join("digests", name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"digests"}, {"all.digest"}, {"digests/b.digest", "digests/a.digest"}, {"a", "digests/b.digest"}, {"digests", "all.digest"},
	} {
		if got := run(append([]string{"report", "--json"}, args...)...); got != want {
			t.Errorf("%v differs", args)
		}
	}
	if info, err := os.Stat("all.digest"); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode of the digest is %v, %v; want 0644", info.Mode(), err)
	}

	text, err := os.ReadFile("all.digest")
	if err != nil {
		t.Fatal(err)
	}
	if got := run("trace", "digest", "b", "a", "-o", "-"); got != string(text) {
		t.Errorf("the digest on standard output has %d bytes and differs from the file with %d", len(got), len(text))
	}
	if err := errors.Join(os.Mkdir("empty", 0o755), os.WriteFile("empty/none.digest", nil, 0o600), os.WriteFile("empty/all.digest", text, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("half.digest", text[:len(text)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args   []string
		status int
		say    string
	}{
		{[]string{"trace", "digest"}, ui.StatusUse, "trainspan-runs has no run"},
		{[]string{"trace", "digest", "a"}, ui.StatusUse, "no output is given"},
		{[]string{"trace", "digest", "a", "-o", "all.digest"}, ui.StatusUse, "--force"},
		{[]string{"trace", "digest", "a", "-o", "a"}, ui.StatusUse, "also an input"},
		{[]string{"report", "empty"}, ui.StatusData, "none.digest: cannot read the digest: the file is not a digest"},
		{[]string{"report", "half.digest"}, ui.StatusData, "half.digest: cannot read the digest: it is truncated"},
		{[]string{"report", "none"}, ui.StatusUse, "no such file"},
	} {
		if status, _, stderr := cli(t, tt.args...); status != tt.status || !strings.Contains(stderr, tt.say) {
			t.Errorf("%v: status %d, stderr %q; want %d and %q", tt.args, status, stderr, tt.status, tt.say)
		}
	}
}
