//go:build unix

package telemetry_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/file"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/testkit/until"
	"github.com/trainspan/trainspan/telemetry"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// pipe makes a pipe and holds it open, so that writers do not wait for a
// reader. It is never read.
func pipe(t *testing.T, name string) (path string, reader *os.File) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	check(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return path, f
}

// stalledJob writes its trace and its JSON lines to pipes.
func stalledJob(t *testing.T) (tel *telemetry.Provider, trace, lines *os.File) {
	t.Helper()
	tracePath, trace := pipe(t, "trace.pfw")
	linesPath, lines := pipe(t, "records.jsonl")
	quiet := func(error) {}
	tel, err := telemetry.NewTrainingTelemetryBuilder().WithBaseConfig(base()).WithLogger(quietLog()).
		WithExporter(pfw.New(tracePath, &pfw.Options{Trace: &dftracer.Options{StallMemory: 1 << 20, OnError: quiet}})).
		WithExporter(file.New(linesPath, &file.Options{StallMemory: 1 << 20, OnError: quiet})).
		ConfigureProvider(context.Background())
	check(t, err)
	return tel, trace, lines
}

// text is long enough to fill a pipe and its memory with a few thousand spans.
var text = strings.Repeat("long ", 100)

func fill(tel *telemetry.Provider, n int) {
	for range n {
		_, s := tel.StartSpan(context.Background(), "step")
		s.AddEvent(text)
		s.End()
	}
}

// fileStats returns the counts of the trace and of the records.
func fileStats(tel *telemetry.Provider) (trace, records outputs.FileStats) {
	tel.Files(func(f outputs.FileStats) {
		if f.Output == "trace" {
			trace = f
		} else {
			records = f
		}
	})
	return trace, records
}

// Two files that take nothing block no call forever, and Shutdown returns by
// its deadline: both would hang here, because the pipes are not read. Losses
// are counted.
func TestStalledFiles(t *testing.T) {
	tel, _, _ := stalledJob(t)
	ctx, app := tel.Start(context.Background(), "application")
	_ = ctx
	const n = 4000
	fill(tel, n)
	within, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond) // any limit works: the pipes are not read
	defer cancel()
	if err := tel.Shutdown(within); err == nil {
		t.Error("got no error for incomplete files, want one")
	}
	app.End()                   // after the end: does nothing
	until.Nil(t, func() error { // Shutdown does not wait for the goroutine that gives up what waits for a pipe
		trace, records := fileStats(tel)
		if trace.Lost < n || records.Lost < 2*n {
			return fmt.Errorf("trace %+v\nrecords %+v", trace, records)
		}
		return nil
	})
	before := tel.Stats()
	fill(tel, 10)
	if after := tel.Stats(); after.Records != before.Records {
		t.Error("got records after the end, want none")
	}
}

// OnAppEnd on such files returns, without an error.
func TestOnAppEndWithStalledFiles(t *testing.T) {
	tracePath, _ := pipe(t, "trace.pfw")
	linesPath, _ := pipe(t, "records.jsonl")
	tel, err := telemetry.NewTrainingTelemetryBuilder().WithBaseConfig(base()).WithLogger(quietLog()).
		WithExporter(pfw.New(tracePath, nil)).WithExporter(file.New(linesPath, nil)).
		WithShutdownTimeout(20 * time.Millisecond). // any limit works: the pipes are not read
		ConfigureProvider(context.Background())
	check(t, err)
	cb := callbacks.New(tel)
	started(t)(cb.OnAppStart(context.Background()))
	fill(tel, 500)
	check(t, cb.OnAppEnd(context.Background()))
	if err := tel.Shutdown(context.Background()); err == nil {
		t.Error("the error of Shutdown lacks the missing records")
	}
}

// After a stall everything held in memory is written, and the file reports what
// is missing: what it has and what it reports as lost add up.
func TestFilesAfterAStall(t *testing.T) {
	tel, trace, lines := stalledJob(t)
	const n = 4000
	fill(tel, n)
	traceText, linesText := readAll(trace), readAll(lines)
	until.Nil(t, func() error { return tel.ForceFlush(context.Background()) }) // both files accept data again
	fill(tel, 1)
	_ = tel.Shutdown(context.Background()) // returns the losses
	tr, re := fileStats(tel)
	gotTrace, gotLines := traceText(), linesText()
	spansRead := strings.Count(gotLines, `{"type":"stop"`) + strings.Count(gotLines, `{"type":"start"`) + strings.Count(gotLines, `{"type":"event"`)
	if want := int64(3 * (n + 1)); int64(spansRead)+re.Lost != want || re.Lost == 0 {
		t.Errorf("%d records and %d lost, want %d together and some lost", spansRead, re.Lost, want)
	}
	if !strings.Contains(gotLines, "records are missing") {
		t.Error("the JSON lines have no record of the losses")
	}
	if tr.Lost == 0 || !strings.Contains(gotTrace, "lost") {
		t.Errorf("the trace has no record of the losses: %+v", tr)
	}
}

// readAll starts reading a pipe; the result returns what has arrived.
func readAll(f *os.File) func() string {
	const last = "\x00"
	text := make(chan string, 1)
	go func() {
		var b strings.Builder
		for buf := make([]byte, 1<<16); !strings.HasSuffix(b.String(), last); {
			n, err := f.Read(buf)
			if b.Write(buf[:n]); err != nil {
				break
			}
		}
		text <- b.String()
	}()
	return func() string {
		_, _ = f.WriteString(last)
		return <-text
	}
}
