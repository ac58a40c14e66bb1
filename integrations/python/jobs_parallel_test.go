package python_test

// rankJobs make four updates on two ranks.
var rankJobs = []jobProgram{
	{
		run: "ranks.py plain", way: "DDP", quick: true, light: true, ranks: 2, slow: "forward:1", waits: "bcast forward backward wait",
		order:  "rendezvous bcast zero [forward bcast backward wait step] 3([zero forward bcast backward wait step]) barrier",
		newest: "rendezvous all_gather 2(bcast) zero [forward bcast backward all_reduce wait step] [zero forward 3(bcast) backward all_reduce wait step] 2([zero forward bcast backward all_reduce wait step]) barrier",
	},
	{
		run: "ranks.py buckets", way: "DDP", ranks: 2, slow: "backward:1", waits: "backward wait",
		order:  fourOfDDP,
		newest: "rendezvous all_gather 2(bcast) zero [forward backward all_reduce wait step] [zero forward 2(bcast) backward 2(all_reduce) wait step] 2([zero forward backward 2(all_reduce) wait step]) barrier",
	},
	{
		run: "ranks.py static_graph", way: "DDP with `static_graph`", ranks: 2,
		order:  fourOfDDP,
		newest: "rendezvous all_gather 2(bcast) zero [forward backward wait 2(all_reduce) step] [zero forward backward all_reduce wait step] [zero forward 2(bcast) backward all_reduce wait step] [zero forward backward all_reduce wait step] barrier",
	},
	{
		run: "ranks.py comm_hook", way: "DDP with a hook of the program's own", ranks: 2,
		order:  "rendezvous bcast zero [forward backward all_reduce wait step] 3([zero forward backward all_reduce wait step]) barrier",
		newest: fourOfDDPNewest,
	},
	{
		run: "ranks.py no_sync", way: "DDP with `no_sync`", quick: true, ranks: 2,
		order:  "rendezvous bcast [2(forward backward) wait step] 3([zero 2(forward backward) wait step]) zero barrier",
		newest: "rendezvous all_gather 2(bcast) [2(forward backward) all_reduce wait step] [zero forward 2(bcast) backward forward backward all_reduce wait step] 2([zero 2(forward backward) all_reduce wait step]) zero barrier",
	},
	{
		run: "ranks.py by_hand", way: "gradients reduced by hand", ranks: 2, slow: "late:1", waits: "all_reduce",
		order: "rendezvous zero [forward backward all_reduce step] 3([zero forward backward all_reduce step]) barrier",
	},
	{
		run: "ranks.py fsdp1", way: "FSDP1", quick: true, since: "2.6", until: "2.6", ranks: 2,
		order: "rendezvous zero [forward all_gather backward reduce_scatter step] 3([zero forward all_gather backward reduce_scatter step]) barrier",
	},
	{
		name: "ranks.py fsdp1, newest", run: "ranks.py fsdp1", way: "FSDP1", since: "new", ranks: 2,
		order: "rendezvous zero [forward all_gather backward reduce_scatter step] 3([zero forward all_gather backward reduce_scatter step]) barrier",
	},
	{
		run: "ranks.py fsdp2", way: "FSDP2", since: "new", ranks: 2,
		order: "rendezvous zero [forward 2(all_gather) backward 2(all_gather) 2(reduce_scatter) step] 3([zero forward 2(all_gather) backward 2(all_gather) 2(reduce_scatter) step]) barrier",
	},
	{
		run: "ranks.py tensor_parallel", way: "DTensor, tensor parallel of two", quick: true, since: "2.6", ranks: 2,
		order: "rendezvous 3(scatter) bcast zero [forward all_reduce wait backward step] 3([zero forward all_reduce wait backward step]) barrier",
	},
	{
		run: "ranks.py pipeline", way: "`torch.distributed.pipelining`", since: "2.6", ranks: 2,
		order: `0: rendezvous zero [send 4(forward send) 4(wait) 4(2(receive) backward) step] 3([zero 4(forward send) 4(wait) 4(2(receive) backward) step]) barrier
1: rendezvous zero [receive 4(2(receive) forward) 4(backward send) 4(wait) step] 3([zero 4(2(receive) forward) 4(backward send) 4(wait) step]) barrier`,
		newest: `0: rendezvous zero send receive [send receive 4(forward send) 4(wait) 4(2(receive) backward) step] 3([zero 4(forward send) 4(wait) 4(2(receive) backward) step]) barrier
1: rendezvous zero receive send [receive send 4(2(receive) forward) 4(backward send) 4(wait) step] 3([zero 4(2(receive) forward) 4(backward send) 4(wait) step]) barrier`,
	},
	{
		run: "ranks.py functional", way: "functional collectives", since: "2.6", ranks: 2,
		order: "rendezvous zero [forward backward 4(all_reduce wait) step] 3([zero forward backward 4(all_reduce wait) step]) barrier",
	},
	{
		run: "ranks.py mesh", way: "a mesh of two by two", since: "2.6", ranks: 4,
		order: "rendezvous 4(comm.init) zero [forward backward 5(all_reduce) step] 3([zero forward backward 5(all_reduce) step]) barrier",
	},
	{
		run: "ranks.py objects", way: "collectives of objects", ranks: 2,
		order: "rendezvous zero [forward backward step] 3([all_gather bcast zero forward backward step]) all_gather bcast barrier",
	},
}

