// Package torchrules defines the rules that classify annotations, operators and
// kernels in an import of PyTorch profiles, and the text form in which users
// write them.
package torchrules

// Rule maps rows of a profile to events of an AI category. The first rule whose
// pattern matches the name of a row decides.
type Rule struct {
	// Pattern is a regular expression for the row's name.
	Pattern string
	// Ops also applies the rule to operators, not only to user annotations.
	Ops bool
	// Cat and Name are the category and the name of the event. An empty Name keeps
	// the row as a profiler event only, and ends the search.
	Cat, Name string
	// Arg is the name of an argument for the first group of Pattern.
	Arg string
	// Outermost writes the event only if no enclosing row has the same one.
	Outermost bool
}

// Annotations returns a new copy of the built-in table. It has the names that
// PyTorch, its data loader, DistributedDataParallel, FSDP, Lightning and
// torchrec use for their annotations. PyTorch does not annotate checkpoints, so
// the checkpoint patterns match names that users choose, but not activation
// checkpointing.
func Annotations() []Rule {
	return []Rule{
		{Pattern: `(?i)activation.?checkpoint|CheckpointFunction|utils/checkpoint`, Ops: true},
		{Pattern: `^Optimizer\.step#(?P<optimizer>.+)\.step$`, Ops: true, Cat: "compute", Name: "step", Arg: "optimizer", Outermost: true},
		{Pattern: `^## optimizer ##$|^\[pl\].*optimizer_step$`, Cat: "compute", Name: "step", Outermost: true},
		{Pattern: `^enumerate\(DataLoader\)#(?P<loader>.+)\.__next__$`, Ops: true, Cat: "dataloader", Name: "fetch.iter", Arg: "loader", Outermost: true},
		{Pattern: `^## (load_batch|wait_for_batch) ##$|^\[pl\].*dataloader_next$`, Cat: "dataloader", Name: "fetch.iter", Outermost: true},
		{Pattern: `(?i)(save|write).*checkpoint|checkpoint.*(save|write)|^\[pl\].*ModelCheckpoint`, Cat: "checkpoint", Name: "capture", Outermost: true},
		{Pattern: `(?i)(load|restore|resume).*checkpoint|checkpoint.*(load|restore|resume)`, Cat: "checkpoint", Name: "restart", Outermost: true},
		{Pattern: `^\[pl\].*validation_step$|(?i)^(##\s*)?(eval|valid)`, Cat: "pipeline", Name: "evaluate", Outermost: true},
		{Pattern: `^\[pl\].*test_step$|(?i)^(##\s*)?test\b`, Cat: "pipeline", Name: "test", Outermost: true},
		{Pattern: `^DistributedDataParallel\.forward$|^FullyShardedDataParallel\.forward$`, Ops: true, Cat: "compute", Name: "forward", Outermost: true},
		{Pattern: `^(##\s*)?(model_)?forward\b|^\[pl\].*training_step$`, Cat: "compute", Name: "forward", Outermost: true},
		{Pattern: `(?i)^(?:##\s*)?epoch[\s_#:-]*(?P<epoch>\d+)\b`, Cat: "pipeline", Name: "epoch.block", Arg: "epoch", Outermost: true},
		{Pattern: `^(##\s*)?backward\b|^\[pl\].*backward$`, Cat: "compute", Name: "backward", Outermost: true},
	}
}

// Classes are the kinds of work of a kernel.
var Classes = [...]string{"compute", "comm", "copy"}

// DeviceRule maps a kernel's name to a class. The first rule whose pattern
// matches decides; a kernel without a rule computes.
type DeviceRule struct {
	// Pattern is a regular expression for the kernel's name.
	Pattern string
	// Class is "compute", "comm" or "copy". Copies between host and device, inside
	// and between devices, and memsets are copies; moving data for a collective is
	// comm.
	Class string
	// Op is the collective of a rule of class comm, such as all_reduce. If it is
	// empty, the trace or the kernel's name decides.
	Op string
}

// Kernels returns a new copy of the built-in table: NCCL and RCCL, symmetric
// memory and NVLS, DeepEP, NVSHMEM, MSCCL, oneCCL, HCCL, the all-reduces of
// vLLM, SGLang, TensorRT-LLM, FlashInfer, AITER and TransformerEngine, and
// kernels named after a collective.
func Kernels() []DeviceRule {
	comm := func(op, pattern string) DeviceRule {
		return DeviceRule{Class: "comm", Op: op, Pattern: pattern}
	}
	return []DeviceRule{
		// Inductor names what it fuses, also after an earlier collective.
		{Class: "compute", Pattern: `^triton_`},
		comm("", `^ncclx?(Symk?)?(Dev)?Kernel|^nccl\w*Kernel`),
		comm("", `^(void )?mscclpp::|^(void )?mscclKernel|^(void )?msccl`),
		comm("barrier", `\bdeep_ep::\w*(::\w+)*::barrier\b`),
		{Class: "compute", Pattern: `\bdeep_ep::(layout::)?get_dispatch_layout`},
		comm("all_to_all", `\bdeep_ep::`),
		comm("barrier", `\b(barrier|put_signal|wait_signal|get_signal)_kernel\b|stream_write_value32|nvshmem\w*(barrier|sync)`),
		comm("", `\bmultimem_|_multimem_|_nvls_?`),
		comm("", `\bnvshmem|\broc_?shmem|\brocshmem`),
		comm("all_reduce", `\bcross_device_reduce|\bquickreduce::|allreduce_prototype`),
		comm("", `\b[kK]?userbuffers_`),
		{Class: "compute", Pattern: `(?i)gemm|matmul`},
		comm("all_reduce", `(?i)all_?reduce`),
		comm("all_gather", `(?i)all_?gather`),
		comm("reduce_scatter", `(?i)reduce_?scatter`),
		comm("all_to_all", `(?i)all_?to_?all|alltoall|moe_?a2a`),
		comm("", `(?i)\bone_?ccl|\bccl(_|::)|\boneapi::ccl`),
		comm("", `^hcom_|^hccl|\bxccl`),
		{Class: "copy", Pattern: `(?i)^mem(cpy|set)\b`},
	}
}
