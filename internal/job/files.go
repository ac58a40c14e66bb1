package job

import (
	"cmp"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/fsread"
)

// direction is what a call does with the content of a file.
type direction uint8

const (
	neither direction = iota
	reads
	writes
)

var directions = map[string]direction{
	"read": reads, "pread": reads, "pread64": reads, "readv": reads, "preadv": reads, "preadv64": reads, "fread": reads, "sendfile": reads, "sendfile64": reads,
	"write": writes, "pwrite": writes, "pwrite64": writes, "writev": writes, "pwritev": writes, "pwritev64": writes, "fwrite": writes, "copy_file_range": writes,
}

// fileCall counts an event for one file call, or for several.
func (t *traceReader) fileCall(p *traceProcess, ev *dftracer.Event) {
	std := len(ev.Cat) == 5 && strings.EqualFold(ev.Cat, "stdio")
	if !std && !(len(ev.Cat) == 5 && strings.EqualFold(ev.Cat, "posix")) {
		return
	}
	c := Transfer{Calls: 1, Time: max(ev.Dur, 0) * micro}
	c.Longest = c.Time
	var failed, ret, size, items int64
	hash, many, sized := "", false, false
	for i := range ev.Args {
		a := &ev.Args[i]
		switch a.Key {
		case "fhash":
			hash = a.Text()
		case "ret":
			ret = a.Int64()
		case "size":
			size = a.Int64()
		case "count":
			items = a.Int64()
		case "dft_cnt":
			c.Calls, many = max(a.Int64(), 1), true
		case "dur_sum":
			c.Time = a.Int64() * micro
		case "dur_max":
			c.Longest = a.Int64() * micro
		case "size_sum":
			c.Bytes, sized = a.Int64(), true
		case "size_min":
			c.Least = a.Int64()
		case "size_max":
			c.Most = a.Int64()
		case "failed":
			failed = a.Int64()
		}
	}
	if !many && ret < 0 {
		failed = 1
	}
	if !sized {
		c.Bytes = max(ret, 0)
		if std && items > 0 { // fread and fwrite return items of size bytes
			c.Bytes *= max(size, 1)
		}
		c.Least, c.Most = c.Bytes, c.Bytes
	}
	u := p.fileUse(hash)
	of := &u.posix
	if std {
		of = &u.stdio
	}
	of.Failed += failed
	switch directions[ev.Name] {
	case reads:
		of.Read.Add(c)
	case writes:
		of.Written.Add(c)
	default:
		c.Bytes, c.Least, c.Most = 0, 0, 0
		of.Other.Add(c)
	}
}

func (p *traceProcess) fileUse(hash string) *fileUse {
	u := p.files[hash]
	if u != nil {
		return u
	}
	if len(p.files) >= maxFiles {
		hash = ""
		if u = p.files[hash]; u != nil {
			return u
		}
	}
	if p.files == nil {
		p.files = make(map[string]*fileUse)
	}
	u = &fileUse{}
	p.files[hash] = u
	return u
}

// nameFiles makes the list of files after all their names are known.
func (t *traceReader) nameFiles(p *traceProcess) {
	for _, hash := range slices.Sorted(maps.Keys(p.files)) {
		u := p.files[hash]
		use := u.bySystem()
		use.Path = cmp.Or(t.paths[hash], hash)
		p.Files = append(p.Files, use)
	}
}

// bySystem returns the calls on a file. If calls of both kinds read it, only those of the system count,
// because stdio makes them; the same holds for writes.
func (u *fileUse) bySystem() FileUse {
	use := u.posix
	takes := func(to, from *Transfer) {
		if to.Calls == 0 && from.Calls > 0 {
			*to = *from
			use.Failed = u.posix.Failed + u.stdio.Failed
		}
	}
	takes(&use.Read, &u.stdio.Read)
	takes(&use.Written, &u.stdio.Written)
	takes(&use.Other, &u.stdio.Other)
	return use
}

// An error of a file concerns its process only if nothing else explains it.
// These endings without an end record are distinguished:
//
//	the writer was killed, or still writes   whole gzip members, or a stream that stops at a flush; whole lines
//	the file was cut or damaged              a stream that stops elsewhere, a wrong checksum, bytes that
//	                                         are not gzip, incomplete lines, lines that are not records
//
// A file that was cut exactly between two members, at a flush or at the end of
// a line looks like that of a killed writer. The file of a killed writer that
// does not flush at the end of a record looks like one that was cut.

// fewBad is the share of unreadable lines, one in this many records, up to
// which a rank stays comparable: its steps may lack none, or a few.
const fewBad = 100

// EndLost reports whether the files of a process show neither how it ended nor
// its last state: there is no record of the end, and they are damaged or cut.
func (p *Process) EndLost() bool { return p.Cut && p.End == NoEnd }

// tear notes how a torn file ends, by the error that ended its gzip stream, nil
// for an incomplete line.
func (p *Process) tear(path string, torn bool, cause error) {
	switch {
	case !torn, errors.Is(cause, io.ErrUnexpectedEOF) && endsFlushed(path):
	case errors.Is(cause, gzip.ErrHeader):
		p.tail = true
	default:
		p.Cut = true
	}
}

// settleDamage decides whether records are missing, once the end is known:
// nothing of a trace comes after its end record.
func (p *Process) settleDamage() {
	if p.End == NoEnd {
		p.Cut = p.Cut || p.tail || p.Bad > 0
	} else {
		p.Cut = p.Cut || int64(p.Bad)*fewBad > p.Spans
	}
}

func endsFlushed(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	return err == nil && fsread.EndsFlushed(f, info.Size())
}
