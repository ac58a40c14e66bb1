package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/trainspan/trainspan/internal/human"
	"github.com/trainspan/trainspan/internal/infile"
	jobs "github.com/trainspan/trainspan/internal/run"
	"github.com/trainspan/trainspan/report"
)

// topShare is how many times the processor time of a reading passes from its
// begin to that of the next: top uses at most this part of one core.
const topShare = 5

// topReader reads a job again and again. Its readings come one at a time.
type topReader struct {
	paths    []string
	interval time.Duration // between the end of one reading and the next
	now      func() time.Time

	seen    uint64    // what the files were like at the last reading
	settles time.Time // when the last report has to be made again though no file has changed
}

// topReading is what one reading found.
type topReading struct {
	at   time.Time     // when it began: the records are those of then
	took time.Duration //
	rest time.Duration // until the next one

	report  *report.Report // nil when there is none, and when it is the one before
	same    bool           // no file has changed
	others  int            // jobs in the same files that are not shown
	waiting string         // what there is not yet
	err     error
}

// read reads all files, unless none has changed and it is not forced to.
func (t *topReader) read(ctx context.Context, force bool) topReading {
	out := topReading{at: t.now()}
	cpu := cpuTime()
	seen, files := t.look()
	if !force && seen == t.seen && (t.settles.IsZero() || out.at.Before(t.settles)) {
		out.same, out.rest = true, t.interval
		return out
	}
	t.job(ctx, files, &out)
	if out.err == nil {
		t.seen = seen
	}
	out.took = t.now().Sub(out.at)
	out.rest = t.pause(out.took, cpuTime()-cpu)
	return out
}

// pause is how long to wait after a reading that took some time, and some
// processor time of all cores. Where that is not known, and where files come over
// a slow network, the time counts: it reads for half of it at most.
func (t *topReader) pause(took, cpu time.Duration) time.Duration {
	return max(t.interval, topShare*cpu-took, took)
}

func (t *topReader) job(ctx context.Context, files int, out *topReading) {
	t.settles = time.Time{}
	found, err := findJobs(ctx, nil, t.paths)
	switch {
	case errors.Is(err, jobs.ErrNoTelemetry):
		out.waiting = fmt.Sprintf("there is no trace file and no JSON lines file yet (%s)", human.Plural(files, "file"))
	case errors.Is(err, errNoProcess):
		out.waiting = fmt.Sprintf("no process has written a span of its training yet (%s)", human.Plural(files, "file"))
	case err != nil:
		out.err = err
	default:
		out.report, out.others = report.Live(found[0], out.at.UnixNano()), len(found)-1
		for i := range out.report.Attempts {
			if a := &out.report.Attempts[i]; a.Running {
				t.settles = time.Unix(0, a.Stop).Add(report.Alive)
			}
		}
	}
}

// look says what the files are like, without opening them, and how many there are.
func (t *topReader) look() (seen uint64, files int) {
	h := fnv.New64a()
	var b [16]byte
	found, _ := infile.Walk(t.paths...) // what cannot be read is reported by the reading
	for _, f := range found {
		if f.Err != nil || f.Info.IsDir() {
			continue
		}
		files++
		_, _ = h.Write([]byte(f.Path)) // never fails
		binary.LittleEndian.PutUint64(b[:], uint64(f.Info.Size()))
		binary.LittleEndian.PutUint64(b[8:], uint64(f.Info.ModTime().UnixNano()))
		_, _ = h.Write(b[:])
	}
	return h.Sum64() | 1, files // 0 is before the first
}

// name is what is read.
func (t *topReader) name() string { return strings.Join(t.paths, " ") }
