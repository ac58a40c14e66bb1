package ai_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/trainspan/trainspan/ai"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/telemetry"
)

// with changes the builder of a provider.
type with = func(*telemetry.TrainingTelemetryBuilder)

// newTree returns a tree over a new telemetry provider and the file it writes.
func newTree(t testing.TB, name string, o *pfw.Options, more ...with) (*ai.Tree, *telemetry.Provider, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	p, err := pfw.Create(path, o)
	if err != nil {
		t.Fatal(err)
	}
	tel := newProvider(t, append([]with{func(b *telemetry.TrainingTelemetryBuilder) { b.WithSpanProcessor(p) }}, more...)...)
	return ai.NewTree(tel), tel, path
}

func newProvider(t testing.TB, more ...with) *telemetry.Provider {
	t.Helper()
	b := telemetry.NewTrainingTelemetryBuilder().
		WithBaseConfig(config.Base{ApplicationName: "test", SessionTag: config.Value("s"), WorldSize: config.Value(1)}).
		WithTrainingConfig(config.Training{PerfTag: config.Value("p"), GlobalBatchSize: config.Value(4)}).
		WithRanks(config.Ranks{})
	for _, f := range more {
		f(b)
	}
	tel, err := b.ConfigureProvider(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tel.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return tel
}

// record records what f does with a separate tree. It checks the trace and
// returns its events without framing, in the order of their starts.
func record(t *testing.T, f func(ctx context.Context, tree *ai.Tree)) []dftracer.Event {
	t.Helper()
	tree, tel, path := newTree(t, "trace.pfw", &pfw.Options{NoBegin: true})
	f(context.Background(), tree)
	return finish(t, tel, path)
}

func finish(t *testing.T, tel *telemetry.Provider, path string) []dftracer.Event {
	t.Helper()
	if err := tel.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	dftest.Check(t, path)
	var events []dftracer.Event
	for _, ev := range dftest.Events(t, path) {
		if ev.Phase == dftracer.PhaseComplete && ev.Cat != dftracer.CatDFTracer {
			events = append(events, ev)
		}
	}
	return byID(events)
}

// names returns the names of events.
func names(events []dftracer.Event) []string {
	list := []string{}
	for _, ev := range events {
		list = append(list, ev.Name)
	}
	return list
}

// find returns the only event with that name.
func find(t *testing.T, events []dftracer.Event, name string) dftracer.Event {
	t.Helper()
	var found []dftracer.Event
	for _, ev := range events {
		if ev.Name == name {
			found = append(found, ev)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d events are called %s, want 1 in %v", len(found), name, names(events))
	}
	return found[0]
}

// arg returns an argument as text, or "-".
func arg(ev dftracer.Event, key string) string {
	if a, ok := ev.Arg(key); ok {
		return a.Text()
	}
	return "-"
}

func ptr(err error) *error { return &err }
