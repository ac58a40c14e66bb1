// Package torch reads the files of PyTorch's profiler and compiler and converts
// them to events of a DFTracer trace, and to OpenTelemetry spans on request. It
// runs no Python and needs no change to the training job.
//
//	sources, err := torch.Files("profiler-output/")
//	w, err := dftracer.Create("run", nil) // any Sink will do
//	report, err := torch.Import(ctx, w, sources, nil)
//	fmt.Print(report)
//
// # What comes out
//
// Every operator, annotation, runtime call, kernel, copy and memset becomes an
// event of category PP with the fields of DFTracer's profiler handler (device,
// cpu_memory, device_memory_usage, is_remote, input_size, total_cpu_percent,
// total_device_percent), on the wall clock. On top of these come the AI
// categories: pipeline (steps), dataloader, compute, comm with one event per
// collective, device transfers and checkpoint, after a table of rules that can
// be replaced; and category dynamo for torch.compile: regions, graph calls,
// operators as function.<op>, fused kernels as kernel.<name>, CUDA graph
// launches, and compile.<phase>. An event that is a guess has inferred:1 and
// the rule. What cannot be known is left out and listed in the Report.
//
// Device rows have the thread id 1DDDPSSSSS for device D and stream S (P is not
// 0 for annotations and for rows that overlap on one stream) and the process id
// of the program; in profiles the pid column has the number of the device.
// Inferred events have separate lanes from 700000000, compile logs from
// 800000000. A kernel belongs to the call that launched it by its correlation
// id, never by its External id, which counts something else in the files of
// torch 1.13 to 2.2.
//
// # Memory
//
// Percentages, self times and the tie between kernel and operator need the
// whole file, and a file can be larger than memory. So the file is read once,
// and the needed part of an event, about two hundred bytes, goes into a sorter
// that holds a bounded number of rows and puts the rest into a temporary file.
// The first sweep over the sorted rows rebuilds the call stacks, numbers the
// host rows and sums their time; a join by correlation gives every device row
// its launch; the second sweep writes the events. Only steps, lanes, distinct
// names, and the collectives of each rank stay in memory. The totals behind the
// percentages are appended as CM records (pytorch.total_self_cpu_us,
// pytorch.total_device_us). All files of an import share one temporary file.
//
// Several ranks are put on one time axis by evidence: files of one job and
// window, collectives paired inside their process group, and a robust fit of
// the difference and the drift of each clock. Clocks that differ by more than
// 50 microseconds are shifted so that collectives end together, and comm events
// have the wait of their rank and, if the clocks are accurate enough, which
// rank came last. If the evidence is weak nothing is shifted, and the
// RankReport has the reason.
package torch
