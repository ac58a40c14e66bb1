package python_test

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
)

// TestTorchRollout checks that generation and rewards are separate spans, and
// that the model's calls in them are not forwards of the training; during an
// evaluation they are part of it. The mode of the model decides: batches are
// requested ahead, so that the last one of an evaluation is used after the end
// of its loader, and the first one of the training is requested in the mode of
// evaluation.
func TestTorchRollout(t *testing.T) {
	j := newTorchJob(t, "rollout.py")
	j.run(t)
	all := j.traces(t)
	if len(all) != 1 {
		t.Fatalf("%d processes recorded, want 1", len(all))
	}
	want := map[string]int{
		"rollout/generate": 1, "rollout/rollout": 8, "rollout/reward": 8, "pipeline/evaluate.rollout": 4, "pipeline/evaluate.reward": 4,
		"pipeline/train.iteration": 8, "pipeline/evaluate": 2, "pipeline/evaluate.iteration": 4,
		"compute/forward": 8 + 4, "compute/backward": 8, "compute/step": 8,
	}
	got := make(map[string]int)
	for name := range want {
		got[name] = all[0].count[name]
	}
	if !maps.Equal(got, want) {
		t.Errorf("spans are %v, want %v", got, want)
	}
	for _, s := range all[0].spans {
		in := ""
		if s.up != nil {
			in = s.up.name
		}
		switch s.name {
		case "rollout/rollout", "rollout/reward":
			if in != "pipeline/train.iteration" {
				t.Errorf("%s is in %q, want pipeline/train.iteration", s.name, in)
			}
		case "pipeline/evaluate.rollout", "pipeline/evaluate.iteration":
			if in != "pipeline/evaluate" && in != "pipeline/evaluate.iteration" {
				t.Errorf("%s is in %q, want an evaluation", s.name, in)
			}
		}
	}
}

// TestTRL checks that the trainers of TRL have rollout, reward, update and
// evaluation as separate parts. A step is an update of two micro-batches.
func TestTRL(t *testing.T) {
	if _, err := os.Stat(filepath.Join("/opt", "trl")); err != nil {
		t.Skip("needs a folder of env.sh, with TRL")
	}
	for name, want := range map[string]map[string]int{
		"sft": {"pipeline/train.iteration": 6, "compute/backward": 12, "compute/step": 6, "pipeline/evaluate": 2},
		"grpo": {
			"pipeline/train.iteration": 6, "compute/backward": 12, "compute/step": 6, "rollout/rollout": 6, "rollout/reward": 6,
			"pipeline/evaluate.rollout": 8, "pipeline/evaluate.reward": 8, "pipeline/evaluate.iteration": 8,
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := jobProgram{run: "trl_jobs.py " + name, opt: "trl", since: "2.6"}
			r, trainers, _ := j.report(t)
			if len(trainers) != 1 {
				t.Fatalf("%d processes train, want 1", len(trainers))
			}
			got := make(map[string]int)
			for phase := range want {
				got[phase] = trainers[0].count[phase]
			}
			if !maps.Equal(got, want) {
				t.Errorf("spans are %v, want %v", got, want)
			}
			if c := r.Ledger.Categories; name == "grpo" && (c["custom.rollout"] == 0 || c["custom.reward"] < 6*20e6 || c["validation"] == 0 || c["productive"] == 0) {
				t.Errorf("the account is %v, want rollout, reward, validation and productive", c)
			}
		})
	}
}
