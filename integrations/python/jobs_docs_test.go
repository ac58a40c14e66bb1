package python_test

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of docs/guide/python.md anew")

// ways are the rows of the table in docs/guide/python.md: a way of running, and what is
// seen of it where no job says otherwise. Cells are those that no job fills.
var ways = []way{
	{"loops, of 19 kinds", "each phase, iterations, epochs, evaluation", every("TestTorchLoops")},
	{"a plain loop", "each phase; an iteration lasts from one step to the next", nil},
	{"gradient accumulation", "one iteration for each step", nil},
	{"an optimizer with a closure", "forward and backward inside of the step", nil},
	{"two optimizers (GAN)", "each phase", nil},
	{"`autograd.grad`", "forward", nil},
	{"activation checkpointing", "what is made again is part of backward", nil},
	{"mixed precision with a skipped step", "each phase", nil},
	{"an optimizer that is no `torch.optim.Optimizer`", "forward, backward", nil},
	{"`torch.func`", "forward", nil},
	{"a data set, in the process", "each wait, iterations from batch to batch, epochs", nil},
	{"an iterable, in the process", "the same", nil},
	{"an iterable, with workers", "the same, and what workers do", nil},
	{"workers by fork", "the same", nil},
	{"workers by spawn", "the same", nil},
	{"workers by forkserver", "the same", nil},
	{"workers by the default", "the same: fork, from Python 3.14 on forkserver", nil},
	{"`persistent_workers`", "the same", nil},
	{"`in_order=False`", "the same", nil},
	{"torchdata's StatefulDataLoader", "each wait, iterations", nil},
	{"several loaders in one loop", "a wait for each; the batch that comes last begins the iteration", nil},
	{"no DataLoader, and the loss estimated on the side", "iterations from step to step; the estimate is evaluation", nil},
	{"evaluation in the middle of an epoch", "evaluation, each wait", nil},
	{"DDP", "the buffers that are sent around, what of the all-reduce outlasts the last gradient", every("TestTorchStranger")},
	{"DDP and a model beside it", "the same", map[string]string{"1.13": "TestTorchParallel", "2.6": "TestTorchParallel: **the other model's backward has a wait too**", "new": "TestTorchParallel: **as 2.6**"}},
	{"DDP with `static_graph`", "the wait", nil},
	{"DDP with a hook of the program's own", "its collectives, inside of backward", nil},
	{"DDP with `no_sync`", "the wait where gradients are reduced", nil},
	{"gradients reduced by hand", "the collective, and who is late at it", nil},
	{"collectives, groups, checkpoints, spawned workers", "each, with its bytes and group", every("TestTorchRanks")},
	{"FSDP1", "its gathers and scatters, on a CPU", nil},
	{"FSDP2", "each phase, its gathers and scatters, on a CPU", map[string]string{"new": "TestTorchStranger"}},
	{"DTensor, tensor parallel of two", "forward, backward, step", nil},
	{"`torch.distributed.pipelining`", "each piece, what is sent; the first step tries its stages, as part of the iteration", nil},
	{"functional collectives", "each, with its group", nil},
	{"a mesh of two by two", "collectives along each side", nil},
	{"collectives of objects", "each", nil},
	{"`torch.compile`, a model", "each phase, the same graphs", nil},
	{"`torch.compile`, a function around a model", "backward, step; the model is part of the iteration", nil},
	{"`module.compile()`", "as `torch.compile`", nil},
	{"a compiled optimizer", "each phase, the same graphs", nil},
	{"compiled autograd", "each phase, the same graphs", nil},
	{"recompiles, by shapes that change", "each phase, the same graphs", nil},
	{"a graph break", "each phase, the same graphs", nil},
	{"Trainer of transformers 5", "each phase, evaluation; all files of a checkpoint", map[string]string{"2.6": "TestTorchFilesOfCheckpoint", "new": "TestTorchFilesOfCheckpoint"}},
	{"`save_pretrained` of transformers", "the training", nil},
	{"Accelerate, DDP", "each phase, what `torch.save` writes", nil},
	{"Accelerate, accumulation", "each batch is an iteration", nil},
	{"Accelerate, `dispatch_batches`", "each phase", nil},
	{"Accelerate, FSDP", "", map[string]string{"2.6": "cannot run: on a CPU Accelerate takes DDP in its place", "new": "cannot run: as 2.6"}},
	{"ignite", "each phase, evaluation, checkpoints", nil},
	{"Lightning, automatic", "forward and backward inside of the step, evaluation", nil},
	{"Lightning, manual", "each phase, evaluation", nil},
	{"DeepSpeed, ZeRO 1", "each phase", nil},
	{"DeepSpeed, ZeRO 2", "each phase", nil},
	{"DeepSpeed, ZeRO 3", "each phase", nil},
	{"megatron-core, no pipeline", "each phase", nil},
	{"megatron-core, pipeline of two", "each phase", nil},
	{"torchtitan 0.3, torchft 0.2", "", map[string]string{"2.6": "not tried", "new": "cannot run: torchtitan needs packages that Debian lacks; torchft has no wheel for Python 3.14"}},
	{"`torch.save` to a path", "path, bytes; `torch.load`", nil},
	{"`torch.save` to a stream", "path, bytes", nil},
	{"`torch.save` to a buffer that is written by hand", "the training", nil},
	{"`torch.save` in a thread of the program's own", "as `capture.finalize`", nil},
	{"safetensors", "the training", nil},
	{"`torch.distributed.checkpoint` with `checkpoint_id`", "path, its collectives", nil},
	{"the same with `storage_writer` only", "its collectives", nil},
	{"`async_save` by a thread", "what the training waits for, and what the thread writes", nil},
	{"`async_save` by a process", "what the training waits for; the process that writes, as one of the same rank", map[string]string{"new": "by hand, 2.14.1, 2026-11-23"}},
	{"torchrun", "each rank", map[string]string{"1.13": "cannot run (Python 3.11)", "2.6": "examples/pytorch TestFailedRank", "new": "examples/pytorch TestFailedRank"}},
	{"`mp.spawn`", "each rank", nil},
	{"a loop of the shell", "each rank", nil},
	{"mpirun", "each rank", nil},
	{"`python -c`", "as a script", nil},
	{"`python -m`", "as a script", nil},
	{"fork, before torch is loaded", "the child that trains", nil},
	{"fork, after torch was loaded", "the child that trains", nil},
	{"a device's times", "by CUDA events", every("stand-ins of CUDA events: TestTorchStandIns")},
	{"what a program may look at: names, pickles, graphs, errors", "nothing is changed", every("TestTorchHarmless")},
}

