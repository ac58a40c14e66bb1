// Package ring reads the spans that a Python process writes to shared memory
// with the client in integrations/python/trainspan. docs/ring.md describes the
// format.
//
// A [Ring] trusts nothing that it reads: not an offset, a length, an id or a
// time. It keeps up with a writer that is alive, and reads what a process that
// was killed left behind:
//
//	r, err := ring.Open(path, ring.Options{Drain: true})
//	...
//	for {
//		n, err := r.Read(func(rec *ring.Record) { ... })
//		...
//	}
//
// What was lost is counted exactly: slots that the writer overwrote before they
// were read, and slots that a thread took and never wrote.
package ring
