// Package servers builds and runs the real servers that the tests deliver to.
//
// A server listens on 127.0.0.1 only, on free ports, and belongs to the process
// that started it: it is stopped by its own process id.
package servers
