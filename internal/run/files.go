package run

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/dftracer"
)

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
