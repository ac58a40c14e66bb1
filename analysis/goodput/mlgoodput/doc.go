// Package mlgoodput computes what Google's package ml-goodput-measurement
// 0.2.3 says of a job, for people who come from it: the same records in, the
// same figures out, its faults included. [Faults] names those beside the
// figures. Package goodput has the ledger to trust.
package mlgoodput
