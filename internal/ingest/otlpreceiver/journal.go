package otlpreceiver

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/tracefile/otlpspan"
)

// A journal holds spans that were acknowledged and are not known to be in the
// trace files. It consists of a few files in their directory, its segments.
// Each begins with a header, a JSON object about the receiver, followed by
// entries, one for each request:
//
//	"tsJ1"  size of the payload, 4 bytes  CRC-32C of size and payload, 4 bytes  payload
//
// The payload of an entry has, as varints, its number and the process of the
// sender, and for each resource with spans the name of its trace file and the
// ids of its spans there; then the request in protobuf. By the ids a replay
// knows which spans are already in the file. An entry is written with one
// system call before the request is answered, so it survives the process, but
// not the machine.

// Limits of a journal.
const (
	DefaultMaxJournal = 64 << 20

	segmentSize = 4 << 20          // size at which the next segment begins
	segmentAge  = 10 * time.Second // age at which it begins, from the first entry
	segmentIdle = 3 * time.Second  // idle time after which it begins, from the last entry
	journalWait = time.Second      // how long a request waits for its entry to be written

	maxSegment = 256 << 20 // the largest segment that is read
	entryHead  = 12
)

var (
	entryMagic = []byte("tsJ1")
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// journalHeader is the first entry of a segment.
type journalHeader struct {
	Version    int    `json:"version"`
	Host       string `json:"host"`
	PID        int    `json:"pid"`
	SessionTag string `json:"session_tag,omitempty"`
	JobID      string `json:"job,omitempty"`
	Attempt    *int   `json:"attempt,omitempty"`
	// Replay marks the journal of a replay. It has where the replay wrote the spans of
	// other journals, and is kept until they are deleted.
	Replay bool `json:"replay,omitempty"`
}

// journalVersion is increased when a field changes its meaning.
const journalVersion = 1

// recorded is where the spans of one resource are: the ids of their records in
// a trace file.
type recorded struct {
	file string // its name in the directory; empty for foreign spans
	ids  []uint64
}

// journal is the journal of a receiver. It is safe for concurrent use.
type journal struct {
	dir    string
	log    *slog.Logger
	header []byte // encoded as an entry
	replay bool   // of a replay: no segment is emptied
	most   int64
	lost   func() int64 // returns how many lines the trace files have lost so far
	create func(path string) (segmentFile, error)

	work   chan *entry
	stop   chan struct{}
	ended  chan struct{} // closed when nothing is written any more
	full   chan struct{} // requests a tick: a segment is retired
	number atomic.Uint64 // of the last entry

	looking sync.Mutex // held by tick, and locked before mu

	mu      sync.Mutex // held while a segment is written
	names   int        // names used so far
	now     *segment
	retired []*segment // wait for their spans to be in the files, oldest first
	kept    []*segment // with spans whose lines were lost
	free    []*segment // empty
	bytes   int64      // of all segments
	failed  bool       // the last entry was not written
}

// segmentFile is the part of a file that a journal uses.
type segmentFile interface {
	io.WriterAt
	Truncate(size int64) error
	Close() error
}

// segment is a file of a journal.
type segment struct {
	path        string
	file        segmentFile
	ours        fswrite.Proof
	size        int64
	entries     int
	first, last time.Time // times of the entries
	retired     time.Time
	lost        int64 // lines lost before its spans were taken
}

// entry is an entry to be written.
type entry struct {
	text []byte
	lost int64 // lines lost before its spans were taken
	done chan error
}

// request is the content of an entry.
type request struct {
	lost   int64 // as in entry
	pid    int   // of the sender; 0 if unknown
	places []recorded
	body   []byte
}

func newJournal(f *Files) *journal {
	j := &journal{
		dir: f.o.Dir, log: f.o.Logger, replay: f.o.replay, most: orDefault(f.o.MaxJournal, DefaultMaxJournal), lost: f.watch.lost.Load, create: createSegment,
		work: make(chan *entry), stop: make(chan struct{}), ended: make(chan struct{}), full: make(chan struct{}, 1),
	}
	header, err := json.Marshal(journalHeader{Version: journalVersion, Host: f.host, PID: os.Getpid(), SessionTag: f.o.SessionTag, JobID: f.o.JobID, Attempt: f.o.Attempt, Replay: f.o.replay})
	if err != nil {
		panic(err) // texts and numbers can always be encoded
	}
	j.header = seal(append(make([]byte, entryHead), header...))
	go j.run()
	return j
}

// createSegment creates and locks a file; an import skips locked files.
func createSegment(path string) (segmentFile, error) {
	f, err := fswrite.Create(path, 0o644)
	if err != nil {
		return nil, err
	}
	if !fswrite.Lock(f) {
		return nil, errors.Join(fs.ErrExist, f.Close())
	}
	return f, nil
}

// seal fills in the header of an entry.
func seal(text []byte) []byte {
	copy(text, entryMagic)
	binary.LittleEndian.PutUint32(text[4:], uint32(len(text)-entryHead)) //nolint:gosec // requests are bounded
	sum := crc32.Update(crc32.Checksum(text[4:8], castagnoli), castagnoli, text[entryHead:])
	binary.LittleEndian.PutUint32(text[8:], sum)
	return text
}

// run writes the entries, one after the other. A disk that takes nothing only
// blocks this goroutine.
func (j *journal) run() {
	defer close(j.ended)
	for {
		select {
		case e := <-j.work:
			e.done <- j.write(e, time.Now())
		case <-j.stop:
			return
		}
	}
}

// append writes an entry, or fails after journalWait.
func (j *journal) append(r *request, number uint64) error {
	e := &entry{text: r.encode(number), lost: r.lost, done: make(chan error, 1)}
	wait := time.NewTimer(journalWait)
	defer wait.Stop()
	select {
	case j.work <- e:
	case <-j.ended:
		return errJournalClosed
	case <-wait.C:
		return errJournalStalled
	}
	select {
	case err := <-e.done:
		return err
	case <-wait.C:
		return errJournalStalled
	}
}

var (
	errJournalClosed  = errors.New("the journal is closed")
	errJournalStalled = errors.New("writes to the disk do not return")
	errJournalFull    = errors.New("the journal has reached its size limit")
)

// write writes an entry to the current segment.
func (j *journal) write(e *entry, now time.Time) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	err := j.writeLocked(e, now)
	was := j.failed
	if j.failed = err != nil; j.failed && !was {
		j.log.Warn("cannot write the journal of acknowledged spans: senders are asked to retry later", "dir", j.dir, "error", err, "see", helptopic.File)
	}
	return err
}

