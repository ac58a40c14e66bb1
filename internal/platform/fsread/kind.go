package fsread

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"

	"github.com/klauspost/compress/gzip"
)

// Kind is the kind of a file. String returns it in words.
type Kind int

// The kinds of files, recognized by their contents.
const (
	Unknown    Kind = iota
	Trace           // events of DFTracer, one a line, in any dialect
	Records         // JSON lines in one-logger's grammar, by this library or one-logger
	Spans           // JSON lines of OTLP spans
	Profile         // a profile of torch.profiler, or another Chrome trace
	CompileLog      // a log of TORCH_TRACE
	Tar             // an archive, which may hold profiles
	Ring            // the ring buffer of a Python process
	Digest          // written by trainspan trace digest
	Parquet
	RunInfo    // run.json
	FlightDump // a dump of PyTorch's flight recorder
	Stacks     // stacks of threads, as py-spy and faulthandler print them
	Signals    // JSON lines of OTLP that begin with log records or metrics
)

var kinds = [...]string{"an unknown kind of file", "a trace", "JSON lines", "OTLP spans (trainspan report reads them, trainspan trace replay sends them)",
	"a PyTorch profile or Chrome trace (trainspan trace import reads it)", "a torch.compile log (trainspan trace import reads it)",
	"a tar archive (trainspan trace import reads profiles in it)", "a ring (trainspan trace import reads it)", "a digest (it has no spans: name the traces that it was made of, or see it with trainspan report)", "a Parquet table", "the run.json of a run",
	"a dump of PyTorch's flight recorder (trainspan report reads it together with the records of its job)", "stacks of threads (trainspan report reads them together with the records of their job)",
	"OTLP log records or metrics, without spans"}

func (k Kind) String() string { return kinds[k] }

// Profiler reports whether trainspan trace import reads the file as a profile or a log.
func (k Kind) Profiler() bool { return k == Profile || k == CompileLog || k == Tar }

// The first bytes of binary files.
const (
	RingMagic   = "TSRING\x00" // a byte with the version follows
	DigestMagic = "trspdig\n"
)

// sniffSize is how much text of a file is examined. If the first bytes identify
// a file, nothing more is read.
const sniffSize = 64 << 10

// File is an open file with its decompressed text.
type File struct {
	io.Reader
	Kind    Kind
	Why     error // why Kind is Unknown
	file    *os.File
	buffers *buffers
}

// buffers are the buffers for reading a file. They are reused, because
// allocating them would take most of the time when a thousand files are
// identified.
type buffers struct {
	raw, text *bufio.Reader
	zip       gzip.Reader
}

var spare = sync.Pool{New: func() any {
	return &buffers{raw: bufio.NewReaderSize(nil, sniffSize), text: bufio.NewReaderSize(nil, sniffSize)}
}}

// Close closes the file.
func (f *File) Close() error {
	if b := f.buffers; b != nil {
		f.Reader, f.buffers = nil, nil
		b.raw.Reset(nil)
		spare.Put(b)
	}
	return f.file.Close()
}

// Open opens a file for reading, decompresses it and identifies its kind. The
// error is about a file that cannot be read. A named pipe without a writer is
// empty.
func Open(path string) (*File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	b := spare.Get().(*buffers)
	raw := b.raw
	raw.Reset(f)
	text, err := textBy(raw, &b.zip)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("invalid gzip data: %w", err), f.Close())
	}
	in := raw
	if text != io.Reader(raw) {
		in = b.text
		in.Reset(text)
	}
	out := &File{Reader: in, file: f, buffers: b}
	for _, n := range [...]int{4 << 10, sniffSize} {
		var head []byte
		head, err = in.Peek(n)
		if out.Kind, out.Why = kindOf(head); out.Kind != Unknown || len(head) < n {
			break
		}
	}
	switch {
	case out.Kind != Unknown:
		return out, nil
	case in.Buffered() == 0 && err != nil && !errors.Is(err, io.EOF):
		return nil, errors.Join(err, f.Close())
	case text == io.Reader(raw) && strings.HasSuffix(path, ".gz") && in.Buffered() > 0:
		out.Why = fmt.Errorf("not gzip: %w", out.Why)
	}
	return out, nil
}

// KindOf identifies a file. For Unknown, the error is the reason.
func KindOf(path string) (Kind, error) {
	f, err := Open(path)
	if err != nil {
		return Unknown, err
	}
	return f.Kind, errors.Join(f.Why, f.Close())
}

// Is reports whether a file can be read and is of a kind.
func Is(path string, kind Kind) bool {
	k, err := KindOf(path)
	return err == nil && k == kind
}

// NamedTrace reports whether a file is named like a trace. The name does not
// decide: a file with such a name and other contents is reported.
func NamedTrace(name string) bool { return filepath.Ext(strings.TrimSuffix(name, ".gz")) == ".pfw" }

// NamedProfile is [NamedTrace] for profiles and logs of torch.compile.
func NamedProfile(name string) bool {
	name = filepath.Base(name)
	switch filepath.Ext(strings.TrimSuffix(name, ".gz")) {
	case ".json", ".tar", ".tgz":
		return true
	case ".log":
		return strings.HasPrefix(name, "dedicated_log_torch_trace")
	}
	return false
}

