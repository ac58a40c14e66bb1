package otlpreceiver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/fsread"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/otlpspan"
	"github.com/trainspan/trainspan/internal/tracefile/place"
)

// ErrInUse is why a journal is not replayed that a receiver is writing.
var ErrInUse = errors.New("a receiver is writing it; wait until the receiver exits")

// Journal is a file of a journal that a receiver has left behind.
type Journal struct {
	Path string
	Size int64
	Host string // of the receiver, empty if the file is empty or damaged
}

// FindJournals returns the journal files among some paths and in the folders
// below them, each once. Those that a receiver is writing are left out, and
// returned in busy. Files that cannot be read are left out.
func FindJournals(paths ...string) (left []Journal, busy []string) {
	for _, path := range fsread.Named(journalNames.MatchString, paths...) {
		f, err := openSegment(path)
		if err != nil {
			continue
		}
		if fswrite.Locked(f) {
			busy = append(busy, path)
			_ = f.Close() // only read
			continue
		}
		l := Journal{Path: path}
		if info, err := f.Stat(); err == nil {
			l.Size = info.Size()
		}
		head, _ := io.ReadAll(io.LimitReader(f, maxHeader))
		_ = f.Close() // only read
		h, _, _, _ := readSegment(head)
		l.Host = h.Host
		left = append(left, l)
	}
	return left, busy
}

var journalNames = regexp.MustCompile(`^otlp\.\d+\.journal$`)

// maxHeader is more than the size of a segment's header.
const maxHeader = 64 << 10

// openSegment opens a journal file.
func openSegment(path string) (*os.File, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxSegment {
		return nil, fmt.Errorf("%s: is not the journal of a receiver", path)
	}
	return os.Open(path)
}

// openJournal opens and locks a journal file.
func openJournal(path string) (*os.File, error) {
	f, err := openSegment(path)
	if err != nil {
		return nil, err
	}
	if !fswrite.Lock(f) {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, ErrInUse), f.Close())
	}
	return f, nil
}

// ReplayOptions configures Replay.
type ReplayOptions struct {
	// Out is the folder for the trace files; the default is the folder of each
	// journal.
	Out string
	// Logger is used like FilesOptions.Logger; nil means slog.Default.
	Logger *slog.Logger
}

// ReplayStats counts what Replay did.
type ReplayStats struct {
	Spans   int64    `json:"spans"`         // added spans
	Placed  int64    `json:"placed"`        // spans that the trace files already had
	Damaged int64    `json:"damaged_bytes"` // bytes that are not entries
	Lost    int64    `json:"lost"`          // lines that the disk did not take
	Files   []string `json:"files"`         // new files
}

// Replay adds the spans of journals that receivers have left behind to further
// trace files in their folders, except for spans that the trace files already
// have. Each journal is deleted when everything in it is in the files; until
// then Replay can be called again, with the same Out.
func Replay(ctx context.Context, paths []string, o *ReplayOptions) (st ReplayStats, err error) {
	r := replay{ctx: ctx, o: o, stats: &st}
	defer func() {
		for _, f := range r.open {
			err = errors.Join(err, f.Close())
		}
	}()
	byOut := make(map[string][]segmentRead)
	for _, path := range paths {
		s, f, err := readJournal(path)
		if err != nil {
			return st, err
		}
		r.open = append(r.open, f)
		out := cmp.Or(o.Out, filepath.Dir(path))
		byOut[out] = append(byOut[out], s)
	}
	for out, list := range byOut {
		if err := r.folder(out, append(list, r.earlier(out, list)...)); err != nil {
			return st, err
		}
	}
	for _, f := range r.open {
		if err := fswrite.Remove(f.Name(), fswrite.Same(f)); err != nil {
			return st, err
		}
	}
	for _, f := range r.made {
		f.journal.discard()
	}
	return st, nil
}

// job returns the part of a header that receivers and replays of one job have in common:
// their spans go to the same files.
func (h journalHeader) job() string {
	h.PID, h.Replay = 0, false
	text, err := json.Marshal(h)
	if err != nil {
		panic(err) // texts and numbers can always be encoded
	}
	return string(text)
}

// replay is one call of Replay.
type replay struct {
	ctx   context.Context //nolint:containedctx // of the call
	o     *ReplayOptions
	stats *ReplayStats
	open  []*os.File // the journals, locked
	made  []*Files   // what was written

	// Of the journals with the same folder for the trace files.
	files  map[string]*found
	known  map[place.Key]struct{} // spans that are in a file
	events map[spanEvent]struct{} // events that are in a file
}

