package tracefile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/trainspan/trainspan/internal/platform/fsread"
)

// LineError describes a line of a trace that was skipped.
type LineError struct {
	Line int // counted from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns the cause.
func (e *LineError) Unwrap() error { return e.Err }

// TrimLine removes what may surround a record: blanks, commas between records,
// and the framing brackets.
func TrimLine(line []byte) []byte {
	if n := len(line); n > 1 && line[0] == '{' && line[n-1] == '}' {
		return line
	}
	line = bytes.TrimSpace(line)
	line = bytes.TrimSuffix(line, []byte(","))
	switch string(line) {
	case "[", "]", "][", "{", "}":
		return nil
	}
	return line
}

// GuessDialect returns the dialect of a line that was parsed into ev; before is
// the dialect of the previous lines.
func GuessDialect(line []byte, ev *Event, before Dialect) Dialect {
	if bytes.Contains(line, []byte(`"ph":"`)) {
		if ev.HostHash != "" && bytes.Contains(line, []byte(`"hhash":"`)) {
			return V2
		}
		if ev.HostHash != "" {
			return V1
		}
		return before
	}
	if bytes.Contains(line, []byte(`"ph":`+string(rune('0'+ev.Phase)))) {
		return V22
	}
	return before
}

// Piece is a part of a trace file that can be read independently: a gzip
// member, or some plain text.
type Piece struct {
	Offset int64 `json:"offset"` // bytes of the file
	Size   int64 `json:"size"`   // bytes of the file
	Text   int64 `json:"text"`   // bytes after decompression
	Lines  int64 `json:"lines"`  // line ends in the piece
	Gzip   bool  `json:"-"`
	Across bool  `json:"-"` // its first line begins in the previous piece
}

// MemberFinder finds the starts of gzip members with the same kind of header as
// head. Ten equal bytes inside compressed data are very unlikely, and the open
// method of a scan handles them.
type MemberFinder struct {
	R    io.ReaderAt
	Head [10]byte
	Size int64
	buf  []byte // the bytes read last
	at   int64  // their offset in the file
}

// Next returns the first member at or after off, or the size of the file.
func (m *MemberFinder) Next(off int64) (int64, error) {
	for off < m.Size {
		if off < m.at || off+int64(len(m.Head)) > m.at+int64(len(m.buf)) {
			if err := m.fill(off); err != nil {
				return 0, err
			}
		}
		b := m.buf[off-m.at:]
		for i := 0; ; i++ {
			j := bytes.Index(b[i:], m.Head[:4])
			if j < 0 || i+j+len(m.Head) > len(b) {
				break
			}
			i += j
			if sameHeader(b[i:i+len(m.Head)], m.Head) {
				return off + int64(i), nil
			}
		}
		if off+int64(len(b)) >= m.Size {
			break
		}
		off += int64(len(b) - len(m.Head) + 1)
	}
	return m.Size, nil
}

func (m *MemberFinder) fill(off int64) error {
	if m.buf == nil {
		m.buf = make([]byte, min(256<<10, m.Size))
	}
	m.buf = m.buf[:cap(m.buf)]
	n, err := m.R.ReadAt(m.buf[:min(int64(len(m.buf)), m.Size-off)], off)
	m.buf, m.at = m.buf[:n], off
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}

// sameHeader compares headers without the time, unless that is zero.
func sameHeader(b []byte, head [10]byte) bool {
	if !bytes.Equal(head[4:8], []byte{0, 0, 0, 0}) {
		return b[9] == head[9]
	}
	return bytes.Equal(b[4:8], head[4:8]) && b[9] == head[9]
}

// Members reads gzip members one after the other, until they reach a given
// length.
type Members struct {
	src  fsread.Counter
	buf  *bufio.Reader // the decompressor reads no more from it than it needs
	z    *gzip.Reader
	Room int64
}

// Start begins to read at off. It reuses memory.
func (m *Members) Start(r io.ReaderAt, off, size int64) {
	m.src = fsread.Counter{R: io.NewSectionReader(r, off, size-off)}
	if m.buf == nil {
		m.buf = bufio.NewReaderSize(&m.src, 32<<10)
	} else {
		m.buf.Reset(&m.src)
	}
}

// Consumed returns how many compressed bytes were used.
func (m *Members) Consumed() int64 { return m.src.N - int64(m.buf.Buffered()) }

// Next starts the next member.
func (m *Members) Next() (err error) {
	if m.z == nil {
		m.z, err = gzip.NewReader(m.buf)
	} else {
		err = m.z.Reset(m.buf)
	}
	if err == nil {
		m.z.Multistream(false)
	}
	return err
}

func (m *Members) Read(b []byte) (int, error) {
	for {
		n, err := m.z.Read(b)
		if errors.Is(err, io.EOF) {
			err = nil
			if n == 0 {
				if m.Consumed() >= m.Room {
					return 0, io.EOF
				}
				if err = m.Next(); err == nil {
					continue
				}
			}
		}
		return n, err
	}
}
