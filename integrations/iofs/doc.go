// Package iofs records the files that a program reads and writes, as DFTracer's POSIX
// events in the trace file of a provider. Calls of Go programs cannot be intercepted,
// but files and file systems can be wrapped:
//
//	files := iofs.New(tel)
//
//	fsys := files.FS(os.DirFS(dir), dir)       // fs.FS
//	f, err := files.Open("/data/shard-0.bin")  // in place of os.Open
//	at := files.ReaderAt(object, "s3://b/key") // object stores
//	h := http.FileServer(files.HTTP(http.Dir(dir), dir))
//
// Only files below the folders of the configuration's outputs.trace.data_dirs are
// recorded, all files if it names no folder. outputs.trace.io, posix and stdio switch
// recording off, and aggregate_io asks for one record a second and file. Files that are
// not recorded are not wrapped: the functions then return their argument, except for a
// [*File], whose calls then cost one comparison more.
//
// An event has the name of the function of the C library, the file (fhash), the result
// (ret), and, if the call has them, the bytes asked for (size), the place (offset) and
// its whence. An error is ret -1, the end of a file ret 0. A *bufio.Reader or
// *bufio.Writer is recorded as STDIO, since it is to Go what streams are to C: wrap the
// file below it instead to see the calls that reach the system.
//
// A call nests below the span of the context that [Files.With] was given and, without
// one, below the latest open span of a callback. Give goroutines that read ahead their
// own:
//
//	reader := iofs.New(tel).With(ctx)
//	f, err := reader.Open(path)
//
// A wrapper has exactly the optional interfaces of what it wraps, so that io.Copy and
// package fs behave the same. Calls of io.WriterTo and io.ReaderFrom, which move data
// from file to file without the program, are recorded as one sendfile or
// copy_file_range, whose time includes the other side. Only the type differs: a function
// that asks for an *os.File, as package net does for sendfile, must be given
// [File.File].
//
// Wrappers are as safe for concurrent use as what they wrap. A nil *Files records
// nothing.
package iofs