// spanEvent identifies an event of a span, with its name and time as in a file.
type spanEvent struct {
	span     place.Key
	name, at string
}

func eventOf(span place.Key, e *otlpspan.Event) spanEvent {
	return spanEvent{span, place.Bounded(e.Name), strconv.FormatInt(otlpspan.Micros(e.Time), 10)}
}

// segmentRead is a parsed segment.
type segmentRead struct {
	header  journalHeader
	records []record
	damaged int64
}

// found is what a trace file has of the spans of a journal, by their ids.
type found struct {
	spans  map[uint64]presence
	events map[eventFound]struct{}
}

// presence is how a span is in a file.
type presence uint8

const (
	absent    presence = iota
	present            // the file has its record
	truncated          // a record marks it as not ended, or the span itself does
)

type eventFound struct {
	id       uint64
	name, at string
}

// readJournal opens and parses a journal file. Its records name the trace files by
// their paths.
func readJournal(path string) (s segmentRead, f *os.File, err error) {
	if f, err = openJournal(path); err != nil {
		return s, nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSegment))
	if err != nil {
		return s, nil, errors.Join(err, f.Close())
	}
	if s.header, s.records, s.damaged, err = readSegment(text); err != nil {
		return s, nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	for i := range s.records {
		for j := range s.records[i].places {
			if p := &s.records[i].places[j]; p.file != "" {
				p.file = filepath.Join(filepath.Dir(path), p.file)
			}
		}
	}
	return s, f, nil
}

// earlier returns the journals in a folder of replays that did not succeed, of the jobs
// of some segments.
func (r *replay) earlier(out string, of []segmentRead) (list []segmentRead) {
	entries, _ := os.ReadDir(out) // a folder that cannot be read cannot be written
	for _, e := range entries {
		path := filepath.Join(out, e.Name())
		if !journalNames.MatchString(e.Name()) || slices.ContainsFunc(r.open, func(f *os.File) bool { return named(f, path) }) {
			continue
		}
		s, f, err := readJournal(path)
		if err != nil {
			continue // a receiver is writing it
		}
		if s.header.Replay && slices.ContainsFunc(of, func(o segmentRead) bool { return o.header.job() == s.header.job() }) {
			r.open = append(r.open, f)
			list = append(list, s)
		} else {
			_ = f.Close() // only read
		}
	}
	return list
}

// named reports whether an open file has a path.
func named(f *os.File, path string) bool {
	have, err := f.Stat()
	other, statErr := os.Stat(path)
	return err == nil && statErr == nil && os.SameFile(have, other)
}

// folder replays the segments whose spans go to the same folder: those of one receiver,
// or of several with the same job, go to the same files.
func (r *replay) folder(out string, list []segmentRead) error {
	r.files, r.known, r.events = make(map[string]*found), make(map[place.Key]struct{}), make(map[spanEvent]struct{})
	jobs := make(map[string][]segmentRead)
	for _, s := range list {
		r.stats.Damaged += s.damaged
		jobs[s.header.job()] = append(jobs[s.header.job()], s)
	}
	if err := r.look(list); err != nil {
		return err
	}
	for _, same := range jobs {
		if err := r.job(out, same); err != nil {
			return err
		}
	}
	return nil
}

// look finds the spans and events that are in the files.
func (r *replay) look(list []segmentRead) error {
	for rec := range records(list) {
		for i := range rec.places {
			r.want(&rec.places[i])
		}
	}
	for path, f := range r.files {
		if err := f.look(r.ctx, path); err != nil {
			return err
		}
	}
	// A span may have several entries: its sender has repeated it, or a replay did not
	// succeed.
	for rec := range records(list) {
		r.eachSpan(rec, func(src *otlpspan.Span, scope string, in *found, id uint64) {
			if in == nil {
				return
			}
			if e, _, ok := otlpspan.Folded(src, scope); ok {
				r.note(src.Parent(), &e, in, id)
			}
			k := src.Key()
			if !k.IsZero() && in.has(src, id) {
				r.known[k] = struct{}{}
			}
			for i := range src.Events {
				r.note(k, &src.Events[i], in, id)
			}
		})
	}
	return nil
}

// note notes an event of a span that a file has.
func (r *replay) note(span place.Key, e *otlpspan.Event, in *found, id uint64) {
	if !span.IsZero() && in.hasEvent(e, id) {
		r.events[eventOf(span, e)] = struct{}{}
	}
}

