package iofs_test

import (
	"context"
	"io"
	"testing"
	"testing/fstest"

	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/integrations/iofs"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// nothing is a reader without cost.
type nothing struct{}

func (nothing) Read(p []byte) (int, error)            { return len(p), nil }
func (nothing) ReadAt(p []byte, _ int64) (int, error) { return len(p), nil }
func (nothing) Seek(int64, int) (int64, error)        { return 0, nil }

// TestAllocations checks that a call allocates nothing, and an opening only its
// wrapper.
func TestAllocations(t *testing.T) {
	for name, o := range map[string]pfw.FileOptions{"every call": {}, "aggregated": {Aggregate: true}} {
		j := newJob(t, o)
		files := iofs.New(j.tel)
		r := files.Reader(nothing{}, "/data/f")
		at, seeker := r.(io.ReaderAt), r.(io.Seeker)
		ctx, s := j.tel.StartSpan(context.Background(), "outer")
		below := files.With(ctx).ReaderAt(nothing{}, "/data/f")
		buf := make([]byte, 16)
		memory := fstest.MapFS{"f": {Data: []byte("text")}}
		fsys := files.FS(memory, "/memory")
		open := func() {
			f, err := fsys.Open("f")
			check(t, err)
			_ = f.Close()
		}
		plain := testing.AllocsPerRun(1000, func() {
			f, err := memory.Open("f")
			check(t, err)
			_ = f.Close()
		})
		for what, c := range map[string]struct {
			most float64
			call func()
		}{
			"read": {0, func() { _, _ = r.Read(buf) }}, "pread": {0, func() { _, _ = at.ReadAt(buf, 4096) }},
			"lseek64": {0, func() { _, _ = seeker.Seek(4096, io.SeekStart) }}, "pread below a span": {0, func() { _, _ = below.ReadAt(buf, 4096) }},
			"open64 and close": {plain + 1, open},
		} {
			if n := testing.AllocsPerRun(1000, c.call); n > c.most {
				t.Errorf("%s, %s: %v allocations, want at most %v", name, what, n, c.most)
			}
		}
		s.End()
	}
}

func BenchmarkBareSpan(b *testing.B) {
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(bare{})).Tracer("x")
	b.ReportAllocs()
	for b.Loop() {
		_, s := tracer.Start(context.Background(), "forward", trace.WithAttributes(
			attribute.Int("epoch", 3), attribute.Int("step", 12), attribute.String("phase", "train")))
		s.End()
	}
}

type bare struct{}

func (bare) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (bare) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (bare) Shutdown(context.Context) error                  { return nil }
func (bare) ForceFlush(context.Context) error                { return nil }

func BenchmarkPread(b *testing.B) {
	for name, o := range map[string]pfw.FileOptions{"recorded": {}, "aggregated": {Aggregate: true}, "elsewhere": {Dirs: []string{"/nowhere"}}} {
		b.Run(name, func(b *testing.B) {
			r := iofs.New(newJob(b, o).tel).ReaderAt(nothing{}, "/data/f")
			buf := make([]byte, 16)
			b.ReportAllocs()
			for b.Loop() {
				_, _ = r.ReadAt(buf, 4096)
			}
		})
	}
	b.Run("below a span", func(b *testing.B) {
		j := newJob(b, pfw.FileOptions{})
		ctx, s := j.tel.StartSpan(context.Background(), "outer")
		defer s.End()
		r := iofs.New(j.tel).With(ctx).ReaderAt(nothing{}, "/data/f")
		buf := make([]byte, 16)
		b.ReportAllocs()
		for b.Loop() {
			_, _ = r.ReadAt(buf, 4096)
		}
	})
}
