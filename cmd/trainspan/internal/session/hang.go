//go:build unix

package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/stacks"
	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/hang"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/environ"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/report"
)

// hangs detects a hang of the job, and then stores the stacks of its ranks:
// once for each hang, for the processes of this start.
type hangs struct {
	*start
	python *pythonSide
	cancel context.CancelFunc
	done   chan struct{}

	spans int64         // the number at the last check
	since time.Time     // when that number changed
	need  time.Duration // the files are read if no span was recorded for this long
	next  time.Time     // when the files may be read again
	taken bool          // the stacks of this hang are taken
}

// Each trainspan run reads the files of all ranks, so that it finds a hang on
// its own. Long saves and evaluations must not make all of them read at once,
// again and again: a pause that was not a hang makes later ones wait longer.
const (
	// silence is the shortest hang.
	silence = 30 * time.Second
	// patience bounds need when the job has continued: the time limit of
	// collectives is ten minutes, and the stacks must be taken before.
	patience = 2 * time.Minute
	// hangShare is the part of the processors that a reading may use.
	hangShare = 4
	// taking is the time limit of each method to get a stack.
	taking = 10 * time.Second
	// mostAsked is the maximum number of ranks whose stacks are stored if all wait.
	mostAsked = 8
)

func startHangs(s *start, p *pythonSide) *hangs {
	if p == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := &hangs{start: s, python: p, cancel: cancel, done: make(chan struct{}), since: time.Now(), need: silence}
	go h.follow(ctx)
	return h
}

func (h *hangs) follow(ctx context.Context) {
	defer close(h.done)
	ticker := time.NewTicker(readEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			if h.due(now, h.python.drain.Stats().Spans) {
				h.try("the stacks of a hang", func() error { return h.look(ctx) })
				h.looked(now, time.Since(now))
			}
		}
	}
}

// due reports whether the job may hang: it has trained, and no span was
// recorded for the time silence.
func (h *hangs) due(now time.Time, spans int64) bool {
	if spans != h.spans {
		h.spans, h.since, h.taken, h.need = spans, now, false, min(h.need, patience)
	}
	return spans > 0 && !h.taken && now.Sub(h.since) >= h.need && !now.Before(h.next)
}

// looked notes that the files were read from a time on.
func (h *hangs) looked(at time.Time, took time.Duration) {
	h.next = at.Add(took + max(readEvery, readShare*took))
	if !h.taken {
		h.need = at.Sub(h.since) * 3 / 2
	}
}

// look reads the records of the job and, if they show a hang, stores the
// stacks. It stops when the job continues.
func (h *hangs) look(ctx context.Context) error {
	j, err := h.current(func() error {
		if h.python.drain.Stats().Spans != h.spans {
			return errContinues
		}
		return ctx.Err()
	}, max(runtime.GOMAXPROCS(0)/hangShare, 1))
	if j == nil {
		return err
	}
	for _, p := range h.asked(report.Live(j, time.Now().UnixNano()), j.Job.Processes) {
		h.taken = true // even without stacks: a second attempt would not help
		if err := h.take(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

var errContinues = errors.New("the job continues")

// asked returns the processes of this node whose stacks show the location of a
// hang: those of the ranks that the others wait for or, if these are unknown,
// the first mostAsked processes.
func (h *hangs) asked(r *report.Report, procs []*job.Process) (out []*job.Process) {
	n := len(r.Attempts)
	if n == 0 || !r.Attempts[n-1].Running {
		return nil
	}
	a := &r.Attempts[n-1]
	if a.Straggler == nil || a.Straggler.Kind != finding.Hang {
		return nil
	}
	for _, p := range procs {
		if p.Attempt == a.Number && p.Host == h.run.Host && p.End == job.NoEnd && (len(a.Straggler.Ranks) == 0 || slices.Contains(a.Straggler.Ranks, p.Rank)) {
			out = append(out, p)
		}
	}
	return out[:min(len(out), mostAsked)]
}

// take stores the stacks of a process that recorded into a ring buffer of this
// start. It returns nil if no stacks are available.
func (h *hangs) take(ctx context.Context, p *job.Process) error {
	pid := int(p.PID)
	if !h.isOurs(pid) {
		return nil
	}
	text, err := stacks.Take(ctx, pid, taking, filepath.SplitList(h.python.rings)...)
	if err != nil {
		return nil //nolint:nilerr // the screen lacks the line
	}
	path := filepath.Join(h.dir, hang.StackName(p.Rank, p.PID, time.Now()))
	_, err = fswrite.NextFree(1, func(n int) error {
		_, err := fswrite.Write(fswrite.Run(path, n), text, 0o644, nil)
		return err
	})
	return err
}

// isOurs reports whether a process is a descendant of this trainspan run. The
// id of a process on another machine or in a container may belong to any
// process here.
func (h *hangs) isOurs(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && pid > 0 && slices.Contains(strings.Split(string(text), "\x00"), environ.Run+"="+h.token)
}

// close ends the detection.
func (h *hangs) close() {
	if h != nil {
		h.cancel()
		<-h.done
	}
}
