//go:build unix

package session

import (
	"context"
	"errors"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/jobmetrics"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/report"
)

// jobMetrics serves metrics from the files of the job while the command runs.
type jobMetrics struct {
	server *jobmetrics.Server
	stop   chan struct{}
	done   chan struct{}
}

// Limits of reading: the files are read at most every readEvery, and reading
// takes at most a fiftieth of the time, so that it does not slow training on
// the same machine.
const (
	readEvery = 5 * time.Second
	readShare = 50
)

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
	m := &jobMetrics{server: server, stop: make(chan struct{}), done: make(chan struct{})}
	go m.follow(s)
	return m, nil
}

// follow reads the files of all starts of the job from time to time.
func (m *jobMetrics) follow(s *start) {
	defer close(m.done)
	rest := readEvery
	for {
		select {
		case <-m.stop:
			return
		case <-time.After(rest):
		}
		begun := time.Now()
		s.try("the metrics of the job", func() error { return m.read(s.where.Job) })
		rest = max(readEvery, readShare*time.Since(begun))
	}
}

var errStopped = errors.New("the command has ended")

// read updates the metrics from the current files.
func (m *jobMetrics) read(dir string) error {
	stopped := func() error {
		select {
		case <-m.stop:
			return errStopped
		default:
			return nil
		}
	}
	state, err := report.Load(stopped, dir)
	switch {
	case errors.Is(err, job.ErrNoTelemetry), errors.Is(err, errStopped):
		return nil // there is no telemetry yet, or the serving ends
	case err != nil:
		return err
	}
	for _, j := range state.Jobs() {
		if len(j.Job.Processes) > 0 {
			m.server.Set(j, report.Live(j, time.Now().UnixNano()))
			break
		}
	}
	return nil
}

// close ends the serving.
func (m *jobMetrics) close(ctx context.Context) error {
	close(m.stop)
	<-m.done
	return m.server.Close(ctx)
}
