package dispatch

import "context"

// FileOp is a kind of file call that DFTracer names.
type FileOp uint8

// The file calls. Those with Std in their name operate on buffered streams, of the C
// library or package bufio; the others are system calls.
const (
	FileOpen FileOp = iota
	FileClose
	FileRead
	FilePread
	FileWrite
	FilePwrite
	FileSeek
	FileStat
	FileReadDir
	FileSync
	FileTruncate
	FileSend // to another file or socket, without passing through the program; counts bytes read
	FileCopy // from another file, without passing through the program; counts bytes written
	FileStdRead
	FileStdWrite
	FileStdSeek
	FileStdClose
	FileOps // number of kinds
)

var fileOps = [FileOps]string{
	"open64", "close", "read", "pread", "write", "pwrite", "lseek64", "stat", "getdents64", "fsync", "ftruncate", "sendfile", "copy_file_range",
	"fread", "fwrite", "fseek", "fclose",
}

// String returns the name of the corresponding C library function.
func (op FileOp) String() string {
	if op < FileOps {
		return fileOps[op]
	}
	return "unknown"
}

// Std reports whether the call operates on a buffered stream.
func (op FileOp) Std() bool { return op >= FileStdRead && op < FileOps }

// Category returns the DFTracer category of the call: POSIX or STDIO.
func (op FileOp) Category() string {
	if op.Std() {
		return "STDIO"
	}
	return "POSIX"
}

// Transfers reports whether the call transfers file content, so that its result is a
// number of bytes.
func (op FileOp) Transfers() bool {
	switch op {
	case FileRead, FilePread, FileWrite, FilePwrite, FileSend, FileCopy, FileStdRead, FileStdWrite:
		return true
	}
	return false
}

// FileCall is a file call that has returned.
type FileCall struct {
	Op    FileOp
	Start int64 // start time, from FileLog.Now

	// Ret is what the C library function would return: the number of bytes transferred,
	// the new position of a seek, or 0; and -1 for an error. The end of a file is not an
	// error but 0 bytes.
	Ret int64
	// Size is the requested number of bytes, or -1 if the call has no such argument.
	Size int64
	// Offset is the requested position in the file, or -1 if the call has no such
	// argument.
	Offset int64
	// Whence is the whence argument of a seek.
	Whence int
}

// FileLog records file calls. Its methods are called concurrently.
type FileLog interface {
	// Now returns the time of the clock for recorded calls, in nanoseconds since the
	// Unix epoch.
	Now() int64
	// File returns the recorder for the file at path, which is absolute and clean or
	// begins with a scheme such as s3://. Nil means that its calls are not recorded. The
	// caller may keep the result and use it for any number of openings of the file.
	File(path string) File
}

// File records calls on one file. Its methods are called concurrently.
type File interface {
	// Record records a call that ends now, as a child of the span in ctx; nil stands for
	// a context without a span. It does not fail and does not keep ctx.
	Record(ctx context.Context, call FileCall)
}
