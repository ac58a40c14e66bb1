//go:build linux

package python_test

import (
	"strings"
	"testing"
)

// TestStacks checks that stacks are written on a signal that the program does
// not use. A signal that the program uses before or later stays the program's,
// and a child that trains has a separate file.
func TestStacks(t *testing.T) {
	for how, want := range map[string]string{"free": "True False", "taken": "none", "blocked": "none", "later": "True 1 False", "forked": "0"} {
		t.Run(how, func(t *testing.T) {
			if got := strings.TrimSpace(newTorchJob(t, "./testdata/harm/stacks.py", how).run(t)); got != want {
				t.Errorf("stacks.py %s printed %q, want %q", how, got, want)
			}
		})
	}
}
