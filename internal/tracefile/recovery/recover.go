package recovery

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/trainspan/trainspan/internal/platform/fsread"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// ErrInUse is why a file is not recovered that a process is writing.
var ErrInUse = errors.New("a process is writing this file; wait until it exits")

// Options configures File. The zero value, and nil, are ready for use.
type Options struct {
	// Output is the file for the repaired trace; "" replaces the trace itself,
	// which keeps its owner and permissions.
	Output string
	// Force replaces a regular file at Output. Without it an existing file is an
	// error that matches fs.ErrExist.
	Force bool
	// OnBad is called for every line that is not a valid record. Such lines are
	// kept in whole members and left out of rewritten text.
	OnBad func(*tracefile.LineError)
	// Stop, if not nil, is called now and then; its error ends the recovery, which
	// then changes nothing, and is returned. The Err method of a context fits.
	Stop func() error
}

// Report is what File found and did.
type Report struct {
	Clean    bool              // the trace was complete; nothing was changed
	Dialect  tracefile.Dialect // guessed from the records
	Lines    int               // records found
	Bad      int               // lines that are not valid records
	CutBytes int64             // bytes of the file that were cut off
	Salvaged int               // records taken out of a torn last member
	Closed   int               // open spans closed with truncated:1
	// Unfinished is how many spans had children but no record of their own. Each
	// is now an event named unfinished around its children.
	Unfinished int
	// DamagedAt is the offset of the first byte that was cut off, or -1.
	DamagedAt int64
}

// File repairs the trace of a process that was killed: it cuts the file to its
// last whole line, closes the spans that were open according to their begin
// records with the argument truncated:1, and appends the end event with
// recovered:1 and the closing bracket. A complete trace is not changed. The
// repaired trace is written beside the file and then renamed, so that File
// itself can be interrupted. A file that a Writer has open is refused if the
// file system supports locks. A parent without any record, because it had not
// run for long, gets an event named unfinished around its children.
func File(path string, opts *Options) (Report, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	r := &recovery{opts: o, path: path, report: Report{DamagedAt: -1}}
	report, err := r.run()
	if err != nil {
		err = fmt.Errorf("dftracer: recover %s: %w", path, err)
	}
	return report, err
}

type recovery struct {
	opts    Options
	path    string
	f       *os.File
	size    int64
	changed time.Time
	out     *bufio.Writer
	ending  ending
	gzip    bool
	state   traceState
	parser  tracefile.Parser
	event   tracefile.Event
	members tracefile.Members
	lines   fsread.Lines
	line    int
	scratch []byte
	isEnd   bool  // the last line is the end event
	endAt   int64 // its offset in the text that was read last, or -1
	unended bool  // the last line has no line feed
	report  Report
}

func (r *recovery) run() (Report, error) {
	f, info, err := openLocked(r.path)
	if err != nil {
		return r.report, err
	}
	defer f.Close() //nolint:errcheck // only read
	r.f, r.size, r.changed = f, info.Size(), info.ModTime()
	target, ours := r.opts.Output, fswrite.Proof(nil)
	switch {
	case target == "":
		// A link stays a link; its target is replaced.
		if target, err = filepath.EvalSymlinks(r.path); err != nil {
			return r.report, err
		}
		ours = fswrite.Same(f)
	case r.opts.Force:
		ours = func(*os.File) error { return nil }
	}
	if err := fswrite.Check(target, ours); err != nil {
		return r.report, err
	}
	temp, err := fswrite.Begin(target, info.Mode().Perm())
	if err != nil {
		return r.report, err
	}
	defer temp.Discard()
	r.out = bufio.NewWriterSize(temp, 256<<10)
	err = r.repair()
	if err == nil {
		err = r.out.Flush()
	}
	if err == nil {
		err = temp.Sync()
	}
	if err != nil || r.report.Clean && r.opts.Output == "" {
		return r.report, err
	}
	if r.opts.Output == "" {
		if err := temp.Keep(f); err != nil {
			return r.report, fmt.Errorf("%w; write the repaired trace to another file", err)
		}
	}
	return r.report, temp.Publish(ours)
}