// way is a row.
type way struct {
	name, seen string
	cells      map[string]string // by version
}

// every is a cell for all versions.
func every(text string) map[string]string {
	return map[string]string{"1.13": text, "2.6": text, "new": text}
}

// TestTorchJobsInDocs: the table of docs/guide/python.md is what the jobs are.
func TestTorchJobsInDocs(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "guide", "python.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const head, rule = "| way of running | what is seen | 1.13 | 2.6 | newest |\n", "| --- | --- | --- | --- | --- |\n"
	before, rest, found := strings.Cut(string(text), head+rule)
	_, after, ended := strings.Cut(rest, "\n\n")
	if !found || !ended {
		t.Fatalf("%s has no table with the head %s", path, head)
	}
	var table strings.Builder
	known := make(map[string]bool)
	for _, w := range ways {
		if known[w.name] {
			t.Errorf("two rows %q", w.name)
		}
		known[w.name] = true
		table.WriteString(row(w.name, w.seen, w.cells))
	}
	for _, j := range jobs {
		if !known[j.way] {
			t.Errorf("%s: no row %q", j.run, j.way)
		}
	}
	want := before + head + rule + strings.TrimSuffix(table.String(), "\n") + "\n\n" + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("the table of %s is not what the jobs are: go test ./integrations/python -run TorchJobsInDocs -update", path)
	}
}

// row is a way of running: what its jobs show.
func row(way, seen string, fixed map[string]string) string {
	cells := make(map[string][]string)
	var wrong []string
	for i := range jobs {
		j := &jobs[i]
		if j.way != way {
			continue
		}
		for at, version := range versions {
			if at >= slices.Index(versions, cmp.Or(j.since, versions[0])) && at <= slices.Index(versions, cmp.Or(j.until, versions[len(versions)-1])) {
				cells[version] = append(cells[version], "`"+j.label()+"`")
			}
		}
		for _, key := range slices.Sorted(maps.Keys(j.fails)) {
			where := map[string]string{"all": "", "2": " (2.x)", "new": " (newest)"}
			in, ok := where[key]
			if !ok {
				in = " (" + key + ")"
			}
			if text := j.fails[key].what + in; !slices.Contains(wrong, text) {
				wrong = append(wrong, text)
			}
		}
	}
	if len(wrong) > 0 {
		seen = strings.TrimPrefix(seen+". **Not rightly:** ", ". ") + strings.Join(wrong, "; ")
	}
	out := "| " + way + " | " + seen
	for _, version := range versions {
		cell := strings.Join(cells[version], ", ")
		out += " | " + cmp.Or(strings.Trim(cell+", "+fixed[version], ", "), "not tried")
	}
	return fmt.Sprintf("%s |\n", out)
}
