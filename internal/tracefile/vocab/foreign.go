package vocab

import (
	"strings"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/internal/tracefile/onelogger"
	"github.com/trainspan/trainspan/spans"
)

// Alias is a foreign span's name in this library.
type Alias struct {
	// Standard is the standard span with the same meaning; empty if there is none.
	Standard string
	// Category and Event are the names in the trace file. For a standard span they
	// are those of the table.
	Category, Event string
	// Background marks a span that runs concurrently with the training thread.
	Background bool
}

// Categories of spans that are not standard spans. Time in the first two is
// part of the iteration around it.
const (
	compute    = "compute"
	comm       = "comm"
	dataloader = "dataloader"
	checkpoint = "checkpoint"
	pipeline   = "pipeline"
	idle       = "idle"
)

// entry is a row: the last words of a name, and its meaning.
type entry struct {
	words string
	name  Alias
}

func standard(words, span string) entry { return entry{words, Alias{Standard: span}} }

func categoryEntry(words, category string) entry { return entry{words, Alias{Category: category}} }

// megatron are the names below "megatron.".
var megatron = []entry{
	standard("pretrain", spans.Application),
	standard("model_init", spans.ModelInit),
	standard("load_checkpoint", spans.CheckpointLoad),
	categoryEntry("load_checkpoint.io_read", "io"),
	standard("train", spans.TrainingLoop),
	standard("train_step", spans.TrainingIteration),
	categoryEntry("forward_backward", compute),
	standard("microbatch.forward", spans.ModelForward),
	standard("microbatch.backward", spans.ModelBackward),
	categoryEntry("layer.forward", compute),
	categoryEntry("layer.self_attention", compute),
	categoryEntry("layer.mlp", compute),
	categoryEntry("activation.offload", compute),
	categoryEntry("activation.reload", compute),
	categoryEntry("p2p.*", comm),
	categoryEntry("pp.*", comm),
	categoryEntry("grad_sync.*", comm),
	standard("optimizer_step", spans.OptimizerUpdate),
	standard("save_checkpoint", spans.CheckpointSaveSync),
	categoryEntry("save_checkpoint.state_dict", checkpoint),
	categoryEntry("save_checkpoint.io_write", checkpoint),
	standard("evaluate", spans.ValidationLoop),
	standard("evaluate.step", spans.ValidationIteration),
}

// lens are the names below "dl." and "nv.dl.".
var lens = []entry{
	categoryEntry("training.startup", pipeline),
	standard("training.startup.model_init", spans.ModelInit),
	standard("training.startup.dataloader", spans.DataLoaderInit),
	standard("training.startup.distributed_init", spans.DistributedInit),
	standard("training.startup.optimizer_init", spans.OptimizerInit),
	standard("training.checkpoint.load", spans.CheckpointLoad),
	categoryEntry("training.checkpoint.load.io_read", "io"),
	standard("training.iter_block", spans.TrainingLoop),
	standard("training.iteration", spans.TrainingIteration),
	standard("training.step", spans.TrainingIteration),
	standard("training.iteration.data_loading", spans.DataLoading),
	categoryEntry("training.iteration.forward_backward", compute),
	standard("training.iteration.forward", spans.ModelForward),
	standard("training.iteration.backward", spans.ModelBackward),
	standard("training.iteration.optimizer_step", spans.OptimizerUpdate),
	standard("training.checkpoint.exposed_save", spans.CheckpointSaveSync),
	categoryEntry("training.checkpoint.save", checkpoint),
	categoryEntry("training.checkpoint.save.state_dict", checkpoint),
	categoryEntry("training.checkpoint.save.io_write", checkpoint),
	{"training.checkpoint.save.finalize", Alias{Standard: spans.CheckpointSaveFinalization, Background: true}},
	standard("training.evaluate", spans.ValidationLoop),
	standard("training.evaluate.step", spans.ValidationIteration),
}

// core are the names below "nv.mcore." and "nv.mlm.".
var core = []entry{
	standard("microbatch.forward", spans.ModelForward),
	standard("microbatch.backward", spans.ModelBackward),
	categoryEntry("layer.*", compute),
	categoryEntry("cuda_graph.capture", compute),
	categoryEntry("memory.reclaim", compute),
	categoryEntry("p2p.*", comm),
	categoryEntry("grad_sync.*", comm),
	categoryEntry("train.*", compute),
	categoryEntry("checkpoint.*", checkpoint),
}

