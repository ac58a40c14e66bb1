// Otel shows that instrumentation with the plain OpenTelemetry API becomes part
// of the telemetry of a training job: a training loop gets its batches over
// HTTP from a server in the same process, and the spans of the requests are
// children of the iterations that made them.
//
//	go run ./examples/otel
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "otel:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	seen := &printer{}
	tel, err := telemetry.NewTrainingTelemetryBuilder().
		WithBaseConfig(config.Base{ApplicationName: "otel", SessionTag: config.Value("demo"), WorldSize: config.Value(1)}).
		WithTrainingConfig(config.Training{PerfTag: config.Value("http"), GlobalBatchSize: config.Value(8)}).
		WithSpanProcessor(seen).
		ConfigureProvider(ctx)
	if err != nil {
		return err
	}
	defer tel.Shutdown(ctx)

	// snippet:otel
	// Instrumentation libraries take a tracer provider like this, too.
	tracer := tel.TracerProvider().Tracer("example.com/batches/http")
	server := httptest.NewServer(serverSpans(tracer, http.HandlerFunc(batches)))
	defer server.Close()
	client := &http.Client{Transport: &clientSpans{tracer: tracer, next: server.Client().Transport}}
	// end:otel

	err = tel.Run(ctx, spans.Application, func(ctx context.Context) error {
		return tel.Run(ctx, spans.TrainingLoop, func(ctx context.Context) error {
			for range 2 {
				err := tel.Run(ctx, spans.TrainingIteration, func(ctx context.Context) error { return fetch(ctx, client, server.URL) })
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	seen.print(out)
	return nil
}

func batches(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "1 2 3 4 5 6 7 8") }

func fetch(ctx context.Context, client *http.Client, url string) (err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/batch", nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

var headers propagation.TraceContext

// clientSpans makes a span of every request and sends its context to the
// server.
type clientSpans struct {
	tracer trace.Tracer
	next   http.RoundTripper
}

func (c *clientSpans) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, span := c.tracer.Start(r.Context(), "fetch "+r.URL.Path,
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attribute.String("http.request.method", r.Method)))
	defer span.End()
	r = r.Clone(ctx)
	headers.Inject(ctx, propagation.HeaderCarrier(r.Header))
	resp, err := c.next.RoundTrip(r)
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
		return nil, err
	}
	span.SetAttributes(attribute.Int("http.response.status_code", resp.StatusCode))
	return resp, nil
}

// serverSpans makes a span of every received request, below the span of the
// client that sent it.
func serverSpans(tracer trace.Tracer, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := headers.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := tracer.Start(ctx, "serve "+r.URL.Path, trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
