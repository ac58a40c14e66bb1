package python_test

import "slices"

// jobs is the table: the programs and the expected records.
var jobs = slices.Concat(loopJobs, loaderJobs, rankJobs, compiledJobs, frameworkJobs, saveJobs, launchJobs)

// Orders that several programs have.
const (
	twoEpochs       = "2(start 4(next [zero forward backward step]) next)"
	fourUpdates     = "zero [forward backward step] 3([zero forward backward step])"
	fourOfDDP       = "rendezvous bcast zero [forward backward wait step] 3([zero forward backward wait step]) barrier"
	fourOfDDPNewest = "rendezvous all_gather 2(bcast) zero [forward backward all_reduce wait step] [zero forward 2(bcast) backward all_reduce wait step] 2([zero forward backward all_reduce wait step]) barrier"
	sixUpdates      = "zero [forward backward step] 5([zero forward backward step])"
	sixCompiled     = "zero [forward compile backward step] 5([zero forward backward step])"
	// Newer versions record that backward is compiled when it is first needed.
	sixCompiledLate = "zero [forward compile backward compile step] 5([zero forward backward step])"
)

// always returns a fault of all versions.
func always(what, order string) map[string]fault {
	return map[string]fault{"all": {what: what, order: order}}
}

// loopJobs have no DataLoader: an iteration lasts from one step of the first
// optimizer to the next.
var loopJobs = []jobProgram{
	{
		run: "loops.py plain", way: "a plain loop", quick: true, light: true, slow: "backward:0",
		order: "6([forward zero backward step])",
	},
	{
		run: "loops.py accumulate", way: "gradient accumulation", slow: "forward:0",
		order: "[3(forward backward) step] 5([zero 3(forward backward) step]) zero",
	},
	{
		run: "loops.py closure", way: "an optimizer with a closure", quick: true,
		order: "6([step 2(zero forward backward)])",
	},
	{
		run: "loops.py gan", way: "two optimizers (GAN)",
		order: "6([forward zero 2(forward) backward step zero forward backward step])",
	},
	{
		run: "loops.py grad_only", way: "`autograd.grad`",
		order: "6([forward backward])",
	},
	{
		run: "loops.py penalty", way: "`autograd.grad`", quick: true,
		order: "6([forward backward zero backward step])",
	},
	{
		run: "loops.py reentrant", way: "activation checkpointing", quick: true, slow: "step:0",
		order: "6([forward zero backward step])",
	},
	{
		run: "loops.py non_reentrant", way: "activation checkpointing",
		order: "6([forward zero backward step])",
	},
	{
		run: "loops.py amp", way: "mixed precision with a skipped step", quick: true, since: "2.6",
		order: "2([forward zero backward step]) [forward zero backward] 3([forward zero backward step])",
	},
	{
		run: "loops.py own_optimizer", way: "an optimizer that is no `torch.optim.Optimizer`",
		order: "6([forward backward])",
	},
	{
		run: "loops.py functional", way: "`torch.func`",
		order: "6([forward backward])",
	},
}

// loaderJobs have two epochs of four batches, if they have epochs.
var loaderJobs = []jobProgram{
	{
		run: "loaders.py plain", way: "a data set, in the process", slow: "data:0",
		order: twoEpochs,
	},
	{
		run: "loaders.py whole", way: "a data set, in the process",
		order: twoEpochs,
	},
	{
		run: "loaders.py iterable", way: "an iterable, in the process",
		order: twoEpochs,
	},
	{
		run: "loaders.py iterable_workers", way: "an iterable, with workers", quick: true, fetch: 12,
		order: twoEpochs,
	},
	{
		run: "loaders.py fork", way: "workers by fork", fetch: 8,
		order: twoEpochs,
	},
	{
		run: "loaders.py spawn", way: "workers by spawn", fetch: 8,
		order: twoEpochs,
	},
	{
		run: "loaders.py forkserver", way: "workers by forkserver", quick: true, fetch: 8,
		order: twoEpochs,
	},
	{
		run: "loaders.py default", way: "workers by the default", fetch: 8,
		order: twoEpochs,
	},
	{
		run: "loaders.py persistent", way: "`persistent_workers`", fetch: 8,
		order: twoEpochs,
	},
	{
		run: "loaders.py any_order", way: "`in_order=False`", since: "2.6", fetch: 8,
		order: twoEpochs,
	},
	{
		run: "loaders.py stateful", way: "torchdata's StatefulDataLoader", quick: true, since: "2.6", opt: "torchdata",
		order: "start 2(next [zero forward backward step]) start 2(next [zero forward backward step]) next",
	},
	{
		run: "loaders.py several", way: "several loaders in one loop",
		order: "2(start) 4(2(next) [zero forward backward step]) next",
	},
	{
		run: "loaders.py generator", way: "no DataLoader, and the loss estimated on the side", quick: true,
		order: "2(2({forward}) [forward backward step] 2([zero forward backward step]) zero)",
	},
	{
		run: "loaders.py in_the_middle", way: "evaluation in the middle of an epoch",
		order: "start 2(next [zero forward backward step]) next start 2(next {forward}) next 2([zero forward backward step] next)",
	},
}

