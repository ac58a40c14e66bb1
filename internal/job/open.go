package job

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/fsread"
	"github.com/trainspan/trainspan/internal/tracefile"
	"golang.org/x/sync/errgroup"
)

// Set is the telemetry files of one or more jobs. It is not safe for
// concurrent use.
type Set struct {
	// Skipped lists the files that are not telemetry or cannot be read.
	Skipped []*FileError

	// Workers is how many files are read at a time; 0 means one per processor.
	Workers int

	// Stop, if not nil, is called now and then while files are read, from several
	// goroutines. Its error ends Read, which returns it. The Err method of a
	// context fits. After an error it must continue to return one.
	Stop func() error

	// Arguments, if not nil, is called for each process of JSON lines, from several
	// goroutines. The function it returns gets the arguments of each span, as
	// recorded and by key, before the Sink gets the span. They are valid during the
	// call.
	Arguments func(*Process) func([]dftracer.Arg)

	// Events, if not nil, is called for each process of the trace files, from
	// several goroutines. The function it returns gets each event of the process,
	// including metadata and framing, one at a time, in the order of the file and
	// before it is processed. The event is valid during the call; its strings stay
	// valid. The last of the Sources of the process is the event's file.
	Events func(*Process) func(*dftracer.Event)

	traces  []*group // trace files, those of one process together
	records []string // files of JSON lines
}

// group is the trace files of one process, or a file with several processes.
type group struct {
	paths []string
	same  map[string][]string // files with the same contents as one of paths: they are not read
	owner Key                 // the writer: the process of the first start record, or of the first record
	host  string              // hash, the first in the files
	who   *Process            // what the beginning shows of the owner
	start int64               // of the start record, or Unknown
	part  bool                // a later part of a rotated trace
	otlp  bool                // the files of OTLP spans, all of a set together
	extra []*records

	workers int // goroutines that decode OTLP spans
}

// Key identifies a process within a trace.
type Key struct {
	Host string // hash
	PID  int64
}

func compareKeys(a, b Key) int { return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.PID, b.PID)) }

// key returns the process of an event. An event without a host has that of the
// file, and metadata without a process belongs to the process that wrote the
// file.
func (g *group) key(ev *dftracer.Event) Key {
	key := Key{ev.HostHash, ev.PID}
	if key.Host == "" {
		key.Host = g.host
	}
	if key.PID == 0 && ev.Phase == dftracer.PhaseMetadata {
		key.PID = g.owner.PID
	}
	return key
}

var partName = regexp.MustCompile(`\.\d+(\.pfw(?:\.gz)?)$`)

// ErrForeign is returned for files that are not telemetry.
var ErrForeign = errors.New("neither a trace nor JSON lines of this format")

// ErrNoTelemetry is returned by [Open] if the paths can be read and have no
// telemetry: a job that has just begun may not have written any.
var ErrNoTelemetry = errors.New("no trace file and no JSON lines")

// Open finds the telemetry files among paths, which are files or folders.
// Folders are searched recursively; a pattern stands for the files that match
// it. Files are recognized by their contents, not by their names. An error
// means that a path cannot be read, or that there is no telemetry:
// [ErrNoTelemetry], with an empty Set whose Skipped has what was found.
func Open(paths ...string) (*Set, error) {
	s := &Set{}
	found, err := fsread.Walk(slices.Sorted(slices.Values(paths))...)
	if err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	var files []string
	for _, f := range found {
		switch {
		case f.Err != nil:
			s.Skipped = append(s.Skipped, &FileError{f.Path, f.Err})
		case f.Info.Mode().IsRegular():
			files = append(files, f.Path)
		}
	}
	slices.Sort(files) // the order of the arguments has no meaning
	s.sniff(files)
	s.join()
	if len(s.traces)+len(s.records) == 0 {
		why := ""
		if n := len(s.Skipped); n > 0 {
			why = "; " + s.Skipped[0].Error()
			if n > 1 {
				why += fmt.Sprintf("; and %d more files were skipped", n-1)
			}
		}
		return s, fmt.Errorf("run: %w in %s%s", ErrNoTelemetry, strings.Join(paths, ", "), why)
	}
	return s, nil
}

