// Package callbacks records a training run from the callbacks of a training
// framework: one call at the start of an operation, one at its end.
package callbacks
