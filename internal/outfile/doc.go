// Package outfile is how this module writes files: one rule for their names,
// and one way to write them that neither destroys what is there nor waits for
// a disk that has stopped.
//
// [Name.Resolve] fills in a path and [Open] creates the file: exclusively, under
// the next free name if the one asked for is taken. A [Sink] writes blocks of
// lines to it, in order, on a goroutine of its own.
package outfile
