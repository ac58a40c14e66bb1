package dispatch

import "context"

// FileOp is a call on a file, by the name that DFTracer gives it.
type FileOp uint8

// The calls. Those with a Std before their name are of streams with a buffer of
// their own, the C library's or package bufio's; the others go to the system.
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
	FileSend // to another file or socket, without passing through the program: bytes read
	FileCopy // from another file, the same way: bytes written
	FileStdRead
	FileStdWrite
	FileStdSeek
	FileStdClose
	FileOps // how many there are
)

var fileOps = [FileOps]string{
	"open64", "close", "read", "pread", "write", "pwrite", "lseek64", "stat", "getdents64", "fsync", "ftruncate", "sendfile", "copy_file_range",
	"fread", "fwrite", "fseek", "fclose",
}

// String is the name of the function of the C library that the call stands for.
func (op FileOp) String() string {
	if op < FileOps {
		return fileOps[op]
	}
	return "unknown"
}

// Std reports whether the call is one of a stream with a buffer of its own.
func (op FileOp) Std() bool { return op >= FileStdRead && op < FileOps }

// Category is the DFTracer category of the call: POSIX or STDIO.
func (op FileOp) Category() string {
	if op.Std() {
		return "STDIO"
	}
	return "POSIX"
}

// Transfers reports whether the call moves the content of the file, so that what it
// returns is a number of bytes.
func (op FileOp) Transfers() bool {
	switch op {
	case FileRead, FilePread, FileWrite, FilePwrite, FileSend, FileCopy, FileStdRead, FileStdWrite:
		return true
	}
	return false
}

// FileCall is one call on a file that has returned.
type FileCall struct {
	Op    FileOp
	Start int64 // when it began, by FileLog.Now

	// Ret is what the call of the C library would return: the bytes that were
	// moved, the new place of a seek, 0; and -1 for an error. The end of a file
	// is no error but 0 bytes.
	Ret int64
	// Size is how many bytes were asked for, -1 where that means nothing.
	Size int64
	// Offset is the place in the file that was asked for, -1 where the call
	// names none.
	Offset int64
	// Whence is that of a seek.
	Whence int
}

// FileLog records calls on files. Its methods are called concurrently.
type FileLog interface {
	// Now is the time of the clock that calls are recorded with, in
	// nanoseconds since the Unix epoch.
	Now() int64
	// File prepares calls on the file at path, which is absolute and clean or
	// begins with a scheme such as s3://. Nil means that its calls are not
	// recorded. The result may be kept, for any number of openings of the file.
	File(path string) File
}

// File records calls on one file. Its methods are called concurrently.
type File interface {
	// Record records a call that ends now, below ctx; nil stands for a context
	// that carries nothing. It neither fails nor keeps ctx.
	Record(ctx context.Context, call FileCall)
}