// sniffEvents bounds the search for the start record of a trace, and sniffMore
// how many records about the process are read after it.
const (
	sniffEvents = 4096
	sniffMore   = 64
)

// sniff identifies files, several at a time, and adds them in order. A file
// that has disappeared is ignored: it had a temporary name.
func (s *Set) sniff(paths []string) {
	groups, errs := make([]*group, len(paths)), make([]error, len(paths))
	s.each(len(paths), func(i int) { groups[i], errs[i] = look(paths[i]) })
	for i, path := range paths {
		switch {
		case errors.Is(errs[i], fs.ErrNotExist):
		case errs[i] != nil:
			s.Skipped = append(s.Skipped, &FileError{path, errs[i]})
		case groups[i] != nil:
			s.traces = append(s.traces, groups[i])
		default:
			s.records = append(s.records, path)
		}
	}
}

// workers returns how many files are read at a time.
func (s *Set) workers() int { return cmp.Or(max(s.Workers, 0), runtime.GOMAXPROCS(0)) }

// each calls do for 0 to n-1 on several goroutines and returns when all calls
// have returned.
func (s *Set) each(n int, do func(int)) {
	var g errgroup.Group
	g.SetLimit(s.workers())
	for i := range n {
		g.Go(func() error { do(i); return nil })
	}
	_ = g.Wait() // no function returns an error
}

// look identifies a file and the writer of a trace; for JSON lines nothing is
// known yet.
func look(path string) (*group, error) {
	f, err := fsread.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	switch {
	case f.Kind == fsread.Trace:
		return header(path, f.Reader) // it has a buffer already
	case f.Kind == fsread.Records:
		return nil, nil
	case f.Kind == fsread.Spans, f.Kind == fsread.Signals:
		return &group{paths: []string{path}, who: newProcess(), start: Unknown, otlp: true}, nil
	case f.Why != nil:
		return nil, fmt.Errorf("%w: %w", ErrForeign, f.Why)
	}
	return nil, fmt.Errorf("%w: %v", ErrForeign, f.Kind)
}

// join groups the files of one process: copies of a trace, and the parts of a
// rotated one.
func (s *Set) join() {
	type process struct {
		start int64
		owner Key
	}
	type part struct {
		owner Key
		stem  string
	}
	var exported *group
	found := slices.DeleteFunc(s.traces, func(g *group) bool {
		switch {
		case !g.otlp:
		case exported == nil:
			exported = g
		default:
			exported.paths = append(exported.paths, g.paths...)
		}
		return g.otlp
	})
	s.traces = nil
	defer func() {
		if exported != nil {
			s.traces = append(s.traces, exported)
		}
	}()
	first, parts := make(map[process]*group), make(map[part]*group)
	add := func(g *group) {
		s.traces = append(s.traces, g)
		for _, path := range g.paths {
			for _, stem := range [...]string{path, stemOf(path)} {
				if key := (part{g.owner, stem}); parts[key] == nil {
					parts[key] = g
				}
			}
		}
	}
	for _, g := range found {
		if g.part {
			continue
		}
		if key := (process{g.start, g.owner}); g.start != Unknown {
			if o := first[key]; o != nil {
				if o.addCopy(g.paths[0]) {
					key := part{g.owner, stemOf(g.paths[0])}
					parts[key] = cmp.Or(parts[key], o)
				}
				continue
			}
			first[key] = g
		}
		add(g)
	}
	for _, g := range found {
		if !g.part {
			continue
		}
		if o := parts[part{g.owner, stemOf(g.paths[0])}]; o != nil {
			o.paths = append(o.paths, g.paths...)
			continue
		}
		add(g) // the first part is missing
	}
}

// stemOf returns the name of the first part of a rotated trace.
func stemOf(path string) string { return partName.ReplaceAllString(path, "$1") }

// addCopy adds another file of the same process. It returns false if the
// contents equal those of a file it has.
func (g *group) addCopy(path string) bool {
	for _, have := range g.paths {
		if sameBytes(have, path) {
			if g.same == nil {
				g.same = make(map[string][]string)
			}
			g.same[have] = append(g.same[have], path)
			return false
		}
	}
	g.paths = append(g.paths, path)
	return true
}

