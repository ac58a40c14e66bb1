//go:build unix

package file_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/file"
	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"github.com/trainspan/trainspan/internal/tracefile/onelogger"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// TestRemovedFolder removes the folder of the file with its contents.
func TestRemovedFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "t.jsonl")
	var told atomic.Int64
	e := started(t, path, &file.Options{FlushInterval: time.Hour, OnError: func(error) { told.Add(1) }})
	for range 100 {
		export(t, e, dataError("before"))
	}
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	// The folder is not empty if the exporter has made its next file already.
	if err := os.RemoveAll(filepath.Dir(path)); err != nil && !errors.Is(err, syscall.ENOTEMPTY) {
		t.Fatal(err)
	}
	_ = e.Flush()
	for range 50 {
		export(t, e, dataError("after"))
	}
	if err := e.Shutdown(context.Background()); err == nil {
		t.Error("the last record has no losses, want the lost records")
	}
	records := decode(t, contents(t, path))
	var lost float64
	for _, r := range records {
		if n, ok := r.Error.Attributes[onelogger.LostRecords].(float64); ok {
			lost += n
		}
	}
	if st := e.Stats().File; len(records) != 51 || lost != 100 || st.Lost != 100 || told.Load() != 2 {
		t.Errorf("%d records, losses in the file %v, stats %+v, %d reports; want 51, 100, 100, 2", len(records), lost, st, told.Load())
	}
}

// TestPipeNobodyReads exports to a pipe that takes nothing.
func TestPipeNobodyReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	e := started(t, path, &file.Options{StallMemory: 1 << 20, OnError: func(error) {}})
	r := event(spanData("s", 1), "ev", attrvalue.String("k", strings.Repeat("x", 16<<10)))
	const n = 1000
	for range n { // 16 MB; returns although the pipe takes nothing
		export(t, e, r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Shutdown(ctx); !errors.Is(err, file.ErrStalled) || !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v", err)
	}
	if st := e.Stats().File; st.Lost < n-10 || st.Lost > n || st.Outages != 1 {
		t.Errorf("stats %+v, want %d to %d lost, 1 outage", st, n-10, n)
	}
}

// The record of a loss is in the file although memory was full when it was
// made.
func TestMemoryIsReservedForLosses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	e := started(t, path, &file.Options{StallMemory: 1 << 20, OnError: func(error) {}})
	r := event(spanData("s", 1), "ev", attrvalue.String("k", strings.Repeat("x", 16<<10)))
	for e.Stats().File.Lost == 0 {
		export(t, e, r)
	}
	lost := e.Stats().File.Lost
	for i := range 5 {
		export(t, e, dataError(fmt.Sprint("missing ", i)))
	}
	if now := e.Stats().File.Lost; now != lost {
		t.Errorf("%d records of losses were lost, want none", now-lost)
	}
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	text := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(in)
		text <- string(all)
	}()
	if err := e.Shutdown(context.Background()); err == nil {
		t.Error("the last record has no losses, want the lost records")
	}
	got := <-text
	for i := range 5 {
		if want := fmt.Sprint("missing ", i); !strings.Contains(got, want) {
			t.Errorf("want %q in the file", want)
		}
	}
	if !strings.Contains(got, fmt.Sprintf(`"lost_records":%d`, lost)) {
		t.Errorf(`want "lost_records":%d in the file`, lost)
	}
}

func TestHeartbeatAndAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, compat := range []bool{false, true} {
			path := temporary(t)
			e := file.New(path, &file.Options{Compat: compat})
			id := identity
			id.Attempt, id.Job, id.SessionTag = config.Value(2), "job-7", "tag"
			if err := attach(e, id); err != nil {
				t.Fatal(err)
			}
			export(t, e, event(spanData("s", 1), "ev"))
			time.Sleep(35*time.Second + time.Millisecond)
			shutdown(t, e)
			text := contents(t, path)
			want := 3
			if compat {
				want = 0
			}
			if n := strings.Count(text, `{"type":"heartbeat","event":{"name":"heartbeat","attributes":{"session_tag":"tag","job_id":"job-7","timestamp_msec":`); n != want {
				t.Errorf("compat %t: %d heartbeats, want %d in\n%s", compat, n, want, text)
			}
			if n := strings.Count(text, `,"rank":3,"attempt":2`); n != want+want/3 {
				t.Errorf("compat %t: %d records with rank 3, attempt 2, want %d in\n%s", compat, n, want+want/3, text)
			}
			counted(t, decode(t, text), 1+want)
		}
	})
}

// A heartbeat has the time of the telemetry's clock.
func TestHeartbeatFollowsTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := temporary(t)
		e := file.New(path, nil)
		if _, err := e.Open(context.Background(), &outputs.Telemetry{Identity: identity, Now: func() int64 { return base }}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		shutdown(t, e)
		if text := contents(t, path); !strings.Contains(text, fmt.Sprintf(`"timestamp_msec":%d`, base/1e6)) {
			t.Errorf("heartbeat has another time, want %d: %s", base/1e6, text)
		}
	})
}
