package python_test

import (
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/ingest/pyring"
)

// TestTorchImportedAgain checks that the top-level code of a program is
// recorded for the training process, not for a worker that imports the program
// again.
func TestTorchImportedAgain(t *testing.T) {
	for _, method := range []string{"spawn", "forkserver"} {
		t.Run(method, func(t *testing.T) {
			j := newTorchJob(t, "workers.py", method)
			j.run(t)
			_, traces := importRings(t, pyring.Options{Attempt: -1}, j.rings)
			workers := 0
			for _, path := range traces {
				events, metadata := lines(t, path)
				if metadata["role"] != "dataloader_worker" {
					continue
				}
				workers++
				for _, e := range events {
					if slices.Contains([]string{"compute", "pipeline", "ai_root"}, e[:slices.Index([]byte(e), '/')]) {
						t.Errorf("a worker has %s on record, want no span of the training", e)
					}
				}
			}
			if workers != 1 {
				t.Errorf("%d workers, want 1, in %q", workers, traces)
			}
		})
	}
}

// TestTorchParent: a parent that waits for the processes that train, and evaluates what they trained, is no rank.
func TestTorchParent(t *testing.T) {
	for _, method := range []string{"fork", "forkserver"} {
		t.Run(method, func(t *testing.T) {
			j := jobProgram{run: "parent.py " + method}
			r, trainers, _ := j.report(t)
			if len(trainers) != 3 || len(r.Ranks) != 2 || r.Steps.Count != 12 {
				t.Errorf("%d processes with spans of a training, %d ranks, %d steps, want 3, 2, 12", len(trainers), len(r.Ranks), r.Steps.Count)
			}
		})
	}
}