// hasEvent reports whether an event is in a file: in that of its span, or in one that a
// replay made.
func (r *replay) hasEvent(span place.Key, e *otlpspan.Event, in *found, id uint64) bool {
	_, ok := r.events[eventOf(span, e)]
	return ok || in.hasEvent(e, id)
}

// records yields the entries of some segments.
func records(list []segmentRead) iter.Seq[*record] {
	return func(yield func(*record) bool) {
		for _, s := range list {
			for i := range s.records {
				if !yield(&s.records[i]) {
					return
				}
			}
		}
	}
}

// want adds the spans to look for in a file.
func (r *replay) want(p *recorded) {
	if p.file == "" {
		return
	}
	f := r.files[p.file]
	if f == nil {
		f = &found{spans: make(map[uint64]presence), events: make(map[eventFound]struct{})}
		r.files[p.file] = f
	}
	for _, id := range p.ids {
		f.spans[id] = absent
	}
}

// look reads which of them a file has. A missing file has none.
func (f *found) look(ctx context.Context, path string) error {
	_, err := dftracer.Scan(path, &dftracer.ReaderOptions{Stop: ctx.Err}, func(ev *dftracer.Event) error {
		switch {
		case ev.Phase == dftracer.PhaseComplete:
			if was, wanted := f.spans[ev.ID]; wanted && was != present {
				f.spans[ev.ID] = present
				if _, open := ev.Arg(place.ArgTruncated); open {
					f.spans[ev.ID] = truncated
				}
			}
		case ev.Phase == dftracer.PhaseMetadata && ev.Name == tracefile.NameCustom:
			span, of := ev.Arg(place.ArgSpan)
			if id := uint64(span.Int64()); of { //nolint:gosec // as it was written
				if _, wanted := f.spans[id]; wanted {
					name, _ := ev.Arg("name")
					at, _ := ev.Arg("value")
					f.events[eventFound{id, name.Text(), at.Text()}] = struct{}{}
				}
			}
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) || fsread.Torn(err) {
		return nil
	}
	return err
}

// has reports whether a file has a span.
func (f *found) has(src *otlpspan.Span, id uint64) bool {
	switch f.spans[id] {
	case present:
		return true
	case truncated:
		return slices.ContainsFunc(src.Attributes, func(a otlpspan.Attribute) bool { return a.Key == place.ArgTruncated })
	}
	return false
}

// hasEvent reports whether a file has an event.
func (f *found) hasEvent(e *otlpspan.Event, id uint64) bool {
	_, ok := f.events[eventFound{id, place.Bounded(e.Name), strconv.FormatInt(otlpspan.Micros(e.Time), 10)}]
	return ok
}

// eachSpan calls fn for each span of a record, with the file to which its receiver
// wrote it, nil if it did not, and its id there. It returns nil if the request is
// damaged.
func (r *replay) eachSpan(rec *record, fn func(src *otlpspan.Span, scope string, in *found, id uint64)) *Batch {
	b, err := NewBatch(rec.body, nil)
	if err != nil {
		return nil
	}
	places := rec.places
	for i := range b.Spans {
		rs := &b.Spans[i]
		if rs.Len == 0 {
			continue
		}
		var at recorded
		if len(places) > 0 {
			at, places = places[0], places[1:]
		}
		in := r.files[at.file] // there is none without a name
		if len(at.ids) != rs.Len {
			in, at.ids = nil, make([]uint64, rs.Len)
		}
		for src, scope := range rs.Spans() {
			fn(src, scope, in, at.ids[0])
			at.ids = at.ids[1:]
		}
	}
	return b
}

// job replays the entries of one job.
func (r *replay) job(out string, list []segmentRead) error {
	h := list[0].header
	pid := 0
	files := newFiles(&FilesOptions{
		Dir: out, SessionTag: h.SessionTag, JobID: h.JobID, Attempt: h.Attempt, Logger: r.o.Logger, Journal: true,
		MaxJournal: math.MaxInt64, replay: true, PID: func(net.Addr) int { return pid },
	}, cmp.Or(h.Host, identity.HostName()))
	r.made = append(r.made, files)
	files.made = func(path string) { r.stats.Files = append(r.stats.Files, path) }
	for _, s := range list {
		slices.SortStableFunc(s.records, func(a, b record) int { return cmp.Compare(a.number, b.number) })
	}
	var err error
	for rec := range records(list) {
		pid = rec.pid
		if err = errors.Join(r.ctx.Err(), r.writeMissing(files, rec)); err != nil {
			break
		}
	}
	closed := files.Close(context.WithoutCancel(r.ctx))
	st := files.Stats()
	r.stats.Lost += st.Lost
	if err = errors.Join(err, closed); err == nil && st.Lost > 0 {
		err = fmt.Errorf("%s: %d lines were not written", out, st.Lost)
	}
	slices.Sort(r.stats.Files)
	return err
}

// partly is where a span is whose file lacks some of its events: the receiver was
// killed between the two.
type partly struct {
	in *found
	id uint64
}

// writeMissing writes the part of a request that the files lack.
func (r *replay) writeMissing(files *Files, rec *record) error {
	if rec.number == eventsOnly {
		return nil
	}
	var lacking []bool // for each span of the request
	events := make(map[int]partly)
	taken := int64(0)
	b := r.eachSpan(rec, func(src *otlpspan.Span, scope string, f *found, id uint64) {
		n := len(lacking)
		lacking = append(lacking, false)
		if f == nil {
			return
		}
		if e, _, ok := otlpspan.Folded(src, scope); ok {
			_, span := r.known[src.Parent()]
			lacking[n] = !span && f.spans[id] != present && !r.hasEvent(src.Parent(), &e, f, id)
			return
		}
		k, has := src.Key(), f.has(src, id)
		if has && slices.ContainsFunc(src.Events, func(e otlpspan.Event) bool { return !r.hasEvent(k, &e, f, id) }) {
			events[n] = partly{f, id}
		}
		if _, known := r.known[k]; has || known {
			r.stats.Placed++
			return
		}
		lacking[n] = true
		taken++
		if !k.IsZero() {
			r.known[k] = struct{}{}
		}
	})
	if b == nil {
		return nil
	}
	n := 0
	for i := range b.Spans {
		if err := r.writeEvents(files, rec, &b.Spans[i], n, events); err != nil {
			return err
		}
		n += b.Spans[i].Len
	}
	if !slices.Contains(lacking, true) {
		return nil
	}
	b, err := NewBatch(otlpspan.Filter(rec.body, func() bool {
		keep := lacking[0]
		lacking = lacking[1:]
		return keep
	}), &net.TCPAddr{})
	if err != nil {
		return err
	}
	// The replay's own journal has the span until it is in the files, so that a
	// kill of the replay loses nothing.
	for {
		err := files.Take(r.ctx, b)
		var noFile unsavedError
		if !errors.Is(err, ErrLater) || errors.As(err, &noFile) {
			r.stats.Spans += taken
			return err
		}
		select {
		case <-r.ctx.Done():
			return err
		case <-time.After(orderWindow / 4):
		}
	}
}

// eventsOnly is the number of an entry whose spans are in other files: those that it
// names have events of them.
const eventsOnly = 0

// writeEvents writes the missing events of a resource's spans. The first of these spans is
// number n of the request.
func (r *replay) writeEvents(files *Files, rec *record, rs *otlpspan.ResourceSpans, n int, missing map[int]partly) (err error) {
	if len(missing) == 0 || rs.Len == 0 {
		return nil
	}
	id := rs.Resource.Identity()
	withErr := files.with(place.SenderOf(&id, files.host, rec.pid), rs, time.Now(), func(p *process, w *dftracer.Writer) {
		at := recorded{file: filepath.Base(w.Path())}
		i := -1
		body := otlpspan.Filter(rec.body, func() bool {
			i++
			m, ok := missing[i]
			if ok = ok && i >= n && i < n+rs.Len; ok {
				at.ids = append(at.ids, m.id)
			}
			return ok
		})
		if len(at.ids) == 0 {
			return
		}
		if err = files.journal.append(&request{pid: rec.pid, places: []recorded{at}, body: body}, eventsOnly); err != nil {
			return
		}
		i = n
		for src := range rs.Spans() {
			m, ok := missing[i]
			i++
			for j := 0; ok && j < min(len(src.Events), p.conv.Limits.Events); j++ {
				e := p.conv.Event(&src.Events[j])
				if !r.hasEvent(src.Key(), &src.Events[j], m.in, m.id) {
					p.asm.WriteEvent(&e, m.id)
				}
			}
		}
	})
	return errors.Join(err, withErr)
}