// sameBytes reports whether two files have the same contents; unreadable files
// do not.
func sameBytes(a, b string) bool {
	x, errX := os.Open(a)
	if errX != nil {
		return false
	}
	defer x.Close() //nolint:errcheck // only read
	y, errY := os.Open(b)
	if errY != nil {
		return false
	}
	defer y.Close() //nolint:errcheck // only read
	infoX, errX := x.Stat()
	infoY, errY := y.Stat()
	if errX != nil || errY != nil || infoX.Size() != infoY.Size() {
		return false
	}
	bufX, bufY := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, errX := io.ReadFull(x, bufX)
		m, errY := io.ReadFull(y, bufY)
		if n != m || !bytes.Equal(bufX[:n], bufY[:m]) {
			return false
		}
		if errX != nil || errY != nil {
			atEnd := func(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
			return atEnd(errX) && atEnd(errY)
		}
	}
}

// header reads the writer of a trace.
func header(path string, text io.Reader) (*group, error) {
	r, err := dftracer.NewReader(text, nil)
	if err != nil {
		return nil, err
	}
	g := &group{paths: []string{path}, who: newProcess(), start: Unknown}
	seen := make(map[Key]*Process)
	left := sniffEvents
	for ; left > 0; left-- {
		ev, err := r.Next()
		if err != nil {
			break
		}
		g.host = cmp.Or(g.host, ev.HostHash)
		key := g.key(ev)
		if g.owner.PID == 0 { // metadata may only have the host
			g.owner = key
		}
		if seen[key] == nil {
			seen[key] = newProcess()
		}
		seen[key].note(ev)
		switch {
		case ev.Phase != dftracer.PhaseMetadata && ev.Cat == dftracer.CatDFTracer && ev.Name == tracefile.NameStart:
			if g.start == Unknown || ev.TS < g.start {
				g.start, g.owner = ev.TS, key
				left = min(left, sniffMore)
			}
		case ev.Phase == dftracer.PhaseMetadata && ev.Name == tracefile.NameCustom:
			if key, _ := ev.Meta(); key == tracefile.KeyPart {
				g.part = true
			}
		}
	}
	g.owner.Host = cmp.Or(g.owner.Host, g.host) // the first records may have none
	for _, key := range [...]Key{g.owner, {PID: g.owner.PID}} {
		if p := seen[key]; p != nil {
			g.who.who.Add(p.who)
		}
	}
	g.who.named(path)
	g.who.applyEvidence()
	if g.start > math.MaxInt64/micro || g.start < 0 {
		g.start = Unknown
	} else {
		g.start *= micro
	}
	return g, nil
}

func (s *Set) stopped() error {
	if s.Stop == nil {
		return nil
	}
	return s.Stop()
}

// Sink receives the records of one process. Its methods are called one at a
// time.
type Sink interface {
	// Span is called for each span, in any order. A span with a begin record may
	// come twice, open and then ended, with the same ID. It is valid during the
	// call; its strings stay valid.
	Span(*Span)

	// Event is called for each event, in any order.
	Event(*Event)

	// Close is called once, after the last call and when the times of the process
	// are known.
	Close() error
}

// FileError is why a file was left out.
type FileError struct {
	Path string
	Err  error
}

func (e *FileError) Error() string { return e.Path + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// Latest returns until when a process of the job may have lived. It is its end
// if it ended regularly, and LastSeen if its records are complete. A killed
// process loses what it had not written, so it may have lived for its flush
// interval longer, but not beyond the end of its command. If trainspan run
// waited for the process itself, the end is known and exact is true.
func (j *Job) Latest(p *Process) (at int64, exact bool) {
	if p.End != NoEnd {
		return p.End, true // LastSeen may be later: a save in the background that ended after it
	}
	at = p.LastSeen + p.Flush
	for _, s := range j.Starts {
		if s.State != rundir.Ended || s.EndedBy == rundir.ByUnknown || s.Ended == nil || s.Host != p.Host || s.Job != p.JobID {
			continue
		}
		end := s.Ended.UnixNano()
		if s.Started.UnixNano() > p.LastSeen || end < p.LastSeen {
			continue
		}
		if s.CommandPID != 0 && int64(s.CommandPID) == p.PID {
			return end, true
		}
		at = min(at, end)
	}
	return at, at == p.LastSeen
}
