package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/display"
)

// topFiles is the number of files that a report lists.
const topFiles = 20

// fileIO adds up the file calls of the processes of a job. It returns nil if there are none.
func fileIO(j *job.Job) *IO {
	files := make(map[string]*job.FileUse)
	out := &IO{}
	for _, p := range slices.Concat(j.Processes, j.Helpers) {
		for i := range p.Files {
			use := &p.Files[i]
			out.Read.Add(use.Read)
			out.Written.Add(use.Written)
			out.Other.Add(use.Other)
			out.Failed += use.Failed
			if u := files[use.Path]; u != nil {
				u.Add(use)
				continue
			}
			copied := *use
			files[use.Path] = &copied
		}
	}
	if len(files) == 0 {
		return nil
	}
	out.Files = len(files)
	list := make([]*job.FileUse, 0, len(files))
	for _, u := range files {
		list = append(list, u)
	}
	slices.SortFunc(list, func(a, b *job.FileUse) int {
		return cmp.Or(cmp.Compare(b.Time(), a.Time()), cmp.Compare(a.Path, b.Path))
	})
	for _, u := range list[:min(len(list), topFiles)] {
		out.Slowest = append(out.Slowest, FileIO{
			Path: cmp.Or(u.Path, "(further files)"), Read: u.Read, Written: u.Written, Other: u.Other, Failed: u.Failed,
		})
	}
	return out
}

// io adds the lines about files.
func (s *screen) io(io *IO) {
	if io == nil {
		return
	}
	part := func(verb string, t job.Transfer) string {
		if t.Calls == 0 {
			return verb + " nothing"
		}
		return fmt.Sprintf("%s %s in %s of %s at %s", verb, size(t.Bytes), display.Plural(int(t.Calls), "call"), size(t.Bytes/t.Calls), rate(t))
	}
	failed := ""
	if io.Failed > 0 {
		failed = fmt.Sprintf(", %d failed", io.Failed)
	}
	s.head(fmt.Sprintf("FILES  %d: %s, %s%s", io.Files, part("read", io.Read), part("wrote", io.Written), failed))
	f := &io.Slowest[0]
	took := fmt.Sprintf("; slowest, %s in %s: ", display.Duration(f.Read.Time+f.Written.Time+f.Other.Time), display.Plural(int(f.Read.Calls+f.Written.Calls+f.Other.Calls), "call"))
	head := fmt.Sprintf("%s of open, stat and the like took %s", display.Plural(int(io.Other.Calls), "call"), display.Duration(io.Other.Time)) + took
	s.say("%s%s", head, f.Path)
}

// rate formats the throughput within the calls.
func rate(t job.Transfer) string {
	if t.Time <= 0 || t.Bytes == 0 {
		return "-"
	}
	return size(int64(float64(t.Bytes)*1e9/float64(t.Time))) + "/s"
}

// size formats a number of bytes in decimal units: 1 MB is 10^6 bytes.
func size(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/1e3, 0
	for v >= 999.5 && unit < 5 {
		v, unit = v/1e3, unit+1
	}
	digits := 0
	if v < 99.95 {
		digits = 1
	}
	return fmt.Sprintf("%.*f %cB", digits, v, "kMGTPE"[unit])
}