// compiledJobs make six updates. Their output includes the numbers of graphs,
// breaks and frames.
var compiledJobs = []jobProgram{
	{
		run: "compiled.py whole", way: "`torch.compile`, a model", quick: true, since: "2.6",
		order:  sixCompiled,
		newest: sixCompiledLate,
	},
	{
		run: "compiled.py inductor", way: "`torch.compile`, a model", since: "2.6",
		order: sixCompiled,
	},
	{
		run: "compiled.py in_place", way: "`module.compile()`", quick: true, since: "2.6",
		order:  sixCompiled,
		newest: sixCompiledLate,
	},
	{
		run: "compiled.py parts", way: "`module.compile()`", since: "2.6",
		order:  sixCompiled,
		newest: sixCompiledLate,
	},
	{
		run: "compiled.py function", way: "`torch.compile`, a function around a model", since: "2.6",
		order:  "zero compile [backward step] 5([zero backward step])",
		newest: "zero compile [backward compile step] 5([zero backward step])",
	},
	{
		run: "compiled.py optimizer", way: "a compiled optimizer", quick: true, since: "2.6",
		order: "zero [forward backward step 3(compile)] 5([zero forward backward step])",
		fails: map[string]fault{
			"2.6": {
				what: "Dynamo counts six frames more, of the standard library, that the client calls at the end of the first iteration",
				also: "output",
			},
		},
	},
	{
		run: "compiled.py compiled_autograd", way: "compiled autograd", since: "2.6",
		order: "zero [forward 2(compile) backward compile step] 5([zero forward backward step])",
	},
	{
		run: "compiled.py shapes", way: "recompiles, by shapes that change", since: "2.6",
		order:  "zero [forward compile backward step] [zero forward compile backward step] 4([zero forward backward step])",
		newest: "zero [forward compile backward compile step] [zero forward compile backward step] 4([zero forward backward step])",
	},
	{
		run: "compiled_own.py own", way: "own spans in compiled code", quick: true, since: "2.6",
		order:  sixCompiled,
		newest: sixCompiledLate,
	},
	{
		run: "compiled.py breaks", way: "a graph break", since: "2.6",
		order:  "zero [forward 2(compile) backward step] 5([zero forward backward step])",
		newest: "zero [forward 2(compile) backward 2(compile) step] 5([zero forward backward step])",
	},
}

