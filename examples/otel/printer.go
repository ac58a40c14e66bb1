package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// printer is a span processor that stores spans to print them as a tree.
type printer struct {
	mu    sync.Mutex
	spans []sdktrace.ReadOnlySpan
}

// OnStart implements sdktrace.SpanProcessor.
func (p *printer) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd implements sdktrace.SpanProcessor.
func (p *printer) OnEnd(s sdktrace.ReadOnlySpan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spans = append(p.spans, s)
}

// Shutdown implements sdktrace.SpanProcessor.
func (p *printer) Shutdown(context.Context) error { return nil }

// ForceFlush implements sdktrace.SpanProcessor.
func (p *printer) ForceFlush(context.Context) error { return nil }

func (p *printer) print(out io.Writer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	slices.SortFunc(p.spans, func(a, b sdktrace.ReadOnlySpan) int {
		return cmp.Compare(a.StartTime().UnixNano(), b.StartTime().UnixNano())
	})
	p.below(out, trace.SpanID{}, 0)
}

func (p *printer) below(out io.Writer, parent trace.SpanID, depth int) {
	for _, s := range p.spans {
		if s.Parent().SpanID() == parent {
			fmt.Fprintf(out, "%s%s\n", strings.Repeat("  ", depth), s.Name())
			p.below(out, s.SpanContext().SpanID(), depth+1)
		}
	}
}
