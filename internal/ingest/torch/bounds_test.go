package torch_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/torch"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// keepSink keeps the events of a category.
type keepSink struct {
	cat    string
	events []dftracer.Event
}

func (s *keepSink) Write(e *dftracer.Event) {
	if e.Cat == s.cat && e.Phase == dftracer.PhaseComplete {
		s.events = append(s.events, tracefile.Decoded(e))
	}
}

// What exceeds a bound is written in another way or counted, and the report
// mentions it.
func TestBounds(t *testing.T) {
	const n = 3000
	for name, tt := range map[string]struct {
		fill func(b *bytes.Buffer)
		rows int // rows that become events
		says string
	}{
		"depth": {func(b *bytes.Buffer) {
			for i := range n {
				row(b, "cpu_op", "aten::op", 1, i, 2*n-2*i, "")
			}
		}, n, fmt.Sprintf("%d rows nest deeper than 1024 levels", n-1024)},
		"events that end before they begin": {func(b *bytes.Buffer) {
			row(b, "cpu_op", "aten::op", 1, 10, -5, "")
			row(b, "kernel", "k", 7, 10, -5, `"device":0,"stream":7`)
			fmt.Fprint(b, `{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":9223372036854775,"dur":9223372036854775},`)
			row(b, "cpu_op", "aten::op", 1, 10, 5, "")
		}, 1, "3 events end before they begin"},
		"events without a process": {func(b *bytes.Buffer) {
			fmt.Fprint(b, `{"ph":"X","name":"a","pid":"main","tid":"t1","ts":1,"dur":5},{"ph":"X","cat":"x","name":"a","tid":1,"ts":1,"dur":5},`)
			row(b, "cpu_op", "aten::op", 1, 10, 5, "")
		}, 1, "2 events have no numeric process id"},
		"begins": {func(b *bytes.Buffer) {
			for i := range 1<<16 + 7 {
				fmt.Fprintf(b, `{"ph":"B","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":%d},`, i)
			}
			for i := range 1<<16 + 7 {
				fmt.Fprintf(b, `{"ph":"E","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":%d},`, 1<<17+i)
			}
		}, 1 << 16, "14 events have only a begin or only an end"},
		"long begins": {func(b *bytes.Buffer) {
			for i := range 70 {
				fmt.Fprintf(b, `{"ph":"B","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":%d,"args":{"x":"%s"}},`, i, strings.Repeat("y", 1<<20))
			}
			for i := range 70 {
				fmt.Fprintf(b, `{"ph":"E","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":%d},`, 100+i)
			}
		}, 63, "14 events have only a begin or only an end"},
		"threads with phases": {func(b *bytes.Buffer) {
			for i := range 100 {
				row(b, "user_annotation", "forward", i+1, 10, 90, "")
				row(b, "cuda_runtime", "cudaLaunchKernel", i+1, 20, 1, fmt.Sprintf(`"correlation":%d`, i+1))
				row(b, "kernel", "k", 7, 10*i, 5, fmt.Sprintf(`"device":0,"stream":7,"correlation":%d`, i+1))
			}
		}, 300, "phases on 36 threads have no device time"},
	} {
		t.Run(name, func(t *testing.T) {
			sink := &keepSink{cat: "PP"}
			rep, err := importBytes(t.Context(), sink, &torch.Options{TempDir: t.TempDir()}, "x.json", profile(0, tt.fill))
			if err != nil {
				t.Fatal(err)
			}
			if len(sink.events) != tt.rows || !strings.Contains(rep.String(), tt.says) {
				t.Errorf("%d events, want %d, and that %s:\n%s", len(sink.events), tt.rows, tt.says, rep)
			}
		})
	}
}

// Names that other rows refer to are cut there, and groups with long lists of
// ranks are equal on each rank.
func TestReferences(t *testing.T) {
	long := strings.Repeat("é", 5000)
	sink := &keepSink{cat: "PP"}
	_, err := importBytes(t.Context(), sink, &torch.Options{TempDir: t.TempDir()}, "x.json", profile(0, func(b *bytes.Buffer) {
		row(b, "cpu_op", long, 1, 0, 100, "")
		row(b, "cuda_runtime", "cudaLaunchKernel", 1, 20, 1, `"correlation":7`)
		row(b, "kernel", "k", 7, 30, 5, `"device":0,"stream":7,"correlation":7`)
	}))
	if err != nil || len(sink.events) != 3 {
		t.Fatalf("%d events, error %v; want 3", len(sink.events), err)
	}
	ops := 0
	for _, e := range sink.events {
		for _, a := range e.Args {
			if a.Key == "op" {
				ops++
				if !strings.HasPrefix(long, a.Text()) || len(a.Text()) != 1024 {
					t.Errorf("op has %d bytes, want the first 1024 of the name", len(a.Text()))
				}
			}
		}
	}
	if ops != 1 {
		t.Errorf("%d kernels name their operator, want 1", ops)
	}
	ranks := make([]string, 3000)
	for i := range ranks {
		ranks[i] = fmt.Sprint(i)
	}
	var sources []torch.Source
	for rank := range 2 {
		sources = append(sources, fromBytes(fmt.Sprint(rank), profile(rank, func(b *bytes.Buffer) {
			for i := range 20 {
				row(b, "kernel", "ncclDevKernel_AllReduce_Sum", 7, 1000*i+37*i*i+rank, 500-rank, fmt.Sprintf(
					`"device":0,"stream":7,"Collective name":"allreduce","Process Group Name":"0","Process Group Ranks":"[%s]","In msg nelems":1,"dtype":"Float","Group size":3000`, strings.Join(ranks, ", ")))
			}
		})))
	}
	rep, err := torch.Import(t.Context(), &nullSink{}, sources, &torch.Options{TempDir: t.TempDir()})
	if err != nil || len(rep.Ranks) != 1 || rep.Ranks[0].Matched != 20 {
		t.Errorf("report %v, error %v; want one group with 20 matches", rep, err)
	}
}
