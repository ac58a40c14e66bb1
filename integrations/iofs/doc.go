// Package iofs records the files that a program reads and writes, as DFTracer's
// POSIX events in the trace file of a provider. Calls of Go programs cannot be
// intercepted, so iofs wraps files and file systems:
//
//	files := iofs.New(tel)
//
//	fsys := files.FS(os.DirFS(dir), dir)       // fs.FS
//	f, err := files.Open("/data/shard-0.bin")  // in place of os.Open
//	at := files.ReaderAt(object, "s3://b/key") // object stores
//	h := http.FileServer(files.HTTP(http.Dir(dir), dir))
//
// iofs records only files below the folders in the configuration's
// outputs.trace.data_dirs, or all files if the list is empty. outputs.trace.io,
// posix and stdio switch recording off, and aggregate_io records one total per
// second and file. iofs does not wrap files that it does not record: the
// functions then return their argument, except for a [*File], whose calls then
// cost one more comparison.
//
// An event has the name of the function of the C library, the file (fhash), the
// result (ret), and, if the call has them, the requested bytes (size), the
// position (offset) and its whence. An error is ret -1, the end of a file ret
// 0. A *bufio.Reader or *bufio.Writer is recorded as STDIO, because it is the
// counterpart of C's streams: wrap the file below it instead to see the system
// calls.
//
// A call nests below the span of the context given to [Files.With] and, without
// one, below the latest open span of a callback. Goroutines that read ahead
// need their own context:
//
//	reader := iofs.New(tel).With(ctx)
//	f, err := reader.Open(path)
//
// A wrapper has exactly the optional interfaces of the wrapped value, so
// io.Copy and package fs behave the same. Calls of io.WriterTo and
// io.ReaderFrom, which move data from file to file without the program, are
// recorded as one sendfile or copy_file_range, whose time includes the other
// side. Only the type differs: a function that needs an *os.File, such as
// package net for sendfile, must get [File.File].
//
// Wrappers are as safe for concurrent use as the wrapped values. A nil *Files
// records nothing.
package iofs
