package report

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/spans"
)

// TestSlowestInAnyOrder adds more names and more spans of equal length than a process keeps,
// in several orders: the result is always the same, and names of the vocabulary are always
// counted.
func TestSlowestInAnyOrder(t *testing.T) {
	var list []job.Span
	for i := range 2 * maxNames {
		for k := range 3 {
			list = append(list, job.Span{ID: uint64(10*i + k), Name: fmt.Sprintf("a %d", i), Start: int64(k), End: int64(k + 5)})
		}
	}
	for k := range 2 * topSpans {
		list = append(list, job.Span{ID: uint64(1e6 + k), Name: spans.ModelForward, Start: int64(k), End: int64(k + 9)})
	}
	var want []byte
	for seed := range uint64(8) {
		d := newDetailSink(nil)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		for i := range list {
			d.Span(&list[i])
		}
		if n := d.names[spans.ModelForward]; len(d.names) != maxNames || n == nil || n.count != 2*topSpans {
			t.Fatalf("%d names, forward %+v; want %d names and %d spans of forward", len(d.names), n, maxNames, 2*topSpans)
		}
		got, err := d.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("order %d gives other names or spans, want the same in every order", seed)
		}
	}
}
