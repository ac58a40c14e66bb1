//go:build linux

package python_test

import (
	"strings"
	"testing"
)

// TestStacks: the stacks come on a signal that the program does not use; one that it uses
// before or later is its own, and a child that trains has a file of its own.
func TestStacks(t *testing.T) {
	for how, want := range map[string]string{"free": "True False", "taken": "none", "blocked": "none", "later": "True 1 False", "forked": "0"} {
		t.Run(how, func(t *testing.T) {
			if got := strings.TrimSpace(newTorchJob(t, "./testdata/harm/stacks.py", how).run(t)); got != want {
				t.Errorf("stacks.py %s printed %q, want %q", how, got, want)
			}
		})
	}
}
