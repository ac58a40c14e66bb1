// Package iofs records what a program reads and writes, beside what it computes:
// DFTracer's POSIX events in the trace file of a provider. Go programs cannot be
// intercepted, but what they read through can be wrapped:
//
//	files := iofs.New(tel)
//
//	fsys := files.FS(os.DirFS(dir), dir)       // fs.FS
//	f, err := files.Open("/data/shard-0.bin")  // in place of os.Open
//	at := files.ReaderAt(object, "s3://b/key") // object stores
//	h := http.FileServer(files.HTTP(http.Dir(dir), dir))
//
// Only files below the folders of the configuration's outputs.trace.data_dirs are
// recorded, all when it names none; outputs.trace.io, posix and stdio switch
// recording off, and aggregate_io asks for one record a second and file. What is
// not recorded is not wrapped: the functions then return what they were given, but
// for a *File, which costs a comparison a call.
//
// An event has the name of the function of the C library, the file (fhash), what
// it returned (ret), and where they mean something the bytes asked for (size), the
// place (offset) and its whence. An error is ret -1, the end of a file ret 0. A
// *bufio.Reader or *bufio.Writer is recorded as STDIO, since it is to Go what
// C's streams are to C: wrap what lies below it instead to see the calls
// that reach the system.
//
// A call lies below the span of the context that [Files.With] was given and, without
// one, below the latest open span of a callback. Give goroutines that read ahead
// their own:
//
//	reader := iofs.New(tel).With(ctx)
//	f, err := reader.Open(path)
//
// A wrapper has the optional interfaces of what it wraps and no others, so that
// io.Copy and package fs take the same way as without it. Those that move data from
// file to file without the program, io.WriterTo and io.ReaderFrom, are recorded
// as one sendfile or copy_file_range, whose time includes the other side. What
// cannot be kept is the type: a function that asks for an *os.File, as package
// net does for sendfile, must be given [File.File].
//
// Everything is safe for concurrent use as far as the wrapped is. A nil *Files
// records nothing.
package iofs