func (j *journal) writeLocked(e *entry, now time.Time) error {
	text := e.text
	for len(j.kept) > 0 && j.bytes+int64(len(text)) > j.most {
		j.clearLocked(j.kept[0]) // its lost lines were counted
		j.kept = j.kept[1:]
	}
	if j.bytes+int64(len(text)+len(j.header)) > j.most {
		j.settle()
		return errJournalFull
	}
	if j.now == nil {
		if err := j.beginLocked(); err != nil {
			return err
		}
	}
	s := j.now
	if s.entries == 0 {
		s.first, s.lost = now, e.lost
		if err := j.addLocked(s, j.header); err != nil {
			return err
		}
	}
	if err := j.addLocked(s, text); err != nil {
		if s.entries == 0 {
			j.clearLocked(s)
			j.now = nil
		}
		return err
	}
	s.entries++
	s.lost = min(s.lost, e.lost)
	if s.last = now; s.size >= segmentSize {
		j.retireLocked(now)
		j.settle()
	}
	return nil
}

// settle requests a check of the retired segments.
func (j *journal) settle() {
	select {
	case j.full <- struct{}{}:
	default:
	}
}

// beginLocked makes an empty segment the current one.
func (j *journal) beginLocked() error {
	if n := len(j.free); n > 0 {
		j.now, j.free = j.free[n-1], j.free[:n-1]
		return nil
	}
	var s *segment
	n, err := fswrite.NextFree(j.names, func(n int) error {
		path := filepath.Join(j.dir, fmt.Sprintf(journalName, n))
		f, err := j.create(path)
		if err != nil {
			return err
		}
		s = &segment{path: path, file: f}
		if f, ok := f.(*os.File); ok {
			s.ours = fswrite.Same(f)
		}
		return nil
	})
	if err != nil {
		return err
	}
	j.names, j.now = n+1, s
	return nil
}

