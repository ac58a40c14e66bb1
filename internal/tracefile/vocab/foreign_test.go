package vocab_test

import (
	"testing"

	"github.com/trainspan/trainspan/internal/tracefile/vocab"
	"github.com/trainspan/trainspan/spans"
)

func TestKnown(t *testing.T) {
	for name, want := range map[string]vocab.Alias{
		"training_single_iteration":               {Standard: spans.TrainingIteration, Category: "pipeline", Event: "train.iteration"},
		"TESTING_SINGLE_ITERATION":                {Standard: spans.TestingIteration, Category: "pipeline", Event: "test.iteration"},
		"megatron.pretrain":                       {Standard: spans.Application, Category: "ai_root", Event: "ai_root"},
		"megatron.train_step":                     {Standard: spans.TrainingIteration, Category: "pipeline", Event: "train.iteration"},
		"megatron.microbatch.backward":            {Standard: spans.ModelBackward, Category: "compute", Event: "backward"},
		"megatron.p2p.recv_forward":               {Category: "comm", Event: "p2p.recv_forward"},
		"megatron.load_checkpoint.io_read":        {Category: "io", Event: "load_checkpoint.io_read"},
		"nv.dl.training.iteration":                {Standard: spans.TrainingIteration, Category: "pipeline", Event: "train.iteration"},
		"dl.training.evaluate":                    {Standard: spans.ValidationLoop, Category: "pipeline", Event: "evaluate"},
		"nv.dl.training.checkpoint.save":          {Category: "checkpoint", Event: "training.checkpoint.save"},
		"nv.dl.training.checkpoint.load":          {Standard: spans.CheckpointLoad, Category: "checkpoint", Event: "restart"},
		"nv.mcore.grad_sync.finish":               {Category: "comm", Event: "grad_sync.finish"},
		"rl.grpo.step":                            {Standard: spans.TrainingIteration, Category: "pipeline", Event: "train.iteration"},
		"rl.ppo.policy_training":                  {Category: "compute", Event: "policy_training"},
		"rl.idle.buffer_starvation":               {Category: "idle", Event: "buffer_starvation"},
		"rl.setup.ray_init":                       {Standard: spans.DistributedInit, Category: "comm", Event: "comm.init"},
		"rl.data_plane.put":                       {Category: "data_plane", Event: "data_plane.put"},
		"rl.an_algorithm_of_tomorrow.evaluate":    {Standard: spans.ValidationLoop, Category: "pipeline", Event: "evaluate"},
		"nv.dl.training.checkpoint.save.finalize": {Standard: spans.CheckpointSaveFinalization, Category: "checkpoint", Event: "capture.finalize", Background: true},
	} {
		if got, ok := vocab.Known(name); !ok || got != want {
			t.Errorf("%s is %+v, %v; want %+v", name, got, ok, want)
		}
	}
	for _, name := range []string{"", "train", "megatron.", "megatron.unheard_of", "rl.", "rl.grpo.unheard_of", "nv.dl.x", "GET /"} {
		if got, ok := vocab.Known(name); ok {
			t.Errorf("Known(%q) = %+v, want none", name, got)
		}
	}
}

func TestArguments(t *testing.T) {
	for _, c := range []struct{ span, key, want string }{
		{spans.TrainingIteration, "megatron.iteration", "step"},
		{spans.TrainingIteration, "rl.iteration", "step"},
		{spans.CheckpointSaveSync, "nv.dl.training.step", "current_iteration"},
		{"", "rl.epoch", "epoch"},
		{"", "rl.bucket", "rl.bucket"},
	} {
		if got := vocab.Argument(c.span, c.key); got != c.want {
			t.Errorf("%s of %q is %s, want %s", c.key, c.span, got, c.want)
		}
	}
}
