package otlpreceiver_test

import (
	"testing"

	"github.com/trainspan/trainspan/internal/ingest/otlpreceiver"
	"github.com/trainspan/trainspan/internal/testkit/growth"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// BenchmarkMemory has 1,024 processes that send continuously, 50 spans below an
// open one, and reports the maximum memory of the heap and of the whole
// process:
//
//	go test -run '^$' -bench Memory -benchtime 1x ./internal/ingest/otlpreceiver
func BenchmarkMemory(b *testing.B) {
	const processes, rounds = 1024, 10
	for b.Loop() {
		files := otlpreceiver.NewFiles(&otlpreceiver.FilesOptions{Dir: b.TempDir()})
		var most growth.Peak
		for round := range rounds {
			for p := range processes {
				var list []*tracepb.Span
				for i := range 50 {
					at := int64(1000 * (50*round + i))
					s := span(2+50*round+i, 1, at, at+900)
					s.Attributes = numbers(3)
					list = append(list, s)
				}
				if err := files.Take(b.Context(), batch(b, of(1000+p, list...))); err != nil {
					b.Fatal(err)
				}
				if p%128 == 0 {
					most.Look(b)
				}
			}
		}
		if err := files.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
		if st := files.Stats(); st.Processes != processes || st.Spans != 50*rounds*processes || st.Lost != 0 {
			b.Fatalf("counts %+v, want %d processes, %d spans, none lost", st, processes, 50*rounds*processes)
		}
		most.Report(b)
	}
}
