//go:build unix

package session

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/jobmetrics"
	"github.com/trainspan/trainspan/internal/export/delivery"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/report"
)

// jobMetrics serves metrics from the files of the run while the command runs.
type jobMetrics struct {
	*start
	server *jobmetrics.Server
	cancel context.CancelFunc
	done   chan struct{}
}

// Limits of reading: the files are read at most every readEvery, and reading
// takes at most a fiftieth of the time and a quarter of the processors, so that
// it does not slow training on the same machine.
const (
	readEvery      = 5 * time.Second
	readShare      = 50
	readProcessors = 4
)

// besideTraining returns the number of workers for a reading while the command runs.
func besideTraining() int { return max(runtime.GOMAXPROCS(0)/readProcessors, 1) }

// startMetrics starts serving the metrics of the job. Among the ranks of a
// launcher only the first one serves them: it reads the files of the others.
func startMetrics(s *start) (*jobMetrics, error) {
	if s.set.Metrics == "" || s.ranks.Rank.Or(0) > 0 {
		return nil, nil //nolint:nilnil // not requested
	}
	if err := jobmetrics.Check(s.set.Metrics); err != nil {
		return nil, err
	}
	server, err := jobmetrics.Serve(context.Background(), s.set.Metrics, s.log)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &jobMetrics{start: s, server: server, cancel: cancel, done: make(chan struct{})}
	go m.follow(ctx)
	return m, nil
}

// follow reads the files of the run from time to time.
func (m *jobMetrics) follow(ctx context.Context) {
	defer close(m.done)
	rest := readEvery
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(rest):
		}
		begun := time.Now()
		m.try("the metrics of the job", func() error { return m.read(ctx, besideTraining()) })
		rest = max(readEvery, readShare*time.Since(begun))
	}
}

// read updates the metrics from the current files.
func (m *jobMetrics) read(ctx context.Context, workers int) error {
	j, err := m.current(ctx.Err, workers)
	if j != nil {
		m.server.Set(j, report.Live(j, time.Now().UnixNano()))
	}
	return err
}

// close ends the serving. A receiver gets the metrics once more, as they are
// when the job has ended. A receiver that does not answer delays the end a
// little, and no file depends on it.
func (m *jobMetrics) close() error {
	m.cancel()
	<-m.done
	bounded := func(f func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(context.Background(), delivery.DefaultShutdownTimeout)
		defer cancel()
		return f(ctx)
	}
	var err error
	if m.server.Sends() {
		err = bounded(func(ctx context.Context) error { return m.read(ctx, 0) })
	}
	return errors.Join(err, bounded(m.server.Close))
}

// current reads the run of this start, without the records of earlier runs in
// its folder, with a number of workers; 0 means one per processor. It returns
// nil if nothing of this start is recorded yet, or if stop returned an error.
func (s *start) current(stop func() error, workers int) (*report.Job, error) {
	paths := []string{s.where.Dir}
	if !s.sharesFolder() {
		paths, _ = rundir.SelectAttempts(s.where.Job, s.began(), func(string) bool { return true })
	}
	set, err := job.Open(paths...)
	if errors.Is(err, job.ErrNoTelemetry) {
		return nil, nil //nolint:nilnil // documented
	}
	if err != nil {
		return nil, err
	}
	set.Stop, set.Workers = stop, workers
	found, err := report.Read(set)
	switch {
	case stop() != nil:
		return nil, nil //nolint:nilnil // documented
	case err != nil:
		return nil, err
	}
	return s.jobOf(found), nil
}
