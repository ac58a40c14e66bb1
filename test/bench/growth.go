package bench

import (
	"context"
	"fmt"
	"math"
	"os"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Growth is a measurement with few and with many of something.
type Growth struct {
	What      string
	Few, Many int
	setup     func(tracer trace.Tracer, n int) (run func(ops int))
}

// Growths lists what the cost of a span in a trace file may depend on. An
// operation is a span with n attributes, or n spans that are open at once.
func Growths() []Growth {
	return []Growth{
		{"attributes of an OTel span", 8, 64, func(tracer trace.Tracer, n int) func(int) {
			attrs := make([]attribute.KeyValue, n)
			for i := range attrs {
				attrs[i] = attribute.Int("number_"+strconv.Itoa(i), i)
			}
			return func(ops int) {
				for range ops {
					_, s := tracer.Start(context.Background(), "forward", trace.WithAttributes(attrs...))
					s.End()
				}
			}
		}},
		{"OTel spans open at once", 500, 8000, func(tracer trace.Tracer, n int) func(int) {
			open := make([]trace.Span, n)
			return func(ops int) {
				for range ops {
					for i := range open {
						_, open[i] = tracer.Start(context.Background(), "forward")
					}
					for _, s := range open {
						s.End()
					}
				}
			}
		}},
	}
}

// Cases returns the case with few and that with many.
func (g *Growth) Cases() []Case {
	of := func(n int) Case {
		return Case{fmt.Sprint(g.What, " ", n), func(dir string) (func(int), func() error, error) {
			own, err := os.MkdirTemp(dir, "growth")
			if err != nil {
				return nil, nil, err
			}
			p, err := traceSink(own)
			if err != nil {
				return nil, nil, err
			}
			tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p))
			return g.setup(tp.Tracer("growth"), n), func() error { return tp.Shutdown(context.Background()) }, nil
		}}
	}
	return []Case{of(g.Few), of(g.Many)}
}

// Exponent returns the power by which a cost grew from few to many, where times
// is the ratio of the costs.
func Exponent(times float64, few, many int) float64 {
	return math.Log(times) / math.Log(float64(many)/float64(few))
}
