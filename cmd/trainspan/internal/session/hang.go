//go:build unix

package session

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	asks  time.Time     // when the message of another start may be read again
	told  int64         // the time of the last message that was written or followed
	wrote bool          // a message was written
	taken bool          // the stacks of this hang are taken
}

// A reading takes the files of all ranks, and a large job has a thousand
// starts. A long save or evaluation must not make all of them read at once,
// again and again. So one start reads, and leaves messages for the others: when
// it begins, and when it has found a hang. A pause that was not a hang makes all
// wait longer.
const (
	// silence is the shortest hang. The starts of other ranks than the first read
	// only if none before them does, because it records on, has ended, or has
	// other files: after twice this time and a second for each rank.
	silence = 30 * time.Second
	// patience bounds need when the job has continued. The time limit of
	// collectives is ten minutes, and the stacks must be taken before.
	patience = 2 * time.Minute
	// askEvery is how often the message is read in a pause.
	askEvery = 15 * time.Second
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
	h := &hangs{start: s, python: p, cancel: cancel, done: make(chan struct{}), since: time.Now()}
	h.need = h.least()
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
			switch spans := h.python.drain.Stats().Spans; {
			case h.due(now, spans):
				h.try("the stacks of a hang", func() error { return h.ask(ctx) })
				if h.due(now, spans) { // no other start has just read
					h.try("the stacks of a hang", func() error { return h.look(ctx) })
					h.looked(now, time.Since(now))
				}
			case h.asksNow(now):
				h.try("the stacks of a hang", func() error { return h.ask(ctx) })
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

// least returns the shortest pause after which this start reads the files.
func (h *hangs) least() time.Duration {
	if r := h.ranks.Rank.Or(0); r > 0 {
		return 2*silence + time.Duration(min(r, 60))*time.Second
	}
	return silence
}

// asksNow reports whether another start may have found a hang.
func (h *hangs) asksNow(now time.Time) bool {
	if h.spans == 0 || now.Sub(h.since) < silence || now.Before(h.asks) {
		return false
	}
	h.asks = now.Add(askEvery)
	return true
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
	if !h.sharesFolder() { // other jobs may have messages there
		_ = h.tell(nil) // without it others read too
	}
	j, err := h.current(func() error {
		if h.python.drain.Stats().Spans != h.spans {
			return errContinues
		}
		return ctx.Err()
	}, besideTraining())
	if j == nil {
		return err
	}
	asked := h.asked(report.Live(j, time.Now().UnixNano()), j.Job.Processes)
	if len(asked) == 0 {
		return nil
	}
	h.taken = true // even without stacks: a second attempt would not help
	return errors.Join(h.tell(asked), h.takeAll(ctx, asked))
}

// messagePath returns the file by which starts tell each other of a hang, in the
// folder of the attempt.
func (h *hangs) messagePath() string {
	dir := h.where.Dir
	if !h.sharesFolder() {
		dir = filepath.Dir(dir)
	}
	return filepath.Join(dir, ".hang")
}

// tell writes the time of a reading and, in a hang, which processes are asked for
// their stacks, a line for each.
func (h *hangs) tell(asked []waiting) error {
	h.told, h.wrote = time.Now().UnixNano(), true
	text := fmt.Appendln(nil, h.told)
	for _, p := range asked {
		text = fmt.Appendf(text, "%d %d %q\n", p.pid, p.rank, p.host)
	}
	_, err := fswrite.Write(h.messagePath(), text, 0o644, func(*os.File) error { return nil })
	return err
}

// message returns what another start has told, and when. It returns nothing if
// the message is invalid.
func (h *hangs) message() (at int64, asked []waiting) {
	f, err := os.Open(h.messagePath())
	if err != nil {
		return 0, nil
	}
	defer f.Close() //nolint:errcheck // only read
	in := bufio.NewReader(f)
	if _, err := fmt.Fscanln(in, &at); err != nil {
		return 0, nil
	}
	for {
		var p waiting
		if _, err := fmt.Fscanf(in, "%d %d %q\n", &p.pid, &p.rank, &p.host); err != nil {
			return at, asked
		}
		asked = append(asked, p)
	}
}

// ask stores the stacks if another start has found that the job hangs. A rank
// that the others wait for may record longer than they do. If another start reads
// the files, this one need not.
func (h *hangs) ask(ctx context.Context) error {
	at, asked := h.message()
	if at <= h.told || at < h.since.Add(-patience).UnixNano() {
		return nil
	}
	h.told = at
	if len(asked) == 0 {
		if read := time.Unix(0, at).Sub(h.since); !h.sharesFolder() && read > 0 {
			h.need = max(h.need, (read+askEvery)*3/2)
		}
		return nil
	}
	// Other folders than that of an attempt may have other jobs.
	h.taken = !h.sharesFolder() || slices.ContainsFunc(asked, h.isOurs)
	return h.takeAll(ctx, asked)
}

var errContinues = errors.New("the job continues")

// waiting is a process whose stacks show the location of a hang.
type waiting struct {
	host string
	pid  int64
	rank int
}

// asked returns the processes whose stacks show the location of a hang: those
// of the ranks that the others wait for or, if these are unknown, the first
// mostAsked processes of each node.
func (*hangs) asked(r *report.Report, procs []*job.Process) (out []waiting) {
	n := len(r.Attempts)
	if n == 0 || !r.Attempts[n-1].Running {
		return nil
	}
	a := &r.Attempts[n-1]
	if a.Straggler == nil || a.Straggler.Kind != finding.Hang {
		return nil
	}
	nodes := make(map[string]int)
	for _, p := range procs {
		if p.Attempt == a.Number && p.End == job.NoEnd && (len(a.Straggler.Ranks) == 0 || slices.Contains(a.Straggler.Ranks, p.Rank)) {
			if nodes[p.Host]++; nodes[p.Host] <= mostAsked {
				out = append(out, waiting{p.Host, p.PID, p.Rank})
			}
		}
	}
	return out
}

// takeAll stores the stacks of those processes that are of this start.
func (h *hangs) takeAll(ctx context.Context, asked []waiting) error {
	for _, p := range asked {
		if h.isOurs(p) {
			if err := h.take(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// take stores the stacks of a process that recorded into a ring buffer of this
// start. It returns nil if no stacks are available.
func (h *hangs) take(ctx context.Context, p waiting) error {
	text, err := stacks.Take(ctx, int(p.pid), taking, filepath.SplitList(h.python.rings)...)
	if err != nil {
		return nil //nolint:nilerr // the screen lacks the line
	}
	path := filepath.Join(h.dir, hang.StackName(p.rank, p.pid, time.Now()))
	_, err = fswrite.NextFree(1, func(n int) error {
		_, err := fswrite.Write(fswrite.Run(path, n), text, 0o644, nil)
		return err
	})
	return err
}

// isOurs reports whether a process is a descendant of this trainspan run. The
// id of a process on another machine or in a container may belong to any
// process here.
func (h *hangs) isOurs(p waiting) bool {
	if p.host != h.run.Host || p.pid <= 0 {
		return false
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
	return err == nil && slices.Contains(strings.Split(string(text), "\x00"), environ.Run+"="+h.token)
}

// close ends the detection.
func (h *hangs) close() {
	if h != nil {
		h.cancel()
		<-h.done
		h.clean()
	}
}

// clean removes the last message of this start if it was about a reading only.
func (h *hangs) clean() {
	if at, asked := h.message(); h.wrote && at == h.told && len(asked) == 0 {
		_ = fswrite.Remove(h.messagePath(), func(*os.File) error { return nil }) // a message that stays does no harm
	}
}
