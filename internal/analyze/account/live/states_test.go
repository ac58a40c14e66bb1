package live_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/analyze/account/live"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// stuck is a log that takes a message and does not return until it is let go.
type stuck struct {
	slog.Handler
	taken, let chan struct{}
}

func (s stuck) Handle(context.Context, slog.Record) error {
	close(s.taken)
	<-s.let
	return nil
}

// What keeps the state may hang, on a disk or, as here, in the log of what the
// disk said. Shutdown waits no longer than its context.
func TestShutdownLeavesAStateThatHangs(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		out := live.New(live.Options{Dir: dir})
		log := stuck{slog.DiscardHandler, make(chan struct{}), make(chan struct{})}
		_, err := out.Attach(t.Context(), &outputs.Telemetry{Now: func() int64 { return time.Now().UnixNano() }, Logger: slog.New(log)})
		if err != nil {
			t.Fatal(err)
		}
		// Another process writes its state there before this one does.
		if err := os.WriteFile(filepath.Join(dir, "goodput-rank0.json"), []byte("{}"), 0o644); err != nil {
			t.Fatal(err)
		}
		<-log.taken
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := out.Shutdown(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), dir) {
			t.Errorf("Shutdown gave %v", err)
		}
		close(log.let)
	})
}

// An output belongs to one provider.
func TestAttachedTwice(t *testing.T) {
	out := live.New(live.Options{})
	if _, err := provider(t, out, config.Ranks{}, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := provider(t, out, config.Ranks{}, 1); err == nil || !strings.Contains(err.Error(), "attached before") {
		t.Errorf("the second time: %v", err)
	}
}

// A state that cannot be read, and one that another process writes, stay as they are.
func TestStatesOfOthers(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "goodput-rank0.json")
	if err := os.WriteFile(path, []byte("damaged"), 0o644); err != nil {
		t.Fatal(err)
	}
	tel, err := provider(t, live.New(live.Options{Dir: dir}), config.Ranks{Rank: config.Value(0)}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if text, _ := os.ReadFile(path); string(text) != "damaged" {
		t.Errorf("the state is now %.60s", text)
	}

	dir = t.TempDir()
	path = filepath.Join(dir, "goodput-rank0.json")
	first, second := live.New(live.Options{Dir: dir}), live.New(live.Options{Dir: dir})
	a, err := provider(t, first, config.Ranks{Rank: config.Value(0)}, 1)
	if err != nil {
		t.Fatal(err)
	}
	b, err := provider(t, second, config.Ranks{Rank: config.Value(0)}, 1)
	if err != nil {
		t.Fatal(err)
	}
	_ = a.Shutdown(t.Context())
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_ = b.Shutdown(t.Context())
	if err := second.Shutdown(t.Context()); err != nil {
		t.Errorf("a later Shutdown: %v", err)
	}
	if got, _ := os.ReadFile(path); string(got) != string(want) {
		t.Error("the second process replaced the state of the first")
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o044 != 0o044 {
		t.Errorf("%v, %v: others cannot read it", info, err)
	}
}

// Processes whose ranks nobody gave would all write the state of rank 0.
func TestUnknownRank(t *testing.T) {
	dir := t.TempDir()
	tel, err := provider(t, live.New(live.Options{Dir: dir}), config.Ranks{}, 4)
	if err != nil {
		t.Fatal(err)
	}
	_ = tel.Shutdown(t.Context())
	if files, _ := os.ReadDir(dir); len(files) > 0 {
		t.Errorf("%v", files)
	}
}
