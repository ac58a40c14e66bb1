package pfw

import (
	"context"
	"path/filepath"
	"strings"
	"sync"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// FileOptions selects the file calls to record. The zero value records all.
type FileOptions struct {
	// Off disables the recording of file calls.
	Off bool
	// Dirs are the directories whose files are recorded, and prefixes of names with a
	// scheme, such as s3://bucket. Empty means all files. Symbolic links are not
	// followed.
	Dirs []string
	// NoPOSIX and NoSTDIO omit the calls of that category.
	NoPOSIX, NoSTDIO bool
	// Aggregate writes one record per second for all calls of one kind on a file: their
	// number, and the sum, minimum and maximum of their bytes and times. These records
	// have no parent, and no individual start and end.
	Aggregate bool
}

// maxFiles bounds the files that are remembered, each with its hash.
const maxFiles = 1 << 16

// Arguments of file calls, with DFTracer's names.
const (
	argFile    = "fhash"
	textRet    = `,"ret":`
	textSize   = `,"size":`
	textOffset = `,"offset":`
	textWhence = `,"whence":`
)

// fileKeys are the encoded category and name of each call.
var fileKeys = func() (keys [dispatch.FileOps]dftracer.Key) {
	for op := range dispatch.FileOps {
		keys[op] = tracefile.WithType(dftracer.NewKey(op.Category(), op.String()), tracefile.TypeLibcIO)
	}
	return keys
}()

// fileLog records file calls in the trace.
type fileLog struct {
	d    *traceWriter
	opts FileOptions

	mu    sync.Mutex
	files map[string]*file

	flushing sync.Mutex // held during a flush
	busyMu   sync.Mutex
	busy     []*file // files with totals, also those that files no longer has
}

// newFileLog returns a fileLog, or nil if the options exclude all calls.
func newFileLog(d *traceWriter, o FileOptions) *fileLog {
	if o.Off || o.NoPOSIX && o.NoSTDIO {
		return nil
	}
	dirs := make([]string, 0, len(o.Dirs))
	for _, dir := range o.Dirs {
		dirs = append(dirs, cleanDir(dir))
	}
	o.Dirs = dirs
	return &fileLog{d: d, opts: o, files: make(map[string]*file)}
}

// cleanDir returns dir in the form that file paths have: absolute and clean, or with a
// scheme.
func cleanDir(dir string) string {
	if strings.Contains(dir, "://") {
		return strings.TrimRight(dir, "/")
	}
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return filepath.Clean(dir)
}

// Now implements dispatch.FileLog.
func (l *fileLog) Now() int64 { return l.d.clock.nanoseconds() }

// File implements dispatch.FileLog.
func (l *fileLog) File(path string) dispatch.File {
	if !l.includes(path) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.files[path]; f != nil {
		return f
	}
	if len(l.files) >= maxFiles {
		clear(l.files)
	}
	f := &file{log: l, hash: tracefile.HashArg(argFile, l.d.w.Hash(tracefile.NameFileHash, path))}
	f.head = tracefile.AppendArg(f.hash, []byte(`,"`+argFile+`":`), l.d.w.Dialect())
	l.files[path] = f
	return f
}

func (l *fileLog) includes(path string) bool {
	if len(l.opts.Dirs) == 0 {
		return true
	}
	for _, dir := range l.opts.Dirs {
		rest, ok := strings.CutPrefix(path, dir)
		if ok && (rest == "" || rest[0] == '/' || rest[0] == filepath.Separator || strings.HasSuffix(dir, string(filepath.Separator))) {
			return true
		}
	}
	return false
}

// file records the calls on one file.
type file struct {
	log  *fileLog
	hash dftracer.Arg
	head []byte // hash as encoded in a line

	mu     sync.Mutex
	totals *fileTotals // of the current second; nil until the first call
	busy   bool        // the file is in the list of the log
}

// fileTotals sums up the calls on a file that started in one second.
type fileTotals struct {
	second int64 // since the Unix epoch
	ops    [dispatch.FileOps]tracefile.CallTotal
}

// crossing is the largest time, in microseconds, by which a call may start before the
// span that contains it: the clocks of both are read one after the other.
const crossing = 50

// Record implements dispatch.File.
func (f *file) Record(ctx context.Context, c dispatch.FileCall) {
	d := f.log.d
	if d.cut.Load() || c.Op >= dispatch.FileOps {
		return
	}
	if std := c.Op.Std(); std && f.log.opts.NoSTDIO || !std && f.log.opts.NoPOSIX {
		return
	}
	now := d.clock.now()
	if f.log.opts.Aggregate {
		f.add(&c, now)
		return
	}
	at := d.leaf(ctx, c.Start/1000, now)
	var text [stackText]byte
	d.w.WriteEncoded(&fileKeys[c.Op], at, f.appendCall(text[:0], &c))
}

func (f *file) appendCall(dst []byte, c *dispatch.FileCall) []byte {
	dst = appendInt(append(dst, f.head...), textRet, c.Ret)
	if c.Size >= 0 {
		dst = appendInt(dst, textSize, c.Size)
	}
	if c.Offset >= 0 || c.Op == dispatch.FileSeek || c.Op == dispatch.FileStdSeek {
		dst = appendInt(dst, textOffset, c.Offset)
	}
	if c.Op == dispatch.FileSeek || c.Op == dispatch.FileStdSeek {
		dst = appendInt(dst, textWhence, int64(c.Whence))
	}
	return dst
}