// addLocked writes to the end of a segment. If it fails, the written part is
// removed, or overwritten by the next entry.
func (j *journal) addLocked(s *segment, text []byte) error {
	n, err := s.file.WriteAt(text, s.size)
	if err != nil {
		if n > 0 {
			_ = s.file.Truncate(s.size) // otherwise a reader finds a truncated entry
		}
		return err
	}
	s.size += int64(len(text))
	j.bytes += int64(len(text))
	return nil
}

// retireLocked ends the current segment.
func (j *journal) retireLocked(now time.Time) {
	j.now.retired = now
	j.retired = append(j.retired, j.now)
	j.now = nil
}

// clearLocked empties a segment for reuse.
func (j *journal) clearLocked(s *segment) {
	j.bytes -= s.size
	if s.file.Truncate(0) != nil {
		j.remove(s)
		return
	}
	s.size, s.entries, s.lost = 0, 0, 0
	j.free = append(j.free, s)
}

// remove deletes a segment.
func (j *journal) remove(s *segment) {
	if s.ours != nil {
		_ = fswrite.Remove(s.path, s.ours) // otherwise a replay finds its spans in the files
	}
	_ = s.file.Close()
}

// tick retires an old segment, and empties those whose spans are in the files;
// settled reports whether everything that came before a time is in the files.
func (j *journal) tick(now time.Time, settled func(at time.Time) bool) {
	if j.replay {
		return
	}
	j.looking.Lock()
	defer j.looking.Unlock()
	if !j.mu.TryLock() {
		return // it is being written, or writes to the disk do not return
	}
	if s := j.now; s != nil && s.entries > 0 && (now.Sub(s.first) >= segmentAge || now.Sub(s.last) >= segmentIdle) {
		j.retireLocked(now)
	}
	var newest time.Time
	n := 0
	for ; n < len(j.retired) && (n == 0 || now.Sub(j.retired[n].retired) >= orderWindow); n++ {
		newest = j.retired[n].retired
	}
	j.mu.Unlock()
	if n == 0 || !settled(newest) {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range j.retired[:n] {
		j.giveUpLocked(s)
	}
	j.retired = slices.Delete(j.retired, 0, n)
}

// giveUpLocked empties a segment whose spans are in the files. If a line was
// lost since they were taken, the segment is kept.
func (j *journal) giveUpLocked(s *segment) {
	if j.lost() > s.lost {
		j.kept = append(j.kept, s)
	} else {
		j.clearLocked(s)
	}
}

// closeGrace is for how long close waits for a write although its time has ended.
const closeGrace = time.Second

// close ends the journal after the last entry. complete means that the trace
// files have everything accepted. Segments whose spans may be missing in the files
// are left, and all those of a replay.
func (j *journal) close(stalled <-chan struct{}, complete bool) {
	close(j.stop)
	select {
	case <-j.ended:
	case <-stalled:
		select { // the time may have ended before the call
		case <-j.ended:
		case <-time.After(closeGrace):
			return // a write does not return
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.now != nil {
		j.retireLocked(time.Now())
	}
	if complete && !j.replay {
		for _, s := range j.retired {
			j.giveUpLocked(s)
		}
		j.retired = nil
	}
	for _, s := range j.free {
		j.remove(s)
	}
	j.free = nil
	for _, s := range append(j.retired, j.kept...) {
		_ = s.file.Close() // each entry was written
	}
}

// discard deletes the segments of a replay, after close.
func (j *journal) discard() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range j.retired {
		j.remove(s)
	}
	j.retired = nil
}

// encode returns an entry.
func (r *request) encode(number uint64) []byte {
	size := entryHead + 8*binary.MaxVarintLen64 + len(r.body)
	for i := range r.places {
		size += len(r.places[i].file) + 6*binary.MaxVarintLen64
	}
	dst := append(make([]byte, 0, size), make([]byte, entryHead)...)
	dst = binary.AppendUvarint(dst, number)
	dst = binary.AppendUvarint(dst, uint64(max(r.pid, 0))) //nolint:gosec // not negative
	dst = binary.AppendUvarint(dst, uint64(len(r.places)))
	for i := range r.places {
		dst = r.places[i].append(dst)
	}
	return seal(append(dst, r.body...))
}

// append appends the ids as runs of successive numbers: most requests are one
// run.
func (p *recorded) append(dst []byte) []byte {
	dst = append(binary.AppendUvarint(dst, uint64(len(p.file))), p.file...)
	runs := 0
	for i, id := range p.ids {
		if i == 0 || id != p.ids[i-1]+1 {
			runs++
		}
	}
	dst = binary.AppendUvarint(dst, uint64(runs))
	for i := 0; i < len(p.ids); {
		n := 1
		for i+n < len(p.ids) && p.ids[i+n] == p.ids[i]+uint64(n) { //nolint:gosec // not negative
			n++
		}
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, p.ids[i]), uint64(n)) //nolint:gosec // not negative
		i += n
	}
	return dst
}