// IsTar reports whether a file begins like a tar archive.
func IsTar(head []byte) bool { return len(head) >= 262 && string(head[257:262]) == "ustar" }

// IsLog reports whether a file begins like a log of torch.compile: a level
// letter, month and day, and a clock.
func IsLog(head []byte) bool {
	return len(head) >= 14 && logPattern.Match(head[:min(len(head), 64)])
}

var logPattern = regexp.MustCompile(`^[VDIWEC]\d{4} \d\d:\d\d:\d\d`)

// foreign are files that are often found beside telemetry, and what to use
// instead.
var foreign = []struct{ begin, what, hint string }{
	{"\x80\x02", pickle, again}, {"\x80\x03", pickle, again}, {"\x80\x04", pickle, again}, {"\x80\x05", pickle, again},
	{"PK\x03\x04", "a zip archive", "unpack it first"},
	{"\x28\xb5\x2f\xfd", "a zstd archive", "unpack it first"},
	{"<!DOC", page, again}, {"<html", page, again}, {"<!doc", page, again},
}

const (
	pickle = "a Python pickle (a CUDA memory snapshot)"
	page   = "an HTML page (a memory timeline or a compile report)"
	again  = "export the profiler trace with export_chrome_trace"
)

// Foreign names the kind of a file that no reader here accepts, and what to use
// instead.
func Foreign(head []byte) (what, hint string) {
	if len(head) >= 2 && head[0] == 0x0a && !bytes.ContainsRune([]byte(" \t\r\n{["), rune(head[1])) {
		return "a Perfetto protobuf (.pftrace)", "its format is not supported; " + again
	}
	for _, f := range foreign {
		if bytes.HasPrefix(head, []byte(f.begin)) {
			return f.what, f.hint
		}
	}
	return "", ""
}

// kindOf identifies a file by the start of its text.
func kindOf(text []byte) (Kind, error) {
	switch {
	case len(text) == 0:
		return Unknown, errors.New("the file is empty")
	case bytes.HasPrefix(text, []byte(RingMagic)):
		return Ring, nil
	case bytes.HasPrefix(text, []byte(DigestMagic)):
		return Digest, nil
	case bytes.HasPrefix(text, []byte("PAR1")):
		return Parquet, nil
	case text[0] == 0x80 && bytes.Contains(text, []byte("pg_config")) && bytes.Contains(text, []byte("entries")):
		return FlightDump, nil
	case isStacks(text):
		return Stacks, nil
	case IsTar(text):
		return Tar, nil
	case IsLog(text) && bytes.Contains(text, []byte(`] {"`)): // other logs have similar lines
		return CompileLog, nil
	}
	begin := bytes.TrimSpace(bytes.TrimPrefix(text, []byte(byteOrderMark)))
	if kind := document(begin); kind != Unknown {
		return kind, nil
	}
	signals := false
	for line := range bytes.Lines(begin) {
		line = bytes.TrimSpace(line)
		switch {
		case len(line) < 2 || line[0] != '{':
		case hasKey(line, "ph"):
			return Trace, nil
		case bytes.Contains(line, []byte(`"type":"`)) && hasKey(line, "count"):
			return Records, nil
		case hasKey(line, "resourceSpans"):
			return Spans, nil
		case hasKey(line, "resourceLogs"), hasKey(line, "resourceMetrics"):
			signals = true
		}
	}
	if signals {
		return Signals, nil
	}
	if len(begin) > 1 && begin[0] == '[' && bytes.HasPrefix(bytes.TrimSpace(begin[1:]), []byte("{")) && hasKey(begin, "ph") {
		return Profile, nil
	}
	if what, _ := Foreign(text); what != "" {
		return Unknown, errors.New(what)
	}
	return Unknown, fmt.Errorf("it begins with %q", text[:min(len(text), 16)])
}

// isStacks reports whether a text has stacks of threads: a process and its
// threads as py-spy prints them, or the words with which Python begins each
// thread.
func isStacks(text []byte) bool {
	if bytes.HasPrefix(text, []byte("Process ")) && bytes.Contains(text, []byte("\nThread ")) && bytes.Contains(text, []byte("\nPython v")) {
		return true
	}
	return bytes.Contains(text, []byte(" (most recent call first):\n  File \""))
}

// document identifies a file with a single JSON object by its first keys.
func document(text []byte) Kind {
	if text = text[:min(len(text), sniffSize)]; len(text) == 0 || text[0] != '{' {
		return Unknown
	}
	if at := key(text, "ph"); at >= 0 {
		text = text[:at] // the text before the first event
	}
	switch {
	case hasKey(text, "traceEvents"), hasKey(text, "schemaVersion"):
		return Profile
	case hasKey(text, "version") && hasKey(text, "trainspan"):
		return RunInfo
	}
	return Unknown
}

// key returns the index of a JSON key, with or without a blank before the
// colon.
func key(text []byte, name string) int {
	i := bytes.Index(text, []byte(`"`+name+`":`))
	j := bytes.Index(text, []byte(`"`+name+`" :`))
	if i < 0 || j >= 0 && j < i {
		return j
	}
	return i
}

func hasKey(text []byte, name string) bool { return key(text, name) >= 0 }
