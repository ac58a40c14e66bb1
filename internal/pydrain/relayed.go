package pydrain

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/assemble"
	"github.com/trainspan/trainspan/internal/dft"
)

// known is a span that is open and of which the name is known.
type known struct {
	depth int
	start int64
	node  *node
	attrs []attribute.KeyValue
	waits bool            // it is not known yet what is around it
	ctx   context.Context // that carries it where it is sent
	span  trace.Span
}

// waiting are spans that have ended inside of one of which nothing is known.
type waiting struct {
	depth int
	spans []relayed
}

func (w *waiting) size() (n int) {
	for i := range w.spans {
		n += w.spans[i].size
	}
	return n
}

// relayed is a span that ended and is sent, with what it has inside.
type relayed struct {
	node       *node
	start, end int64
	attrs      []attribute.KeyValue
	failed     bool
	below      []relayed
	size       int // of that, and one
}

// keyValues are arguments of a span as attributes, and whether it has failed.
func keyValues(args []dftracer.Arg) (kvs []attribute.KeyValue, failed bool) {
	kvs = make([]attribute.KeyValue, 0, len(args))
	for _, a := range args {
		key := attribute.Key(a.Key)
		switch dft.KindOf(a) {
		case dft.KindInt:
			kvs = append(kvs, key.Int64(a.Int64()))
		case dft.KindFloat:
			kvs = append(kvs, key.Float64(a.Float64()))
		default:
			if a.Key == assemble.ArgStatus {
				failed = true
				continue
			}
			kvs = append(kvs, key.String(a.Text()))
		}
	}
	return kvs, failed
}
