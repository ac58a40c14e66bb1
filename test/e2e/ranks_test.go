package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/record/setup"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/test/e2e/servers"
)

// runRank is the main function of one rank. It reads its backend and its rank
// from the environment only.
func runRank() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // limits a test that hangs
	defer cancel()
	cfg, err := config.Load(config.LoadOptions{Partial: true})
	if err != nil {
		return err
	}
	cfg.ApplicationName = os.Getenv("OTEL_SERVICE_NAME")
	cfg.SessionTag = config.Value("two ranks of " + cfg.ApplicationName)
	cfg.WorldSize = config.Value(2)
	cfg.Training = &config.Training{PerfTag: config.Value("small"), GlobalBatchSize: config.Value(8)}
	cfg.Export = config.Export{Mode: config.ExportAll}
	b, outputs, err := setup.NewBuilder(ctx, cfg, nil)
	if err != nil {
		return err
	}
	tel, err := b.ConfigureProvider(ctx)
	if err != nil {
		return errors.Join(err, outputs.Close(ctx))
	}
	err = errors.Join(demo(ctx, tel), tel.Shutdown(ctx))
	if s := tel.Stats(); s.ExportedSpans != s.EndedSpans {
		err = errors.Join(err, fmt.Errorf("not all was delivered: %+v", s))
	}
	fmt.Println(tel.Stats().ExportedSpans)
	return err
}

// TestRanks runs a job of two processes without communication, and finds them
// in one trace.
func TestRanks(t *testing.T) {
	j := startJaeger(t, servers.JaegerOptions{})
	name := service(t)
	type rank struct {
		cmd  *exec.Cmd
		sent int
	}
	var ranks [2]rank
	errs := make(chan error, len(ranks))
	for i := range ranks {
		cmd := exec.CommandContext(untilDeadline(t), os.Args[0])
		cmd.Env = append(os.Environ(),
			roleVariable+"=rank", "OTEL_SERVICE_NAME="+name, "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+j.HTTP,
			"TRAINSPAN_JOB="+name, "OTEL_LOGS_EXPORTER=none", "OTEL_METRICS_EXPORTER=none", // Jaeger accepts only spans
			fmt.Sprint("RANK=", i), fmt.Sprint("LOCAL_RANK=", i), "WORLD_SIZE=2",
		)
		cmd.Stderr = os.Stderr
		ranks[i].cmd = cmd
		go func() {
			out, err := cmd.Output()
			if err == nil {
				_, err = fmt.Sscan(string(out), &ranks[i].sent)
			}
			errs <- err
		}()
	}
	for range ranks {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	found := spansOf(t, j.Query, name, ranks[0].sent+ranks[1].sent)
	ids, pids, roots, counts := byID(found), map[any]any{}, map[any]int{}, map[any]int{}
	for _, s := range found {
		if s.TraceID != found[0].TraceID {
			t.Fatalf("%s is in another trace, want one for the job", s.Name)
		}
		rank := s.Resource["training.rank"]
		counts[rank]++
		pids[rank] = s.Resource["process.pid"]
		if s.ParentID == "" {
			roots[rank]++
			if s.Name != spans.Application {
				t.Errorf("%s is a root, want %s", s.Name, spans.Application)
			}
		} else if ids[s.ParentID].Resource["training.rank"] != rank {
			t.Errorf("parent of %s of rank %v is a span of another rank", s.Name, rank)
		}
	}
	for i, r := range ranks {
		key := any(int64(i))
		if roots[key] != 1 || counts[key] != r.sent || pids[key] != int64(r.cmd.Process.Pid) {
			t.Errorf("rank %d: %d roots, %d spans of %d, process %v of %d; want 1 root, all spans, its process", i, roots[key], counts[key], r.sent, pids[key], r.cmd.Process.Pid)
		}
	}
	if len(ids) != len(found) {
		t.Errorf("%d spans have %d different IDs, want one each", len(found), len(ids))
	}
	trace, err := j.Query.Trace(t.Context(), found[0].TraceID)
	if err != nil || len(trace) != len(found) {
		t.Errorf("the trace has %d spans, want %d: %v", len(trace), len(found), err)
	}
}
