package torch_test

import (
	"os"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/torch"
	"github.com/trainspan/trainspan/internal/testkit/growth"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// strictSink fails on events that no reader would accept.
type strictSink struct {
	t   *testing.T
	ids map[uint64]bool
}

func (s *strictSink) Write(e *dftracer.Event) {
	if e.Name == "" && e.Cat != "PP" || e.Cat == "" || e.PID < 0 || e.TID < 0 || e.TS < 0 || e.Dur < 0 {
		s.t.Fatalf("event %+v", e)
	}
	if e.Phase == dftracer.PhaseComplete {
		if s.ids[e.ID] || e.ID == 0 {
			s.t.Fatalf("id %d is used twice", e.ID)
		}
		s.ids[e.ID] = true
	}
}

func FuzzImport(f *testing.F) {
	files, err := os.ReadDir("testdata")
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range files {
		if data, err := os.ReadFile("testdata/" + e.Name()); err == nil {
			f.Add(data)
		}
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		opts := &torch.Options{
			Memory: 1 << 16, TempDir: dir, PythonStacks: true,
			Spans: &torch.SpanOptions{Exporter: tracetest.NewNoopExporter(), Level: torch.LevelKernel},
		}
		var rep *torch.Report
		var err error
		growth.Work(t, len(data)+32<<10, 256, func() {
			if rep, err = importBytes(t.Context(), &strictSink{t, map[uint64]bool{}}, opts, "f.json", data); err == nil {
				_ = rep.String()
			}
		})
	})
}
