// Package bench compares trainspan with the other ways a Go program can
// leave a trace behind. It is a module of its own, so that the rivals are no
// dependencies of the library.
//
//	cd test/bench && go run ./cmd/table
//
// prints the table of docs/benchmarks.md in some minutes, and with -cases every way to
// record a span. All ratios are from one run: the cases take turns, so that a busy machine slows them all.
package bench
