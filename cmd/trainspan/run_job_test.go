package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/trainspan/trainspan"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// runJob is the program that trainspan run starts in tests. It returns the exit
// status.
func runJob(args []string) int {
	switch args[0] {
	case "signals": // signals [apart]: prints signals until SIGUSR2 comes
		return countSignals(args[1:])
	case "self": // self: prints its arguments, directory, environment and process id
		dir, _ := os.Getwd()
		_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"args": os.Args, "dir": dir, "env": os.Environ(), "pid": os.Getpid()})
		return 0
	case "train": // train STEPS FROM [fail]: a job that records with this library
		return trainForTest(args[1:])
	case "send": // send PROTOCOL STEPS: a job that sends spans by OpenTelemetry's SDK
		return sendForTest(args[1:])
	case "ack": // ack FILE: a job that sends spans until a request fails, and writes the number of acknowledged ones
		return ackForTest(args[1])
	case "grow": // grow MIB: allocates this much memory
		n, _ := strconv.Atoi(args[1])
		var all [][]byte
		for range n {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			all = append(all, b)
			time.Sleep(time.Millisecond) // simulated work
		}
		fmt.Println(len(all))
		return 0
	}
	return 99
}

// countSignals prints signals. SIGUSR2 means that no more will come: earlier
// ones have been passed on by then.
func countSignals(args []string) int {
	if len(args) > 0 && args[0] == "apart" {
		_ = syscall.Setpgid(0, 0)
	}
	c := make(chan os.Signal, 100)
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGHUP, syscall.SIGQUIT)
	fmt.Println("ready")
	for s := range c {
		if s == syscall.SIGUSR2 {
			fmt.Println("end")
			return 0
		}
		fmt.Println(s.(syscall.Signal))
	}
	return 1
}

// trainForTest trains a number of steps, from one on.
func trainForTest(args []string) int {
	steps, _ := strconv.Atoi(args[0])
	from, _ := strconv.Atoi(args[1])
	ctx := context.Background()
	tel, err := trainspan.Start(ctx)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	ctx, app := tel.Start(ctx, spans.Application)
	ctx, loop := tel.Start(ctx, spans.TrainingLoop, telemetry.LoopStart{IterationsStart: from})
	for range steps {
		in, it := tel.Start(ctx, spans.TrainingIteration)
		_, f := tel.Start(in, spans.ModelForward)
		time.Sleep(5 * time.Millisecond) // simulated work
		f.End()
		it.End()
	}
	loop.End()
	app.End()
	if err := tel.Shutdown(context.Background()); err != nil {
		fmt.Println(err)
	}
	return len(args) - 2
}

// ackSpans is the number of spans that ackForTest sends at a time.
const ackSpans = 40

// ackForTest sends spans named by their numbers: half of them without a parent,
// half below one that the next batch contains. After each response it writes the
// number of sent spans.
func ackForTest(path string) int {
	e, err := otlptracehttp.New(context.Background(), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	spanContext := func(n int) trace.SpanContext {
		c := trace.SpanContextConfig{TraceID: trace.TraceID{1}, TraceFlags: trace.FlagsSampled}
		binary.BigEndian.PutUint64(c.SpanID[:], uint64(n))
		return trace.NewSpanContext(c)
	}
	fmt.Println("ready")
	begin := time.Now()
	for first := 1; time.Since(begin) < time.Minute; first += ackSpans {
		var stubs tracetest.SpanStubs
		for n := first; n < first+ackSpans; n++ {
			at := begin.Add(time.Duration(n) * time.Millisecond)
			s := tracetest.SpanStub{Name: fmt.Sprintf("n%d", n), SpanContext: spanContext(n), StartTime: at, EndTime: at.Add(900 * time.Microsecond)}
			switch {
			case n == first: // the parent of spans in the previous batch
				s.StartTime = at.Add(-ackSpans * time.Millisecond)
			case n%2 == 0:
				s.Parent = spanContext(first + ackSpans)
			}
			stubs = append(stubs, s)
		}
		if err := e.ExportSpans(context.Background(), stubs.Snapshots()); err != nil {
			break
		}
		if _, err := fmt.Fprintln(f, first+ackSpans-1); err != nil {
			return 1
		}
		time.Sleep(3 * time.Millisecond) // simulated work
	}
	return 0
}

func sendForTest(args []string) int {
	ctx := context.Background()
	var e sdktrace.SpanExporter
	var err error
	if args[0] == "grpc" {
		e, err = otlptracegrpc.New(ctx) // configured by the environment
	} else {
		e, err = otlptracehttp.New(ctx)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	steps, _ := strconv.Atoi(args[1])
	p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(e))
	ctx, loop := p.Tracer("nemo").Start(ctx, "megatron.train")
	for i := range steps {
		_, s := p.Tracer("nemo").Start(ctx, "megatron.train_step", trace.WithAttributes(attribute.Int("megatron.iteration", i)))
		time.Sleep(2 * time.Millisecond) // simulated work
		s.End()
	}
	loop.End()
	if err := p.Shutdown(context.Background()); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}
