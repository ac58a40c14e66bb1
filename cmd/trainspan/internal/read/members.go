package read

import (
	"bytes"
	"context"
	"os"
	"runtime"
	"sync"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/filetime"
	"github.com/trainspan/trainspan/internal/infile"
	runs "github.com/trainspan/trainspan/internal/run"
)

// Walk decompresses a file once, member by member, and has its lines parsed by
// several goroutines. It returns what it found, and the gzip members.
func Walk(ctx context.Context, path string, bar *ui.Progress) (*Tally, []Member, error) {
	t, members, err := walkBy(ctx, path, bar, JudgeBy(0, false))
	if err == nil && !t.judge.Right() {
		return walkBy(ctx, path, bar, JudgeBy(t.judge.Median(), true))
	}
	return t, members, err
}

// walkBy is walk where the times are judged so.
func walkBy(ctx context.Context, path string, bar *ui.Progress, judge *filetime.Judge) (*Tally, []Member, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	who := &sharedTracker{FileTracker: runs.NewTracker(path).File(path)}
	todo := make(chan *chunk)
	order := make(chan *chunk, 2*runtime.GOMAXPROCS(0))
	var workers, collector sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for c := range todo {
				c.result <- parseChunk(c.text, who)
				chunkBuffers.Put(&c.buf)
			}
		})
	}
	total := newTally(who)
	total.judge = judge
	var parts []Member // what is counted by the lines
	collector.Go(func() {
		for c := range order {
			t := <-c.result
			total.merge(t)
			parts = countPart(parts, c.member, t)
		}
	})
	w := &walker{src: &ui.Meter{R: f}, emit: func(c *chunk) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.result = make(chan *Tally, 1)
		order <- c
		todo <- c
		return nil
	}, bar: bar}
	err = w.run()
	close(todo)
	close(order)
	workers.Wait()
	collector.Wait()
	if err != nil {
		return nil, nil, err
	}
	total.Text, total.Aligned = w.total, !w.across
	if w.long > 0 {
		total.Lines += w.long
		if total.Bad += w.long; total.firstBad == "" {
			total.firstBad = infile.ErrLongLine.Error()
		}
	}
	if w.cause != nil {
		total.torn(w.cause)
		total.damagedAt = w.damagedAt
	} else if total.Torn {
		total.damagedAt = w.lastLine
	}
	for i := range w.members {
		if m := &w.members[i]; i < len(parts) {
			m.Lines, m.Events, m.Metadata, m.Start, m.End = parts[i].Lines, parts[i].Events, parts[i].Metadata, parts[i].Start, parts[i].End
		}
	}
	return total, w.members, nil
}

// countPart adds the lines of a chunk to those of its member.
func countPart(parts []Member, at int, t *Tally) []Member {
	if at < 0 {
		return parts
	}
	for len(parts) <= at {
		parts = append(parts, Member{})
	}
	m := &parts[at]
	m.Lines += t.Lines
	if t.Events > 0 {
		if m.Events == 0 || t.Start < m.Start {
			m.Start = t.Start
		}
		m.End = max(m.End, t.End)
	}
	m.Events += t.Events
	m.Metadata += t.Metadata
	return parts
}

// parseChunk folds the records of some lines.
func parseChunk(text []byte, who *sharedTracker) *Tally {
	t := newTally(who)
	t.Lines = int64(bytes.Count(text, []byte("\n")))
	r, err := dftracer.NewReader(bytes.NewReader(text), nil)
	if err != nil {
		t.torn(err)
		return t
	}
	for ev, err := range r.All() {
		if err != nil {
			t.torn(err)
			break
		}
		t.add(ev)
	}
	st := r.Stats()
	t.Bad = int64(st.Bad)
	t.dialect = st.Dialect
	if st.Torn {
		t.torn(st.Cause)
	}
	if len(st.First) > 0 {
		t.firstBad = st.First[0].Error()
	}
	return t
}
