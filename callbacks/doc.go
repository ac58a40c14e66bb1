// Package callbacks reports a training run by the callbacks of a training
// framework: one call at the start of something, one at its end.
package callbacks
