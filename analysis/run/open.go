package run

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/trainspan/trainspan/dftracer"
)

// Set is the telemetry files of one or more jobs. It is not safe for
// concurrent use.
type Set struct {
	// Skipped lists the files that are no telemetry or cannot be read.
	Skipped []*FileError

	// Workers is how many files are read at a time; 0 means one per processor.
	Workers int

	// Stop, when not nil, is asked now and then while files are read, from
	// several goroutines. Its error ends Read, which returns it: give it a
	// context's Err. It must go on to return an error once it has.
	Stop func() error

	// Events, when not nil, is called for each process of the trace files, from
	// several goroutines. What it returns is given each event of the process,
	// metadata and framing included, one at a time and before anything is made
	// of it. The event is valid during the call; its strings stay valid. The last
	// of the Sources of the process is the file that it comes from.
	Events func(*Process) func(*dftracer.Event)

	traces  []*group // trace files, those of one process together
	records []string // files of JSON lines
}

// group is the trace files of one process, or a file with several.
type group struct {
	paths []string
	same  map[string][]string // files with the same bytes as one of paths: they are not read
	host  string              // hash
	pid   int64
	start int64 // of the start record, Unknown without one
	rank  int   // -1 when unknown
	scale int64 // nanoseconds of a unit of time
	part  bool  // a later part of a rotated trace
	extra *records
}

var (
	rankName = regexp.MustCompile(`(?i)(?:^|[-_.])(?:rank[-_]?(\d+)|trace-(\d+)-of-(\d+))(?:[-_.]|$)`)
	partName = regexp.MustCompile(`\.\d+(\.pfw(?:\.gz)?)$`)
)

// ErrForeign is why files are skipped that are no telemetry at all.
var ErrForeign = errors.New("neither a trace nor JSON lines of this format")

// ErrNoTelemetry is why [Open] fails where paths can be read and hold none: a
// job that has just begun may not have written any.
var ErrNoTelemetry = errors.New("no trace file and no JSON lines")

// Open finds the telemetry files among paths, which are files or folders.
// Folders are searched with all folders below them. Files are told by what is
// in them, not by their names. An error means that a path cannot be read at
// all, or that there is no telemetry in any: [ErrNoTelemetry], with
// an empty Set whose Skipped says what there is.
func Open(paths ...string) (*Set, error) {
	s := &Set{}
	seen := make(map[string]bool)
	var files []string
	for _, path := range paths {
		err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
			switch {
			case err != nil && p == path:
				return err
			case errors.Is(err, fs.ErrNotExist): // as in sniff
				return nil
			case err != nil:
				s.Skipped = append(s.Skipped, &FileError{p, err})
				return nil
			case d.IsDir():
				return nil
			}
			if info, err := os.Stat(p); err != nil || !info.Mode().IsRegular() {
				return nil
			}
			if abs, err := filepath.Abs(p); err == nil && !seen[abs] {
				seen[abs] = true
				files = append(files, p)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("run: %w", err)
		}
	}
	s.sniff(files)
	s.join()
	if len(s.traces)+len(s.records) == 0 {
		return s, fmt.Errorf("run: %w in %s", ErrNoTelemetry, strings.Join(paths, ", "))
	}
	return s, nil
}

// sniffSize is how much of a file is looked at to tell what it is.
const sniffSize = 64 << 10

// sniffEvents bounds the search for the start record of a trace, and
// sniffMore what is read behind it: the other records about the process.
const (
	sniffEvents = 4096
	sniffMore   = 64
)