// openLocked opens and locks a file that no process writes. It returns the
// file's state under the lock: its writer may have ended, or another recovery
// may have replaced it, just before. An empty file is not locked, because a
// Writer may be about to lock it.
func openLocked(path string) (*os.File, fs.FileInfo, error) {
	for {
		f, err := os.Open(path)
		if err != nil {
			return nil, nil, err
		}
		info, err := f.Stat()
		if err == nil && info.Size() == 0 {
			err = errors.New("file is empty")
		}
		if err == nil && !fswrite.Lock(f) {
			err = ErrInUse
		}
		if err == nil {
			info, err = f.Stat()
		}
		var now fs.FileInfo
		if err == nil {
			now, err = os.Stat(path)
		}
		if err != nil {
			return nil, nil, errors.Join(err, f.Close())
		}
		if os.SameFile(info, now) {
			return f, info, nil
		}
		_ = f.Close() // it was only read
	}
}

func (r *recovery) repair() error {
	var magic [2]byte
	if _, err := r.f.ReadAt(magic[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	r.gzip = fsread.IsGzip(magic[:])
	r.ending.rewriter = rewriter{out: r.out, gzip: r.gzip}
	var err error
	if r.gzip {
		err = r.mendMembers()
	} else {
		err = r.mendPlain()
	}
	if r.state.lastTS == 0 { // the file was cut before its first event
		r.state.lastTS = r.changed.UnixMicro()
	}
	r.report.Lines = r.state.lines
	r.report.Dialect = r.state.dialect
	if err != nil {
		return err
	}
	if r.state.lines == 0 {
		return errors.New("no record found")
	}
	if r.state.complete() && r.report.CutBytes == 0 && r.report.Salvaged == 0 {
		r.report.Clean = true
		return r.ending.release()
	}
	return r.finish()
}

// mendMembers copies whole members, rewrites the lines of a torn last member,
// and drops damaged members before it.
func (r *recovery) mendMembers() error {
	var head [10]byte
	if _, err := r.f.ReadAt(head[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	find := tracefile.MemberFinder{R: r.f, Head: head, Size: r.size}
	for off := int64(0); off < r.size; {
		n, err := r.checkMember(off)
		if err == nil {
			if err := r.ending.release(); err != nil {
				return err
			}
			if err := r.readMember(off, nil); err != nil {
				return err
			}
			member := io.NewSectionReader(r.f, off, n)
			if r.endAt >= 0 {
				r.ending.member, r.ending.at = member, r.endAt
			} else if _, err := io.Copy(r.out, member); err != nil {
				return err
			}
			off += n
			continue
		}
		if !fsread.Torn(err) { // Options.Stop, or the disk: not damage of the file
			return err
		}
		r.damaged(off)
		next, ferr := find.Next(off + 1)
		if ferr != nil {
			return ferr
		}
		r.report.CutBytes += next - off
		r.state.damaged = r.state.damaged || next < r.size || !fsread.EndsFlushed(r.f, r.size)
		if next < r.size {
			// Damage in the middle of a file is not a torn end: the text of such a member
			// looks like a trace and may be wrong.
			off = next
			continue
		}
		// Read again, now that the member is known to be torn.
		lines := r.state.lines
		if err := r.readMember(off, &r.ending); err != nil && !fsread.Torn(err) {
			return err
		}
		r.report.Salvaged += r.state.lines - lines
		return r.ending.rewriter.err
	}
	return nil
}

// checkMember returns the length of a member, or why it is not whole. It notes
// its lines only if it is whole.
func (r *recovery) checkMember(off int64) (int64, error) {
	m := &r.members
	m.Start(r.f, off, r.size)
	m.Room = 0 // only one member
	if err := m.Next(); err != nil {
		return 0, err
	}
	for {
		if err := r.stopped(); err != nil {
			return 0, err
		}
		switch _, err := io.CopyN(io.Discard, m, 1<<20); {
		case errors.Is(err, io.EOF):
			return m.Consumed(), nil
		case err != nil:
			return 0, err
		}
	}
}

// readMember notes the lines of one member and, if w is not nil, writes the
// complete ones to w.
func (r *recovery) readMember(off int64, w *ending) error {
	m := &r.members
	m.Start(r.f, off, r.size)
	m.Room = 0 // only one member
	if err := m.Next(); err != nil {
		return err
	}
	r.lines.Reset(m, r.opts.Stop)
	err := r.readLines(&r.lines, w)
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// readLines notes lines until the source ends, and returns the reason. The text
// that it writes to w ends with a line feed, unless it ends with a closing
// bracket that had none.
func (r *recovery) readLines(src *fsread.Lines, w *ending) error {
	r.endAt = -1
	for {
		at := src.At()
		line, err := src.Next()
		if errors.Is(err, fsread.ErrLongLine) {
			r.bad(err)
			continue
		}
		last := err != nil
		if last {
			line = r.readTail(src)
		}
		keep := r.note(line)
		if w == nil { // the member is kept as it is
			r.unended = last && len(line) > 0 || r.unended && last
			if r.isEnd {
				r.endAt = at
			}
		} else if keep {
			if werr := r.keep(line, last && len(tracefile.TrimLine(line)) == 0); werr != nil {
				return errors.Join(err, werr)
			}
		}
		if last {
			return err
		}
	}
}

// note updates the state with a line and reports whether the line is worth
// keeping.
func (r *recovery) note(line []byte) bool {
	r.line++
	r.isEnd = false
	trimmed := tracefile.TrimLine(line)
	if len(trimmed) == 0 {
		return r.state.bracket(line)
	}
	if err := r.parser.Parse(trimmed, &r.event); err != nil {
		r.bad(err)
		return false
	}
	r.state.note(&r.event, tracefile.GuessDialect(trimmed, &r.event, r.state.dialect))
	r.isEnd = r.event.Phase == tracefile.PhaseComplete && r.event.Cat == tracefile.CatDFTracer && r.event.Name == tracefile.NameEnd
	return true
}

func (r *recovery) bad(err error) {
	r.report.Bad++
	if r.opts.OnBad != nil {
		r.opts.OnBad(&tracefile.LineError{Line: r.line, Err: err})
	}
}

// mendPlain copies the file up to its last complete line.
func (r *recovery) mendPlain() error {
	src := &r.lines
	src.Reset(io.NewSectionReader(r.f, 0, r.size), r.opts.Stop)
	for {
		at := src.At()
		line, err := src.Next()
		if errors.Is(err, fsread.ErrLongLine) {
			r.bad(err)
			continue
		}
		if err != nil {
			rest := r.readTail(src)
			if !r.note(rest) {
				r.cut(at, int64(len(rest)))
			} else if werr := r.keep(rest, string(rest) == "]"); werr != nil { // as in complete traces
				return werr
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if !r.note(line) {
			r.cut(at, int64(len(line))+1)
		} else if err := r.keep(line, false); err != nil {
			return err
		}
	}
}

// readTail returns the text after the last line feed, if it is not too long.
func (r *recovery) readTail(src *fsread.Lines) []byte {
	rest, err := src.Rest()
	if err != nil {
		r.bad(err)
	}
	return rest
}

// cut counts bytes of plain text that are cut off.
func (r *recovery) cut(at, n int64) {
	if n > 0 {
		r.damaged(at)
		r.state.damaged = true
		r.report.CutBytes += n
	}
}

func (r *recovery) damaged(at int64) {
	if r.report.DamagedAt < 0 {
		r.report.DamagedAt = at
	}
}

// stopped returns the error of Options.Stop.
func (r *recovery) stopped() error {
	if r.opts.Stop == nil {
		return nil
	}
	return r.opts.Stop()
}

// keep writes the line that was noted last, without a line feed if bare is
// true.
func (r *recovery) keep(line []byte, bare bool) error {
	r.unended = bare
	r.scratch = append(r.scratch[:0], line...)
	if !bare {
		r.scratch = append(r.scratch, '\n')
	}
	e := &r.ending
	framing := len(tracefile.TrimLine(line)) == 0
	if !framing || e.tail == nil && e.member == nil {
		if err := e.release(); err != nil {
			return err
		}
	}
	if r.isEnd || framing && (e.tail != nil || e.member != nil) {
		e.tail = append(e.tail, r.scratch...)
		return nil
	}
	_, err := e.rewriter.Write(r.scratch)
	return err
}

// finish adds the missing records and ends the trace, in the member being
// written.
func (r *recovery) finish() error {
	e := &r.ending
	text, bracket, closed, unfinished := r.state.closing()
	r.report.Closed, r.report.Unfinished = closed, unfinished
	if r.unended && e.member == nil && e.tail == nil && len(text) > 0 {
		text, r.unended = append([]byte{'\n'}, text...), false
	}
	if err := e.insert(text); err != nil {
		return err
	}
	if r.unended && len(bracket) > 0 {
		bracket = "\n" + bracket
	}
	if _, err := io.WriteString(&e.rewriter, bracket); err != nil {
		return err
	}
	return e.rewriter.Close()
}
