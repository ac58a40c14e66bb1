package bench

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	rtrace "runtime/trace"
	"sync"
	"time"

	"github.com/trainspan/trainspan/ai"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/integrations/iofs"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
)

// Names of the cases that ratios and targets use.
const (
	BareSpan      = "SDK span, 3 attributes, no-op processor"
	BareSpanPlain = "SDK span, no attributes, no-op processor"
	SpanToTrace   = "SDK span, 3 attributes, to .pfw.gz"
	SpanAsked     = "SDK span, 3 attributes, asked what a trace needs"
	SpanNowhere   = "SDK span, 3 attributes, as lines to nowhere"
	Stdout        = "SDK span, 3 attributes, stdouttrace to a file"
	OTLPFile      = "SDK span, 3 attributes, OTLP JSON lines to a file"
	Scope         = "ai scope with epoch and step, to .pfw.gz"
	ScopeNested   = "ai scope below another, to .pfw.gz"
	ScopeTwo      = "ai scope, 2 goroutines, to .pfw.gz"
	Disabled      = "ai scope of a disabled node"
	Off           = "ai scope without a provider"
	FileRead      = "pread through iofs, to .pfw.gz"
	FileTotals    = "pread through iofs, aggregated"
	Region        = "runtime/trace region, to a file"
	Slog          = "slog JSON record of a span, to a file"
)

// Cases lists all compared cases.
func Cases() []Case {
	return []Case{
		{Name: BareSpanPlain, Setup: sdkCase(noSink, false)},
		{Name: BareSpan, Setup: sdkCase(noSink, true)},
		{Name: SpanAsked, Setup: sdkCase(func(string) (sdktrace.SpanProcessor, error) { return &asker{}, nil }, true)},
		{Name: SpanNowhere, Setup: sdkCase(nowhereSink, true)},
		{Name: SpanToTrace, Setup: sdkCase(traceSink, true)},
		{Name: Scope, Setup: scopeCase(func(t *ai.Tree, ctx context.Context, n int) {
			for range n {
				t.Compute.Forward.Start(ctx).End()
			}
		})},
		{Name: ScopeNested, Setup: scopeCase(func(t *ai.Tree, ctx context.Context, n int) {
			ctx, s := t.Pipeline.Train.StartContext(ctx)
			defer s.End()
			for range n {
				t.Compute.Forward.Start(ctx).End()
			}
		})},
		{Name: ScopeTwo, Setup: scopeCase(func(t *ai.Tree, ctx context.Context, n int) {
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() {
					for range n / 2 {
						t.Compute.Forward.Start(ctx).End()
					}
				})
			}
			wg.Wait()
		})},
		{Name: Disabled, Setup: scopeCase(func(t *ai.Tree, ctx context.Context, n int) {
			for range n {
				t.Device.Transfer.Start(ctx).End()
			}
		})},
		{Name: Off, Setup: func(string) (func(int), func() error, error) {
			ctx := context.Background()
			return func(n int) {
				for range n {
					ai.Compute.Forward.Start(ctx).End()
				}
			}, func() error { return nil }, nil
		}},
		{Name: FileRead, Setup: fileCase(pfw.FileOptions{})},
		{Name: FileTotals, Setup: fileCase(pfw.FileOptions{Aggregate: true})},
		{Name: Region, Setup: regionCase},
		{Name: Slog, Setup: slogCase},
		{Name: OTLPFile, Setup: sdkCase(otlpSink, true)},
		{Name: Stdout, Setup: sdkCase(stdoutSink, true)},
	}
}

// sink makes the span processor of a case.
type sink func(dir string) (sdktrace.SpanProcessor, error)

func sdkCase(make sink, attrs bool) func(string) (func(int), func() error, error) {
	return func(dir string) (func(int), func() error, error) {
		p, err := make(dir)
		if err != nil {
			return nil, nil, err
		}
		tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p))
		tracer := tp.Tracer("github.com/trainspan/trainspan/benchmarks")
		ctx := context.Background()
		run := func(n int) {
			for range n {
				_, s := tracer.Start(ctx, "forward")
				s.End()
			}
		}
		if attrs {
			run = func(n int) {
				for i := range n {
					_, s := tracer.Start(ctx, "forward", trace.WithAttributes(
						attribute.Int("epoch", 3), attribute.Int("step", i), attribute.String("phase", "train")))
					s.End()
				}
			}
		}
		return run, func() error { return tp.Shutdown(context.Background()) }, nil
	}
}

type noopProcessor struct{}

func (noopProcessor) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (noopProcessor) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (noopProcessor) Shutdown(context.Context) error                  { return nil }
func (noopProcessor) ForceFlush(context.Context) error                { return nil }

func noSink(string) (sdktrace.SpanProcessor, error) { return noopProcessor{}, nil }

// asker reads from a span everything that a trace file needs, and discards it:
// each call copies what the SDK keeps of an ended span.
type asker struct {
	noopProcessor
	seen int
}

func (a *asker) OnStart(_ context.Context, s sdktrace.ReadWriteSpan) {
	id, parent := s.SpanContext().SpanID(), s.Parent().SpanID()
	a.seen += int(id[0]) + int(parent[0]) + s.StartTime().Nanosecond() + len(s.Name())
}

func (a *asker) OnEnd(s sdktrace.ReadOnlySpan) {
	id := s.SpanContext().SpanID()
	a.seen += int(id[0]) + s.EndTime().Nanosecond() + len(s.Attributes()) + int(s.Status().Code) + s.DroppedAttributes() +
		len(s.Links()) + len(s.Events()) + len(s.Name()) + len(s.InstrumentationScope().Name)
}