// rl holds the names below "rl.", without the algorithm in between.
var rl = []entry{
	categoryEntry("startup", pipeline),
	standard("setup.ray_init", spans.DistributedInit),
	standard("setup.data", spans.DataLoaderInit),
	standard("setup.tokenizer", spans.DataLoaderInit),
	standard("setup.workers", spans.ModelInit),
	standard("load_model", spans.ModelInit),
	standard("driver", spans.Application),
	standard("job", spans.TrainingLoop),
	standard("step", spans.TrainingIteration),
	categoryEntry("data_processing", dataloader),
	categoryEntry("read_batch", dataloader),
	categoryEntry("prepare_batch", dataloader),
	categoryEntry("generation", compute),
	categoryEntry("generate", compute),
	categoryEntry("generate_text", compute),
	categoryEntry("reward_calculation", compute),
	categoryEntry("advantage_calculation", compute),
	categoryEntry("policy_and_reference_logprobs", compute),
	categoryEntry("teacher_logprob_inference", compute),
	categoryEntry("logprob_inference_prep", compute),
	categoryEntry("value_inference_prep", compute),
	categoryEntry("value_inference", compute),
	categoryEntry("training_prep", compute),
	categoryEntry("policy_training", compute),
	categoryEntry("value_training", compute),
	standard("policy_optimizer_step", spans.OptimizerUpdate),
	standard("checkpointing", spans.CheckpointSaveSync),
	standard("evaluate", spans.ValidationLoop),
	categoryEntry("buffer_starvation", idle),
	categoryEntry("refit_bubble", idle),
	{"refit_event_wait", Alias{Category: idle, Background: true}},
	{"generation_limit_pause", Alias{Category: idle, Background: true}},
	{"generate_and_push", Alias{Category: compute, Background: true}},
	{"run_rollouts", Alias{Category: compute, Background: true}},
	categoryEntry("data_plane.*", "data_plane"),
}

// vocabularies are the tables by the prefix of the names.
var vocabularies = []struct {
	prefix string
	skip   bool // one word after the prefix may be skipped
	table  map[string]Alias
}{
	{"megatron.", false, tableOf(megatron)},
	{"nv.dl.", false, tableOf(lens)},
	{"nv.mcore.", false, tableOf(core)},
	{"nv.mlm.", false, tableOf(core)},
	{"dl.", false, tableOf(lens)},
	{"rl.", true, tableOf(rl)},
}

func tableOf(list []entry) map[string]Alias {
	m := make(map[string]Alias, len(list))
	for _, e := range list {
		n := e.name
		if n.Standard != "" {
			info, _ := spans.Lookup(n.Standard)
			n.Category, n.Event = info.Category, info.Event
		}
		m[e.words] = n
	}
	return m
}

// Known returns the names of a span by the name in OpenTelemetry: a standard
// span, or a name of the vocabularies of NeMo and Megatron.
func Known(name string) (Alias, bool) {
	if info, ok := spans.Lookup(name); ok {
		return Alias{Standard: name, Category: info.Category, Event: info.Event}, true
	}
	for i := range vocabularies {
		v := &vocabularies[i]
		rest, ok := strings.CutPrefix(name, v.prefix)
		if !ok {
			continue
		}
		n, ok := lookup(v.table, rest)
		if _, tail, more := strings.Cut(rest, "."); !ok && v.skip && more {
			n, ok = lookup(v.table, tail)
		}
		return n, ok
	}
	return Alias{}, false
}

// lookup finds a row: by the whole name, or by its first word and "*". A span
// that is not a standard span is named by its last words.
func lookup(table map[string]Alias, words string) (Alias, bool) {
	n, ok := table[words]
	if first, _, more := strings.Cut(words, "."); !ok && more {
		n, ok = table[first+".*"]
	}
	if ok && n.Event == "" {
		n.Event = strings.Clone(words)
	}
	return n, ok
}

// Argument returns the name that a span's attribute has in a trace file: for
// the numbers of step and epoch the name that analyzers look for, otherwise its
// own. span is the standard span, or empty.
func Argument(span, key string) string {
	switch key {
	case "megatron.iteration", "nv.dl.training.step", "dl.training.step", "dl.step", "rl.step", "rl.iteration":
		switch span {
		case spans.CheckpointLoad, spans.CheckpointSaveSync, spans.CheckpointSaveAsync, spans.CheckpointSaveFinalization:
			return onelogger.CurrentIteration
		}
		return attributes.Step
	case "rl.epoch", "dl.epoch", "nv.dl.training.epoch":
		return attributes.Epoch
	}
	return key
}

// Analyzed reports whether [Argument] gives this name to attributes with other
// names.
func Analyzed(key string) bool {
	switch key {
	case attributes.Step, attributes.Epoch, onelogger.CurrentIteration:
		return true
	}
	return false
}
