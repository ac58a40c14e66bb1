package validate

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/trainspan/trainspan/internal/infile"
)

// Stream reads a whole trace, plain or gzip, and reports everything in it
// that a strict reader could stumble over: JSON, framing, key types, the order
// of the first records, ids, parents, containment and lanes. Its memory does not
// grow with the number of events, only with that of lanes, of distinct names and
// of spans that are open at a time. The error is about reading and about
// temporary files, not about the trace.
func Stream(r io.Reader, opts *Options) (Report, error) {
	v := &validator{report: Report{Counts: make(map[string]int)}}
	if opts != nil {
		v.opts = *opts
	}
	v.begin()
	defer v.release()
	text, err := infile.Text(bufio.NewReaderSize(r, 256<<10))
	if err != nil {
		return v.report, fmt.Errorf("dftracer: validate: %w", err)
	}
	var src infile.Lines
	src.Reset(text, v.opts.Stop)
	for v.failed == nil {
		line, err := src.Next()
		if errors.Is(err, infile.ErrLongLine) {
			v.long(err)
			continue
		}
		if err != nil {
			if rest, err := src.Rest(); err != nil {
				v.long(err)
			} else if len(rest) > 0 {
				v.line(rest, false)
			}
			switch {
			case errors.Is(err, io.EOF):
			case infile.Torn(err):
				v.whole("the gzip stream is damaged or cut", "the gzip stream is damaged or cut: %v", err)
			default:
				return v.report, fmt.Errorf("dftracer: read: %w", err)
			}
			break
		}
		v.line(line, true)
	}
	v.finish()
	v.report.sortGroups()
	if v.failed != nil {
		return v.report, fmt.Errorf("dftracer: validate: %w", v.failed)
	}
	return v.report, nil
}

// File is Stream for a file.
func File(path string, opts *Options) (Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return Report{}, fmt.Errorf("dftracer: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	return Stream(f, opts)
}

func (v *validator) finish() {
	v.report.Open = len(v.open)
	v.report.Lanes = len(v.lanes)
	v.loose = v.loose || v.report.Lost > 0 // a lost event may be a parent
	twice, parents := v.relatives()
	v.insert(twice)
	if !v.opts.AllowForeign {
		v.framing()
	}
	v.append(parents)
	if !v.opts.AllowForeign {
		v.append(v.overlaps())
	}
}
