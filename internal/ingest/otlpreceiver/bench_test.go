//go:build unix

package otlpreceiver_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/ingest/otlpreceiver"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// BenchmarkSpan reports what a span costs from the request to the closed trace,
// and the ratio to decoding the request: 512 spans a request with eight
// attributes, each eighth span the parent of those before it. This is done with
// and without a journal, in turns: journal-x is the ratio of processor time
// with a journal to that without one, and journal-B/span the bytes of a span in
// the journal, which are as many as in its request.
//
//	go test -run '^$' -bench Span ./internal/ingest/otlpreceiver
func BenchmarkSpan(b *testing.B) {
	const perRequest, requests = 512, 200
	bodies := make([][]byte, requests)
	for n := range bodies {
		list := make([]*tracepb.Span, perRequest)
		for i := range list {
			// A span that ends after seven others contains them.
			id, at := 1+perRequest*n+i, int64(1000*(perRequest*n+i))
			s := span(id, perRequest*n+i/8*8+8, at, at+900)
			if i%8 == 7 {
				s = span(id, 0, at-7000, at+900)
			}
			s.Attributes = append(numbers(6), word("device", "cuda:0"), word("url", "http://localhost/"+strconv.Itoa(i%50)))
			list[i] = s
		}
		body, err := proto.Marshal(&collectorpb.ExportTraceServiceRequest{ResourceSpans: of(7, list...)})
		if err != nil {
			b.Fatal(err)
		}
		bodies[n] = body
	}
	var whole, alone time.Duration
	var used [2]time.Duration // processor time without and with a journal
	pass := func(journal int) time.Duration {
		begin, dir, before := time.Now(), b.TempDir(), processorTime(b)
		files := otlpreceiver.NewFiles(&otlpreceiver.FilesOptions{Dir: dir, Journal: journal == 1})
		r, err := otlpreceiver.Listen(files.Take, &otlpreceiver.Options{MaxRate: 1 << 30})
		if err != nil {
			b.Fatal(err)
		}
		for _, body := range bodies {
			request := httptest.NewRequest(http.MethodPost, "http://localhost"+otlpreceiver.Path, bytes.NewReader(body))
			request.Header.Set("Content-Type", "application/x-protobuf")
			answer := httptest.NewRecorder()
			if r.ServeHTTP(answer, request); answer.Code != http.StatusOK {
				b.Fatalf("status %d, want 200: %s", answer.Code, answer.Body)
			}
		}
		if err := r.Shutdown(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := files.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
		used[journal] += processorTime(b) - before
		took := time.Since(begin)
		if st := files.Stats(); st.Spans != perRequest*requests {
			b.Fatalf("counts %+v, want %d spans", st, perRequest*requests)
		}
		return took
	}
	for b.Loop() {
		whole += pass(0)
		pass(1)
		begin := time.Now()
		for _, body := range bodies {
			if err := proto.Unmarshal(body, new(collectorpb.ExportTraceServiceRequest)); err != nil {
				b.Fatal(err)
			}
		}
		alone += time.Since(begin)
	}
	b.ReportMetric(float64(whole.Nanoseconds())/float64(b.N*perRequest*requests), "ns/span")
	b.ReportMetric(whole.Seconds()/alone.Seconds(), "decode-x")
	b.ReportMetric(used[1].Seconds()/used[0].Seconds(), "journal-x")
	b.ReportMetric(float64((used[1]-used[0]).Nanoseconds())/float64(b.N*perRequest*requests), "journal-cpu-ns/span")
	b.ReportMetric(float64(len(bodies[0]))/perRequest, "journal-B/span")
	b.ReportMetric(0, "ns/op")
}

// processorTime returns the processor time of this process so far.
func processorTime(b *testing.B) time.Duration {
	var ru syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}
