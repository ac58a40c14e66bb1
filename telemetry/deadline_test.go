package telemetry_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// hangs is an output with one method that does not return before release.
type hangs struct {
	outputs.None
	traits  outputs.Traits
	in      string
	release chan struct{}
}

func (h *hangs) hang(in string) {
	if h.in == in {
		<-h.release
	}
}

func (h *hangs) Open(ctx context.Context, _ *outputs.Telemetry) (outputs.Traits, error) {
	dispatch.OfferScopes(ctx, h, nil)
	return h.traits, nil
}
func (h *hangs) Write(records []outputs.Record) error {
	for i := range records {
		switch r := &records[i]; {
		case r.Kind == outputs.KindLosses:
			h.hang("losses")
		case r.Snapshot == nil:
			h.hang("record")
		case r.Kind == outputs.KindStop:
			h.hang("snapshot")
		}
	}
	return nil
}
func (h *hangs) ScopeKind(string, string) dispatch.ScopeKind { return nil }
func (h *hangs) EndScopes()                                  { h.hang("EndScopes") }
func (h *hangs) ForceFlush(context.Context) error            { h.hang("ForceFlush"); return nil }
func (h *hangs) Shutdown(context.Context) error              { h.hang("Shutdown"); return nil }

// withHanging runs a job in which a method of an output hangs, in synthetic
// time, so that times are exact.
func withHanging(t *testing.T, in string, wants outputs.Traits, run func(*testing.T, *telemetry.Provider, *memory)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &hangs{traits: wants, in: in, release: make(chan struct{})}
		mem := &memory{}
		tel, err := telemetry.NewTrainingTelemetryBuilder().WithBaseConfig(base()).WithLogger(quietLog()).
			WithExporter(h).WithExporter(mem).WithShutdownTimeout(3 * time.Second).ConfigureProvider(context.Background())
		check(t, err)
		run(t, tel, mem)
		close(h.release)
		_ = tel.Shutdown(context.Background())
		synctest.Wait()
		if mem.shutdown != 1 {
			t.Errorf("%s: the other output was shut down %d times, want 1", in, mem.shutdown)
		}
	})
}

// Whatever method of an output hangs, Shutdown keeps its deadline: that of its
// context or, if that has none or is done, the shutdown timeout.
func TestShutdownWhateverHangs(t *testing.T) {
	all := outputs.Traits{Snapshots: true, Ordered: true, All: true}
	for _, in := range []string{"record", "snapshot", "EndScopes", "losses", "ForceFlush", "Shutdown"} {
		for _, network := range []bool{false, true} {
			wants := all
			wants.Remote = network
			withHanging(t, in, wants, func(t *testing.T, tel *telemetry.Provider, _ *memory) {
				_, _ = tel.StartSpan(context.Background(), "open")
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				start := time.Now()
				_ = tel.Shutdown(ctx)
				if took := time.Since(start); took > time.Second {
					t.Errorf("%s: Shutdown took %v, want at most %v", in, took, time.Second)
				}
			})
		}
	}
	done, cancel := context.WithCancel(context.Background())
	cancel()
	for _, ctx := range []context.Context{context.Background(), done} {
		withHanging(t, "Shutdown", all, func(t *testing.T, tel *telemetry.Provider, _ *memory) {
			start := time.Now()
			if err := tel.Shutdown(ctx); err == nil {
				t.Error("got no error for an output that did not shut down, want one")
			}
			if took := time.Since(start); took != 3*time.Second {
				t.Errorf("Shutdown took %v, want %v", took, 3*time.Second)
			}
		})
	}
}

// The end of the application waits for hanging outputs for one shutdown
// timeout, together with the Shutdown that follows, and returns no error,
// because an error of telemetry is not one of the training.
func TestEndOfTheApplicationTakesOneDeadline(t *testing.T) {
	for _, in := range []string{"record", "losses", "ForceFlush", "Shutdown"} {
		for _, network := range []bool{false, true} {
			wants := outputs.Traits{Ordered: true, Remote: network}
			withHanging(t, in, wants, func(t *testing.T, tel *telemetry.Provider, _ *memory) {
				cb := callbacks.New(tel)
				started(t)(cb.OnAppStart(context.Background()))
				start := time.Now()
				check(t, cb.OnAppEnd(context.Background()))
				_ = tel.Shutdown(context.Background())
				limit := 3 * time.Second
				if network { // the files are flushed before that
					limit += limit / 10
				}
				if took := time.Since(start); took > limit {
					t.Errorf("%s, network %v: it took %v, want at most %v", in, network, took, limit)
				}
			})
		}
	}
}

// An output whose Export hangs forever costs calls 100 ms in all, its losses
// are counted, and the other outputs lose nothing.
func TestOutputThatHangsForEver(t *testing.T) {
	withHanging(t, "record", outputs.Traits{Ordered: true}, func(t *testing.T, tel *telemetry.Provider, mem *memory) {
		start := time.Now()
		for range 40_000 {
			_, s := tel.StartSpan(context.Background(), "x")
			s.End()
		}
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("calls waited %v, want at most %v", took, 100*time.Millisecond)
		}
		_ = tel.Shutdown(context.Background())
		s := tel.Stats()
		if len(mem.all()) != 80_000 || s.DroppedRecords != 80_000 || s.Outputs[0].Dropped != 80_000 {
			t.Errorf("the other output has %d records, %d are lost, %d by its own count; want 80,000 each", len(mem.all()), s.DroppedRecords, s.Outputs[0].Dropped)
		}
	})
}

// errorsAtClose fails to close.
type errorsAtClose struct{ memory }

func (*errorsAtClose) Shutdown(context.Context) error { return fmt.Errorf("disk full") }

// OnAppEnd never returns errors of closing outputs.
func TestOnAppEndGivesNoErrorsOfOutputs(t *testing.T) {
	tel, err := telemetry.NewTrainingTelemetryBuilder().WithBaseConfig(base()).WithLogger(quietLog()).
		WithExporter(&errorsAtClose{}).ConfigureProvider(context.Background())
	check(t, err)
	cb := callbacks.New(tel)
	started(t)(cb.OnAppStart(context.Background()))
	check(t, cb.OnAppEnd(context.Background()))
	if err := tel.Shutdown(context.Background()); err == nil {
		t.Error("the error of Shutdown lacks the cause")
	}
}

// Shutdown keeps its deadline while another goroutine closes the outputs, by the end of the
// application or by an earlier Shutdown.
func TestShutdownBesideAnother(t *testing.T) {
	for name, first := range map[string]func(*telemetry.Provider, *telemetry.Span){
		"end of the application": func(_ *telemetry.Provider, app *telemetry.Span) { app.End() },
		"Shutdown":               func(tel *telemetry.Provider, _ *telemetry.Span) { _ = tel.Shutdown(context.Background()) },
	} {
		withHanging(t, "Shutdown", outputs.Traits{Ordered: true}, func(t *testing.T, tel *telemetry.Provider, _ *memory) {
			_, app := tel.Start(context.Background(), spans.Application)
			done := make(chan struct{})
			go func() {
				defer close(done)
				first(tel, app)
			}()
			synctest.Wait()
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			start := time.Now()
			if err := tel.Shutdown(ctx); err == nil {
				t.Errorf("%s: Shutdown returned no error, want one: the outputs are not closed", name)
			}
			if took := time.Since(start); took != time.Second {
				t.Errorf("%s: Shutdown took %v, want %v", name, took, time.Second)
			}
			<-done
		})
	}
}
