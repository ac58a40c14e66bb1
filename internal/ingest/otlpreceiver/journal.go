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
)

// A journal holds what was acknowledged and is not known to be in the trace files. It
// is a few files in their directory, its segments. Each begins with a header, a JSON
// object about the receiver, and goes on with entries, one for each request:
//
//	"tsJ1"  size of the payload, 4 bytes  CRC-32C of size and payload, 4 bytes  payload
//
// The payload of an entry has, as varints, its number and the process of the sender, and
// for each resource with spans the name of its trace file and the ids that its spans have
// there; then the request in protobuf. By the ids a replay knows which spans are in the
// file already. An entry is written with one call before the request is answered: what
// the system has taken outlives the process, not the machine.

// Limits of a journal.
const (
	DefaultMaxJournal = 64 << 20

	segmentSize = 4 << 20          // from which on another segment is begun
	segmentAge  = 10 * time.Second // the same, from the first entry on
	segmentIdle = 3 * time.Second  // the same, from the last entry on
	journalWait = time.Second      // how long a request waits for its entry to be written

	maxSegment = 256 << 20 // that is read
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
}

// journalVersion grows when a field changes its meaning.
const journalVersion = 1

// recorded says where spans of one resource are: the ids of their records in a trace file.
type recorded struct {
	file string // its name in the directory; empty for spans that are not ours
	ids  []uint64
}

// journal is the journal of a receiver. It is safe for concurrent use.
type journal struct {
	dir    string
	log    *slog.Logger
	header []byte // an entry
	most   int64
	lost   func() int64 // lines that trace files have lost so far
	create func(path string) (segmentFile, error)

	work   chan *entry
	stop   chan struct{}
	ended  chan struct{} // closed when nothing is written any more
	full   chan struct{} // asks for a tick: a segment is retired
	number atomic.Uint64 // of the last entry

	looking sync.Mutex // held by tick, and taken before mu

	mu      sync.Mutex // held while a segment is written
	names   int        // that were taken
	now     *segment
	retired []*segment // wait for their spans to be in the files, the oldest first
	kept    []*segment // with spans of which lines were lost
	free    []*segment // empty
	bytes   int64      // of all
	failed  bool       // the last entry was not written
}

// segmentFile is what a journal needs of a file.
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
	first, last time.Time // when entries were written
	retired     time.Time
	lost        int64 // lines that had been lost when it began
}

// entry is one on its way to the file.
type entry struct {
	text []byte
	done chan error
}

// request is what an entry holds.
type request struct {
	pid    int // of the sender; 0 is unknown
	places []recorded
	body   []byte
}

func newJournal(f *Files) *journal {
	j := &journal{
		dir: f.o.Dir, log: f.o.Logger, most: orDefault(f.o.MaxJournal, DefaultMaxJournal), lost: f.watch.lost.Load, create: createSegment,
		work: make(chan *entry), stop: make(chan struct{}), ended: make(chan struct{}), full: make(chan struct{}, 1),
	}
	header, err := json.Marshal(journalHeader{Version: journalVersion, Host: f.host, PID: os.Getpid(), SessionTag: f.o.SessionTag, JobID: f.o.JobID, Attempt: f.o.Attempt})
	if err != nil {
		panic(err) // it holds texts and numbers
	}
	j.header = seal(append(make([]byte, entryHead), header...))
	go j.run()
	return j
}

// createSegment makes a file that nobody else has, and locks it: an import takes none
// that is locked.
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

// seal fills in the head of an entry.
func seal(text []byte) []byte {
	copy(text, entryMagic)
	binary.LittleEndian.PutUint32(text[4:], uint32(len(text)-entryHead)) //nolint:gosec // requests are bounded
	sum := crc32.Update(crc32.Checksum(text[4:8], castagnoli), castagnoli, text[entryHead:])
	binary.LittleEndian.PutUint32(text[8:], sum)
	return text
}

// run writes the entries, one after the other: a disk that takes nothing holds it up,
// and nothing else.
func (j *journal) run() {
	defer close(j.ended)
	for {
		select {
		case e := <-j.work:
			e.done <- j.write(e.text, time.Now())
		case <-j.stop:
			return
		}
	}
}

