package place

import (
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
)

// FuzzAssembler checks that no sequence of calls breaks the file or loses a span. Each
// four bytes are one call. Run it with -fuzzminimizetime 1x, because the goroutines of
// the writer make coverage vary.
func FuzzAssembler(f *testing.F) {
	f.Add([]byte{0, 1, 2, 0x15, 0, 2, 255, 0x09, 1, 0, 0, 0})
	f.Add([]byte{2, 2, 1, 3, 0, 3, 2, 0x22, 3, 2, 5, 5, 4, 1, 0, 0, 0, 2, 1, 0x0f})
	f.Fuzz(func(t *testing.T, calls []byte) {
		h := start(t, Options{MaxParents: 5, MaxWaiting: 7})
		var sent int64
		key := func(b byte) Key {
			if b == 255 {
				return Key{}
			}
			return keyOf(int(b % 16))
		}
		for ; len(calls) >= 4; calls = calls[4:] {
			a, b, c := calls[1], calls[2], calls[3]
			at := base + int64(c>>4)*10
			switch calls[0] % 6 {
			case 0:
				h.Add(&Span{Key: key(a), Parent: key(b), Name: &nodeKey, Start: at, End: at + int64(c&15) - 2,
					Events: []Event{{Name: "e", Time: at * 1000}}}, time.Time{})
				sent++
			case 1:
				h.WriteAll()
			case 2:
				if k := key(a); !k.IsZero() {
					h.Begin(k, key(b), &nodeKey, at)
				}
			case 3:
				if k := key(a); !k.IsZero() {
					h.AddEvent(k, Event{Name: "e", Time: at * 1000})
				}
			case 4:
				h.Shrink(int(a % 6))
			case 5:
				h.WriteUntil(time.Time{})
			}
		}
		h.Finish()
		if err := h.w.Close(); err != nil {
			t.Fatal(err)
		}
		report, err := dftracer.ValidateFile(h.path, &dftracer.ValidateOptions{AllowOutliving: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := report.Err(); err != nil {
			t.Error(err)
		}
		c := h.Counts()
		if c.Spans+c.Duplicates != sent {
			t.Errorf("%d spans written and %d duplicates left out, want %d together", c.Spans, c.Duplicates, sent)
		}
		if h.waiting.n != 0 || h.waiting.bytes != 0 || h.waiting.oldest != nil || h.waiting.newest != nil {
			t.Errorf("%d spans and %d bytes wait, want none", h.waiting.n, h.waiting.bytes)
		}
		if n := h.family.open.len + h.family.ended.len; n != len(h.family.known) {
			t.Errorf("the index has %d spans, want %d, those that are remembered", len(h.family.known), n)
		}
	})
}