// journalName is the name of a segment.
const journalName = "otlp.%d.journal"

// record is a parsed entry.
type record struct {
	number uint64
	request
}

// decode parses the payload of an entry.
func (r *record) decode(b []byte) error {
	next := func() (v uint64) {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			b, n = nil, 0
			v = 0
		}
		b = b[n:]
		return v
	}
	r.number, r.pid = next(), int(next()&(1<<31-1)) //nolint:gosec // bounded
	spans := uint64(0)
	for places := next(); places > 0; places-- {
		var p recorded
		size := next()
		if size > uint64(len(b)) {
			return errEntry
		}
		p.file, b = string(b[:size]), b[size:]
		if p.file != "" && (p.file != filepath.Base(p.file) || p.file == "." || !fs.ValidPath(p.file)) {
			return errEntry
		}
		for runs := next(); runs > 0; runs-- {
			first, n := next(), next()
			if n == 0 || n > otlpspan.MaxParts || spans+n > uint64(len(b))/2 { // a span takes two bytes of the request
				return errEntry
			}
			spans += n
			for i := range n {
				p.ids = append(p.ids, first+i)
			}
		}
		if r.places = append(r.places, p); b == nil {
			return errEntry
		}
	}
	r.body = b
	return nil
}

var errEntry = errors.New("cannot decode an entry")

// readSegment parses the entries of a segment. damaged counts the bytes that
// are not entries, except for a truncated entry at the end, which was not
// acknowledged.
func readSegment(text []byte) (h journalHeader, records []record, damaged int64, err error) {
	work := 4 * len(text) // bound for the bytes that are examined
	for at := 0; at < len(text); {
		size, ok := entryAt(text[at:])
		if !ok {
			next := at
			for !ok && work > 0 {
				skip := bytes.Index(text[next+1:], entryMagic)
				if skip < 0 {
					break
				}
				next += skip + 1
				var n int
				n, ok = entryAt(text[next:])
				work -= n
			}
			if !ok {
				if size == 0 || at+entryHead+size <= len(text) {
					damaged += int64(len(text) - at)
				}
				break
			}
			damaged += int64(next - at)
			at = next
			continue
		}
		payload, first := text[at+entryHead:at+entryHead+size], at == 0
		at += entryHead + size
		if first { // the spans are saved even if the header is damaged
			if err := json.Unmarshal(payload, &h); err != nil {
				return h, nil, damaged, fmt.Errorf("its first entry is not from a receiver: %w", err)
			}
			if h.Version > journalVersion {
				return h, nil, damaged, fmt.Errorf("has version %d, but this trainspan reads up to version %d; use a newer trainspan", h.Version, journalVersion)
			}
			continue
		}
		var r record
		if r.decode(payload) != nil {
			damaged += int64(entryHead + size)
			continue
		}
		records = append(records, r)
	}
	return h, records, damaged, nil
}

// entryAt returns the payload size of the entry at the start of text, and
// whether it is complete.
func entryAt(text []byte) (size int, ok bool) {
	if !bytes.HasPrefix(entryMagic, text[:min(len(text), len(entryMagic))]) {
		return 0, false
	}
	if len(text) < entryHead {
		return 1, false
	}
	n := binary.LittleEndian.Uint32(text[4:])
	if n == 0 || n > maxSegment || int(n) > len(text)-entryHead {
		return max(int(min(n, maxSegment)), 1), false
	}
	sum := crc32.Update(crc32.Checksum(text[4:8], castagnoli), castagnoli, text[entryHead:entryHead+int(n)])
	return int(n), sum == binary.LittleEndian.Uint32(text[8:])
}
