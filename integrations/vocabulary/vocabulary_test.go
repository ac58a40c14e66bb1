package vocabulary_test

import (
	"testing"

	"github.com/trainspan/trainspan/integrations/vocabulary"
	"github.com/trainspan/trainspan/spans"
)

func TestFind(t *testing.T) {
	for name, want := range map[string]vocabulary.Name{
		"training_single_iteration":               {Span: spans.TrainingIteration, Category: "pipeline", Event: "train.iteration"},
		"TESTING_SINGLE_ITERATION":                {Span: spans.TestingIteration, Category: "pipeline", Event: "test.iteration"},
		"megatron.pretrain":                       {Span: spans.Application, Category: "ai_root", Event: "ai_root"},
		"megatron.train_step":                     {Span: spans.TrainingIteration, Category: "pipeline", Event: "train.iteration"},
		"megatron.microbatch.backward":            {Span: spans.ModelBackward, Category: "compute", Event: "backward"},
		"megatron.p2p.recv_forward":               {Category: "comm", Event: "p2p.recv_forward"},
		"megatron.load_checkpoint.io_read":        {Category: "io", Event: "load_checkpoint.io_read"},
		"nv.dl.training.iteration":                {Span: spans.TrainingIteration, Category: "pipeline", Event: "train.iteration"},
		"dl.training.evaluate":                    {Span: spans.ValidationLoop, Category: "pipeline", Event: "evaluate"},
		"nv.dl.training.checkpoint.save":          {Category: "checkpoint", Event: "training.checkpoint.save"},
		"nv.dl.training.checkpoint.load":          {Span: spans.CheckpointLoad, Category: "checkpoint", Event: "restart"},
		"nv.mcore.grad_sync.finish":               {Category: "comm", Event: "grad_sync.finish"},
		"rl.grpo.step":                            {Span: spans.TrainingIteration, Category: "pipeline", Event: "train.iteration"},
		"rl.ppo.policy_training":                  {Category: "compute", Event: "policy_training"},
		"rl.idle.buffer_starvation":               {Category: "idle", Event: "buffer_starvation"},
		"rl.setup.ray_init":                       {Span: spans.DistributedInit, Category: "comm", Event: "comm.init"},
		"rl.data_plane.put":                       {Category: "data_plane", Event: "data_plane.put"},
		"rl.an_algorithm_of_tomorrow.evaluate":    {Span: spans.ValidationLoop, Category: "pipeline", Event: "evaluate"},
		"nv.dl.training.checkpoint.save.finalize": {Span: spans.CheckpointSaveFinalization, Category: "checkpoint", Event: "capture.finalize", Background: true},
	} {
		if got, ok := vocabulary.Find(name); !ok || got != want {
			t.Errorf("%s is %+v, %v; want %+v", name, got, ok, want)
		}
	}
	for _, name := range []string{"", "train", "megatron.", "megatron.unheard_of", "rl.", "rl.grpo.unheard_of", "nv.dl.x", "GET /"} {
		if got, ok := vocabulary.Find(name); ok {
			t.Errorf("%q is %+v", name, got)
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
		if got := vocabulary.Argument(c.span, c.key); got != c.want {
			t.Errorf("%s of %q is %s, want %s", c.key, c.span, got, c.want)
		}
	}
}