// sniff looks into files, several at a time, and notes them in their order. A
// file that is gone by then is none: it was there under a temporary name.
func (s *Set) sniff(paths []string) {
	groups, errs := make([]*group, len(paths)), make([]error, len(paths))
	inParallel(s.workers(), len(paths), func(i int) {
		var kind fileKind
		if kind, errs[i] = kindOf(paths[i]); errs[i] == nil && kind == isTrace {
			groups[i], errs[i] = header(paths[i])
		}
	})
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

// join puts the files of one process together: copies of a trace, and the
// parts of a rotated one.
func (s *Set) join() {
	var out []*group
	for _, g := range s.traces {
		if i := slices.IndexFunc(out, func(o *group) bool { return !g.part && !o.part && g.copies(o) }); i >= 0 {
			out[i].addCopy(g.paths[0])
			continue
		}
		out = append(out, g)
	}
	s.traces = nil
	for _, g := range out {
		if !g.part {
			s.traces = append(s.traces, g)
		}
	}
	for _, g := range out {
		if !g.part {
			continue
		}
		if i := slices.IndexFunc(s.traces, g.continues); i >= 0 {
			s.traces[i].paths = append(s.traces[i].paths, g.paths...)
			continue
		}
		s.traces = append(s.traces, g) // the first part is missing
	}
}

// addCopy adds another file of the same process.
func (g *group) addCopy(path string) {
	for _, have := range g.paths {
		if sameBytes(have, path) {
			if g.same == nil {
				g.same = make(map[string][]string)
			}
			g.same[have] = append(g.same[have], path)
			return
		}
	}
	g.paths = append(g.paths, path)
}

// sameBytes compares two files; what cannot be read is not the same.
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

// copies reports whether two files were written by one process.
func (g *group) copies(o *group) bool {
	return g.start != Unknown && g.start == o.start && g.pid == o.pid && g.host == o.host
}

// continues reports whether g is a later part of o.
func (g *group) continues(o *group) bool {
	if g.pid != o.pid || g.host != o.host {
		return false
	}
	stem := partName.ReplaceAllString(g.paths[0], "$1")
	return slices.ContainsFunc(o.paths, func(p string) bool { return p == stem || partName.ReplaceAllString(p, "$1") == stem })
}

type fileKind int

const (
	isTrace fileKind = iota
	isRecords
)

// kindOf tells a trace from JSON lines by the first lines.
func kindOf(path string) (fileKind, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // only read
	var r io.Reader = bufio.NewReaderSize(f, sniffSize)
	if magic, _ := r.(*bufio.Reader).Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(r)
		if err != nil {
			return 0, err
		}
		r = z
	}
	text := make([]byte, sniffSize)
	n, err := io.ReadFull(r, text)
	text = text[:n]
	if n == 0 {
		if err == nil || errors.Is(err, io.EOF) {
			err = ErrForeign
		}
		return 0, err
	}
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		switch {
		case len(line) < 2 || line[0] != '{':
		case bytes.Contains(line, []byte(`"ph":`)) || bytes.Contains(line, []byte(`"ph" :`)):
			return isTrace, nil
		case bytes.Contains(line, []byte(`"type":"`)) && bytes.Contains(line, []byte(`"count":`)):
			return isRecords, nil
		}
	}
	return 0, ErrForeign
}

// header reads who wrote a trace.
func header(path string) (*group, error) {
	r, err := dftracer.OpenReader(path, nil)
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // only read
	g := &group{paths: []string{path}, start: Unknown, rank: rankOf(path), scale: 1000}
	left := sniffEvents
	for ; left > 0; left-- {
		ev, err := r.Next()
		if err != nil {
			break
		}
		switch {
		case ev.Phase != dftracer.PhaseMetadata && ev.Cat == dftracer.CatDFTracer && ev.Name == dftracer.NameStart:
			if g.start == Unknown || ev.TS < g.start {
				g.start, g.pid, g.host = ev.TS, ev.PID, ev.HostHash
				left = min(left, sniffMore)
			}
		case ev.Phase == dftracer.PhaseMetadata && ev.Name == dftracer.NameCustom:
			switch key, value := ev.Meta(); key {
			case dftracer.KeyPart:
				g.part = true
			case "time_metric":
				if ns, ok := metrics[value]; ok {
					g.scale = ns
				}
			}
		case ev.Phase == dftracer.PhaseMetadata && ev.Name == dftracer.NameProcess:
			if key, value := ev.Meta(); key == "rank" {
				if n, err := strconv.Atoi(value); err == nil {
					g.rank = n
				}
			}
		}
	}
	if g.start > math.MaxInt64/g.scale || g.start < 0 {
		g.start = Unknown
	} else {
		g.start *= g.scale
	}
	return g, nil
}

// metrics are the units of time that a trace may announce.
var metrics = map[string]int64{"NS": 1, "US": 1000, "MS": 1e6, "SEC": 1e9}

// rankOf is the rank that a file name says, or -1.
func rankOf(path string) int {
	if m := rankName.FindStringSubmatch(filepath.Base(path)); m != nil {
		for _, text := range m[1:3] {
			if n, err := strconv.Atoi(text); err == nil {
				return n
			}
		}
	}
	return -1
}