// saveJobs write a checkpoint after each of three updates.
var saveJobs = []jobProgram{
	{
		run: "saves.py path", way: "`torch.save` to a path", quick: true, light: true, slow: "capture:0",
		order: "zero [forward backward step] 2([capture zero forward backward step]) capture restart",
	},
	{
		run: "saves.py atomic", way: "`torch.save` to a path",
		order: "zero [forward backward step] 2([capture zero forward backward step]) capture",
	},
	{
		run: "saves.py stream", way: "`torch.save` to a stream",
		order: "zero [forward backward step] 2([capture zero forward backward step]) capture",
	},
	{
		run: "saves.py buffer", way: "`torch.save` to a buffer that is written by hand",
		order: "zero [forward backward step] 2([capture zero forward backward step]) capture",
		fails: always("it is not known to be a checkpoint", "zero [forward backward step] 2([zero forward backward step])"),
	},
	{
		run: "saves.py pool", way: "`torch.save` in a thread of the program's own",
		order: `zero [forward backward step] 2([zero forward backward step])
beside: 3(capture.finalize)`,
	},
	{
		run: "saves.py safe", way: "safetensors", quick: true, since: "2.6",
		order: "zero [forward backward step] 2([capture zero forward backward step]) capture restart",
	},
	{
		run: "saves.py dcp_id", way: "`torch.distributed.checkpoint` with `checkpoint_id`", quick: true, since: "2.6", until: "2.6", ranks: 2,
		order: "rendezvous zero [forward backward step] 2([capture gather scatter gather bcast zero forward backward step]) capture gather scatter gather bcast restart all_gather gather scatter all_gather barrier",
	},
	{
		name: "saves.py dcp_id, newest", run: "saves.py dcp_id", way: "`torch.distributed.checkpoint` with `checkpoint_id`", since: "new", ranks: 2,
		order: "rendezvous zero [forward backward step] 2([capture gather scatter gather bcast zero forward backward step]) capture gather scatter gather bcast restart gather scatter all_gather barrier",
	},
	{
		run: "saves.py dcp_writer", way: "the same with `storage_writer` only", since: "2.6", until: "2.6", ranks: 2,
		order: "rendezvous zero [forward backward step] 2([capture gather scatter gather bcast zero forward backward step]) capture gather scatter gather bcast restart all_gather gather scatter all_gather barrier",
	},
	{
		name: "saves.py dcp_writer, newest", run: "saves.py dcp_writer", way: "the same with `storage_writer` only", since: "new", ranks: 2,
		order: "rendezvous zero [forward backward step] 2([capture gather scatter gather bcast zero forward backward step]) capture gather scatter gather bcast restart gather scatter all_gather barrier",
	},
	{
		run: "saves.py dcp_async", way: "`async_save` by a thread", since: "2.6", ranks: 2,
		order: `rendezvous zero [forward backward step] 2([capture.async zero forward backward step]) capture.async barrier
beside: 3(bcast) 3(capture.finalize) 6(gather) 3(scatter)`,
	},
}

// launchJobs make four updates, with ranks from their launcher.
var launchJobs = []jobProgram{
	{
		run: "launch.py spawn", way: "`mp.spawn`", ranks: 2,
		order: fourOfDDP, newest: fourOfDDPNewest,
	},
	{
		name: "a loop of the shell", run: "sh launch.sh PYTHON launch.py", way: "a loop of the shell", quick: true, ranks: 2,
		order: fourOfDDP, newest: fourOfDDPNewest,
	},
	{
		name: "mpirun", run: "mpirun --allow-run-as-root --oversubscribe -n 2 PYTHON launch.py", way: "mpirun", since: "2.6", ranks: 2,
		order: fourOfDDP, newest: fourOfDDPNewest,
	},
	{
		name: "python -c", run: "-c exec(open('launch.py').read())", way: "`python -c`",
		order: fourUpdates,
	},
	{
		name: "python -m", run: "-m launch", way: "`python -m`",
		order: fourUpdates,
	},
	{
		run: "launch.py before", way: "fork, before torch is loaded", exit: 3,
		order: fourUpdates,
	},
	{
		run: "launch.py after", way: "fork, after torch was loaded", quick: true, exit: 3,
		order: fourUpdates,
	},
}
