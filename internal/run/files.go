package run

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/dftracer"
)

// maxFiles bounds the files of a process that are told apart.
const maxFiles = 4096

// FileUse is what one or more processes did with one file, as far as their
// traces say: DFTracer's events of the categories POSIX and STDIO. Where a file
// has both, those of STDIO are left out, because the C library's calls end in
// calls to the system.
type FileUse struct {
	Path    string // the hash where no record has the name; empty for calls that name no file
	Read    Transfer
	Written Transfer
	Other   Transfer // calls that move nothing: open64, stat, lseek64; their Bytes are 0
	Failed  int64    // calls of all kinds
}

// Transfer adds up calls.
type Transfer struct {
	Calls int64 `json:"calls"`
	Bytes int64 `json:"bytes"`
	Time  int64 `json:"time_ns"` // of all calls together, whether they overlap or not
	Least int64 `json:"least"`   // bytes of the smallest call
	Most  int64 `json:"most"`    // bytes of the largest call
	// Longest is the time of the longest call.
	Longest int64 `json:"longest_ns"`
}

// Add adds the calls of o.
func (t *Transfer) Add(o Transfer) {
	if o.Calls == 0 {
		return
	}
	if t.Calls == 0 {
		*t = o
		return
	}
	t.Calls, t.Bytes, t.Time = t.Calls+o.Calls, t.Bytes+o.Bytes, t.Time+o.Time
	t.Least, t.Most, t.Longest = min(t.Least, o.Least), max(t.Most, o.Most), max(t.Longest, o.Longest)
}

// Add adds what o did with the same file.
func (u *FileUse) Add(o *FileUse) {
	u.Read.Add(o.Read)
	u.Written.Add(o.Written)
	u.Other.Add(o.Other)
	u.Failed += o.Failed
}

// Time is that of all calls together.
func (u *FileUse) Time() int64 { return u.Read.Time + u.Written.Time + u.Other.Time }

func (u *FileUse) used() bool { return u.Read.Calls+u.Written.Calls+u.Other.Calls > 0 }

// fileUse is what is known of a file while its trace is read.
type fileUse struct{ posix, stdio FileUse }

// direction is what a call does to the content of a file.
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

// fileCall counts an event that stands for one call on a file, or for several.
func (t *traceReader) fileCall(p *traceProcess, ev *dftracer.Event) {
	std := len(ev.Cat) == 5 && strings.EqualFold(ev.Cat, "stdio")
	if !std && !(len(ev.Cat) == 5 && strings.EqualFold(ev.Cat, "posix")) {
		return
	}
	c := Transfer{Calls: 1, Time: max(ev.Dur, 0) * t.scale}
	c.Longest = c.Time
	var failed, ret int64
	hash, many, sized := "", false, false
	for i := range ev.Args {
		a := &ev.Args[i]
		switch a.Key {
		case "fhash":
			hash = a.Text()
		case "ret":
			ret = a.Int64()
		case "dft_cnt":
			c.Calls, many = max(a.Int64(), 1), true
		case "dur_sum":
			c.Time = a.Int64() * t.scale
		case "dur_max":
			c.Longest = a.Int64() * t.scale
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

// nameFiles makes the list of files, now that all their names are known.
func (t *traceReader) nameFiles(p *traceProcess) {
	for _, hash := range slices.Sorted(maps.Keys(p.files)) {
		u := p.files[hash]
		use := u.posix
		if !use.used() {
			use = u.stdio
		}
		use.Path = cmp.Or(t.paths[hash], hash)
		p.Files = append(p.Files, use)
	}
}
