// Package torchtrace reads the structured logs that torch.compile writes when
// TORCH_TRACE names a directory (dedicated_log_torch_trace_*.log).
//
// Read goes through a log once, one record at a time, hands every compile
// phase with its real wall-clock time to a callback, and returns the operator
// lists of the logged graphs, the cache keys and the table of fused kernels.
// Broken records are skipped and reported by byte offset.
//
// The logs hold no run time of operators. The estimates in them
// (estimated_runtime_ns) are a model's guess and are not read.
package torchtrace