// append writes an entry, or fails after a moment.
func (j *journal) append(r *request) error {
	e := &entry{text: r.encode(j.number.Add(1)), done: make(chan error, 1)}
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

// write writes an entry to the segment of this moment.
func (j *journal) write(text []byte, now time.Time) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	err := j.writeLocked(text, now)
	was := j.failed
	if j.failed = err != nil; j.failed && !was {
		j.log.Warn("cannot write the journal of acknowledged spans: senders are asked to retry later", "dir", j.dir, "error", err, "see", helptopic.File)
	}
	return err
}

func (j *journal) writeLocked(text []byte, now time.Time) error {
	for len(j.kept) > 0 && j.bytes+int64(len(text)) > j.most {
		j.clearLocked(j.kept[0]) // what it has of lost lines was counted
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
		s.first, s.lost = now, j.lost()
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
	if s.last = now; s.size >= segmentSize {
		j.retireLocked(now)
		j.settle()
	}
	return nil
}

// settle asks for a look at the retired segments.
func (j *journal) settle() {
	select {
	case j.full <- struct{}{}:
	default:
	}
}

// beginLocked makes an empty segment that of this moment.
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

// addLocked writes to the end of a segment. What was written of an entry that failed is
// taken back, or written over by the next one.
func (j *journal) addLocked(s *segment, text []byte) error {
	n, err := s.file.WriteAt(text, s.size)
	if err != nil {
		if n > 0 {
			_ = s.file.Truncate(s.size) // else a reader finds an entry that is cut off
		}
		return err
	}
	s.size += int64(len(text))
	j.bytes += int64(len(text))
	return nil
}

// retireLocked ends the segment of this moment.
func (j *journal) retireLocked(now time.Time) {
	j.now.retired = now
	j.retired = append(j.retired, j.now)
	j.now = nil
}

// clearLocked empties a segment, for other entries.
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
		_ = fswrite.Remove(s.path, s.ours) // else a replay finds that the files have its spans
	}
	_ = s.file.Close()
}

// tick retires a segment that is old, and empties those whose spans are in the files, by
// what settled says of what came by a time.
func (j *journal) tick(now time.Time, settled func(at time.Time) bool) {
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

// giveUpLocked empties a segment whose spans are in the files. Where a line was lost
// since it began it is kept.
func (j *journal) giveUpLocked(s *segment) {
	if j.lost() > s.lost {
		j.kept = append(j.kept, s)
	} else {
		j.clearLocked(s)
	}
}

// close ends the journal after the last entry. complete says that the trace files have
// all that was taken. It returns the segments that are left with spans that they may
// lack; the others are deleted.
func (j *journal) close(stalled <-chan struct{}, complete bool) (left []string) {
	close(j.stop)
	select {
	case <-j.ended:
	case <-stalled:
		return []string{j.dir} // a write does not come back
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.now != nil {
		j.retireLocked(time.Now())
	}
	if complete {
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
		left = append(left, s.path)
		_ = s.file.Close() // each entry was written
	}
	return left
}

// encode makes the text of an entry.
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

// append appends the ids as runs of numbers that follow one another: most requests are one.
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

// record is an entry as it is read.
type record struct {
	number uint64
	request
}

// decode reads the payload of an entry.
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
		if p.file != filepath.Base(p.file) && p.file != "" {
			return errEntry
		}
		for runs := next(); runs > 0; runs-- {
			first, n := next(), next()
			if spans += n; n == 0 || n > maxMessages || spans > maxMessages {
				return errEntry
			}
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

// readSegment reads the entries of a segment. damaged counts the bytes that are no
// entry. One that is cut off at the end is none of them: it was not acknowledged.
func readSegment(text []byte) (h journalHeader, records []record, damaged int64, err error) {
	work := 4 * len(text) // bytes that are looked at
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
		if first { // where it is damaged the spans are saved all the same
			if err := json.Unmarshal(payload, &h); err != nil {
				return h, nil, damaged, fmt.Errorf("its first entry is not that of a receiver: %w", err)
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

// entryAt returns the size of the payload of the entry that text begins with, and
// reports whether it is whole.
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