// nowhereSink returns a processor that formats the lines of spans without
// compressing or storing them.
func nowhereSink(string) (sdktrace.SpanProcessor, error) {
	w, err := dftracer.NewWriter(io.Discard, &dftracer.Options{Compression: dftracer.CompressNone})
	if err != nil {
		return nil, err
	}
	return pfw.Create("", &pfw.Options{Writer: w, OwnWriter: true})
}

func traceSink(dir string) (sdktrace.SpanProcessor, error) {
	return pfw.Create(filepath.Join(dir, "span.pfw.gz"), nil)
}

func stdoutSink(dir string) (sdktrace.SpanProcessor, error) {
	f, err := os.Create(filepath.Join(dir, "stdout.json"))
	if err != nil {
		return nil, err
	}
	e, err := stdouttrace.New(stdouttrace.WithWriter(f))
	if err != nil {
		return nil, err
	}
	return sdktrace.NewSimpleSpanProcessor(e), nil
}

// otlpFile writes each batch as one line of OTLP JSON, buffered.
type otlpFile struct {
	f *os.File
	w *bufio.Writer
}

func (o *otlpFile) Start(context.Context) error { return nil }
func (o *otlpFile) Stop(context.Context) error  { return o.w.Flush() }
func (o *otlpFile) UploadTraces(_ context.Context, spans []*tracepb.ResourceSpans) error {
	line, err := protojson.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	_, err = o.w.Write(append(line, '\n'))
	return err
}

func otlpSink(dir string) (sdktrace.SpanProcessor, error) {
	f, err := os.Create(filepath.Join(dir, "otlp.jsonl"))
	if err != nil {
		return nil, err
	}
	e, err := otlptrace.New(context.Background(), &otlpFile{f: f, w: bufio.NewWriterSize(f, 1<<16)})
	if err != nil {
		return nil, err
	}
	return sdktrace.NewSimpleSpanProcessor(e), nil
}

// newTree returns a tree that writes to a new file in dir.
func newTree(dir, name string, o *pfw.Options) (*ai.Tree, *telemetry.Provider, error) {
	p, err := pfw.Create(filepath.Join(dir, name), o)
	if err != nil {
		return nil, nil, err
	}
	tel, err := telemetry.NewTrainingTelemetryBuilder().
		WithBaseConfig(config.Base{ApplicationName: "benchmarks", SessionTag: config.Value("b"), WorldSize: config.Value(1)}).
		WithRanks(config.Ranks{}).
		WithSpanProcessor(p).
		ConfigureProvider(context.Background())
	if err != nil {
		return nil, nil, err
	}
	return ai.NewTree(tel), tel, nil
}

func scopeCase(run func(*ai.Tree, context.Context, int)) func(string) (func(int), func() error, error) {
	return func(dir string) (func(int), func() error, error) {
		own, err := os.MkdirTemp(dir, "scope") // two writers must not share a file
		if err != nil {
			return nil, nil, err
		}
		tree, tel, err := newTree(own, "trace.pfw.gz", nil)
		if err != nil {
			return nil, nil, err
		}
		tree.Root.Update(ai.Epoch(3), ai.Step(12))
		tree.Device.Disable()
		ctx := context.Background()
		return func(n int) { run(tree, ctx, n) }, func() error { return tel.Shutdown(ctx) }, nil
	}
}

// nothing is a reader without cost.
type nothing struct{}

func (nothing) ReadAt(p []byte, _ int64) (int, error) { return len(p), nil }

// fileCase returns a case that reads through a wrapper.
func fileCase(o pfw.FileOptions) func(string) (func(int), func() error, error) {
	return func(dir string) (func(int), func() error, error) {
		own, err := os.MkdirTemp(dir, "files")
		if err != nil {
			return nil, nil, err
		}
		_, tel, err := newTree(own, "trace.pfw.gz", &pfw.Options{Files: o})
		if err != nil {
			return nil, nil, err
		}
		r := iofs.New(tel).ReaderAt(nothing{}, "/data/shard-0.bin")
		buf := make([]byte, 4096)
		return func(n int) {
			for i := range n {
				_, _ = r.ReadAt(buf, int64(i)*4096)
			}
		}, func() error { return tel.Shutdown(context.Background()) }, nil
	}
}

func regionCase(dir string) (func(int), func() error, error) {
	f, err := os.Create(filepath.Join(dir, "runtime.trace"))
	if err != nil {
		return nil, nil, err
	}
	ctx := context.Background()
	return func(n int) {
			if err := rtrace.Start(f); err != nil { // only during its rounds, because it slows everything down
				panic(err)
			}
			for range n {
				rtrace.StartRegion(ctx, "forward").End()
			}
			rtrace.Stop()
			_, _ = f.Seek(0, io.SeekStart)
		}, func() error {
			return f.Close()
		}, nil
}

func slogCase(dir string) (func(int), func() error, error) {
	f, err := os.Create(filepath.Join(dir, "slog.jsonl"))
	if err != nil {
		return nil, nil, err
	}
	w := bufio.NewWriterSize(f, 1<<16)
	log := slog.New(slog.NewJSONHandler(w, nil))
	ctx := context.Background()
	return func(n int) {
			for range n {
				start := time.Now()
				log.LogAttrs(ctx, slog.LevelInfo, "forward", slog.String("cat", "compute"),
					slog.Int64("ts", start.UnixMicro()), slog.Int64("dur", time.Since(start).Microseconds()),
					slog.Int("epoch", 3), slog.Int("step", 12))
			}
		}, func() error {
			_ = w.Flush()
			return f.Close()
		}, nil
}