// frameworkJobs use the trainers of other libraries.
var frameworkJobs = []jobProgram{
	{
		run: "frameworks.py trainer", way: "Trainer of transformers 5", quick: true, since: "2.6", opt: "huggingface",
		order: "2(start 2(next) 3([forward backward step] next) [forward backward step] start 2(next) {forward} next {forward} 5(capture))",
	},
	{
		run: "frameworks.py trainer_accumulates", way: "Trainer of transformers 5", since: "2.6", opt: "huggingface",
		order: "2(start 3(next) [2(forward backward) step] 2(next) [2(forward backward) step] start 2(next) {forward} next {forward} 5(capture))",
	},
	{
		run: "frameworks.py ignite", way: "ignite", quick: true, since: "2.6", opt: "ignite",
		order: "start 4(next [zero forward backward step]) start 2(next {forward}) capture next start 4(next [zero forward backward step]) start 2(next {forward}) capture",
	},
	{
		run: "frameworks.py lightning", way: "Lightning, automatic", quick: true, since: "2.6", opt: "lightning",
		order: "2(start 4(next [step forward zero backward]) start 2(next {forward}) capture)",
	},
	{
		run: "frameworks.py lightning_manual", way: "Lightning, manual", since: "2.6", opt: "lightning",
		order: "2(start 4(next [forward zero backward step]) start 2(next {forward}) capture)",
	},
	{
		run: "frameworks.py lightning_accumulates", way: "Lightning, automatic", since: "2.6", opt: "lightning",
		order: "2(start 2(next [forward zero backward] next [step forward backward]) start 2(next {forward}) capture)",
	},
	{
		run: "frameworks.py safe", way: "`save_pretrained` of transformers", since: "2.6", opt: "huggingface",
		order: "start 2(next [zero forward backward step capture]) next",
	},
	{
		run: "sharded.py accelerate", way: "Accelerate, DDP", quick: true, since: "2.6", opt: "huggingface", ranks: 2,
		order: `0: rendezvous bcast start 2(next) 3([forward backward wait step zero] next) [forward backward wait step] zero 3(capture)
1: rendezvous bcast start 2(next) 3([forward backward wait step zero] next) [forward backward wait step] zero capture`,
		newest: `0: rendezvous all_gather 2(bcast) start 2(next) [forward backward all_reduce wait step zero] next [forward 2(bcast) backward all_reduce wait step zero] next [forward backward all_reduce wait step zero] next [forward backward all_reduce wait step] zero 3(capture)
1: rendezvous all_gather 2(bcast) start 2(next) [forward backward all_reduce wait step zero] next [forward 2(bcast) backward all_reduce wait step zero] next [forward backward all_reduce wait step zero] next [forward backward all_reduce wait step] zero capture`,
	},
	{
		run: "sharded.py accelerate_accumulates", way: "Accelerate, accumulation", since: "2.6", opt: "huggingface", ranks: 2,
		order:  "rendezvous bcast start 2(next) [forward backward] next [forward backward wait step zero] next [forward backward] next [forward backward wait step zero]",
		newest: "rendezvous all_gather 2(bcast) start 2(next) [forward backward] next [forward backward all_reduce wait step zero] next [forward 2(bcast) backward] next [forward backward all_reduce wait step zero]",
	},
	{
		run: "sharded.py accelerate_dispatches", way: "Accelerate, `dispatch_batches`", since: "2.6", opt: "huggingface", ranks: 2,
		order: `0: rendezvous bcast start 2(next) 3(bcast) 3(2(next) [bcast forward backward wait step zero 2(bcast)]) next 2(bcast) [forward backward wait step zero]
1: rendezvous bcast start 4(bcast) [forward backward wait step] 2([zero 3(bcast) forward backward wait step]) [zero 4(bcast) forward backward wait step] zero`,
		newest: `0: rendezvous all_gather 2(bcast) start 2(next) 3(bcast) 2(next) [bcast forward backward all_reduce wait step zero 2(bcast)] 2(next) [bcast forward 2(bcast) backward all_reduce wait step zero 2(bcast)] 2(next) [bcast forward backward all_reduce wait step zero 2(bcast)] next 2(bcast) [forward backward all_reduce wait step zero]
1: rendezvous all_gather 2(bcast) start 4(bcast) [forward backward all_reduce wait step] [zero 3(bcast) forward 2(bcast) backward all_reduce wait step] [zero 3(bcast) forward backward all_reduce wait step] [zero 4(bcast) forward backward all_reduce wait step] zero`,
	},
	{
		run: "sharded.py deepspeed", way: "DeepSpeed, ZeRO 1", quick: true, since: "2.6", opt: "deepspeed", ranks: 2, fetch: 8,
		order: `0: rendezvous comm.init 4(bcast) start 4(next [forward backward 2(all_reduce) step all_gather]) next barrier 2(all_reduce) 2(capture) barrier
1: rendezvous comm.init 4(bcast) start 4(next [forward backward 2(all_reduce) step all_gather]) next barrier 2(all_reduce) capture barrier`,
	},
	{
		run: "sharded.py deepspeed2", way: "DeepSpeed, ZeRO 2", since: "2.6", opt: "deepspeed", ranks: 2, fetch: 8,
		order: `0: rendezvous comm.init 4(bcast) start 4(next [forward backward 2(all_reduce) step all_gather]) next barrier 2(all_reduce) 2(capture) barrier
1: rendezvous comm.init 4(bcast) start 4(next [forward backward 2(all_reduce) step all_gather]) next barrier 2(all_reduce) capture barrier`,
	},
	{
		run: "sharded.py deepspeed3", way: "DeepSpeed, ZeRO 3", since: "2.6", opt: "deepspeed", ranks: 2, fetch: 8,
		order: "rendezvous comm.init 8(bcast) 3(barrier) 4(all_gather) start next [forward 2(bcast) 2(all_gather wait) backward 2(all_gather wait) reduce_scatter all_reduce step 4(all_gather) 4(wait)] next [forward 6(bcast) backward reduce_scatter all_reduce step 4(all_gather) 4(wait)] 2(next [forward backward reduce_scatter all_reduce step 4(all_gather) 4(wait)]) next barrier 2(all_reduce) 2(capture) 4(all_gather) 4(wait) barrier",
	},
	{
		run: "sharded.py megatron", way: "megatron-core, no pipeline", since: "2.6", opt: "megatron", ranks: 2,
		order: "rendezvous 31(comm.init) zero [4(forward backward) step] 3([zero 4(forward backward) step]) barrier",
	},
	{
		run: "sharded.py megatron_stages", way: "megatron-core, pipeline of two", since: "2.6", opt: "megatron", ranks: 2,
		order: `0: rendezvous 34(comm.init) zero [forward send wait 3(forward send receive 2(wait) backward) receive wait backward step] 3([zero forward send wait 3(forward send receive 2(wait) backward) receive wait backward step]) barrier
1: rendezvous 34(comm.init) zero receive wait [3(forward backward receive send 2(wait)) forward backward send wait step] 3([zero receive 3(wait forward backward receive send wait) wait forward backward send wait step]) barrier`,
	},
}
