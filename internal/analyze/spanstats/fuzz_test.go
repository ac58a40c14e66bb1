package spanstats_test

import (
	"encoding/binary"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/analyze/spanstats"
)

// FuzzAggregator checks that for any spans, in any order and with any overlap,
// the sums are within their limits, also with little memory.
func FuzzAggregator(f *testing.F) {
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz"), false)
	f.Add(make([]byte, 4096), true)
	f.Fuzz(func(t *testing.T, data []byte, small bool) {
		var opts spanstats.Options
		if small {
			opts = spanstats.Options{MaxSpans: 1, MaxIntervals: 1, MaxNames: 3}
		}
		agg := spanstats.New(&opts)
		cats := [...]string{"compute", "POSIX", "comm", "pipeline"}
		var total, events int64
		for ; len(data) >= 8; data = data[8:] {
			ts, dur := int64(binary.LittleEndian.Uint16(data)), int64(binary.LittleEndian.Uint16(data[2:]))
			if data[7]&0x80 != 0 {
				ts <<= 40 // far away, but without overflow of the sums
			}
			ev := complete(cats[data[4]&3], string('a'+rune(data[4]>>4)), int64(data[5]&3), ts, dur, dftracer.Int("epoch", int64(data[6]&3)-1))
			ev.PID, ev.Level = int64(data[5]>>7), int(data[7]&7)
			agg.Add(ev)
			total, events = total+dur, events+1
		}
		r := agg.Result()
		var sum, n int64
		for _, s := range r.Names {
			if s.Self < 0 || s.Total < 0 || s.P50 > s.P99 || s.P99 > s.Max || s.Mean > float64(s.Max) {
				t.Errorf("row %+v, want no negative time, P50 <= P99 <= maximum, mean <= maximum", s)
			}
			sum, n = sum+s.Total, n+s.Count
		}
		if sum != total || n != events || r.Events != events {
			t.Errorf("self times sum to %d, want %d; %d events, want %d", sum, total, n, events)
		}
		for _, p := range r.Processes {
			u := p.Use
			if u.Compute > u.Wall || u.IO > u.Wall || u.Comm > u.Wall || u.IOStall > u.IO || u.CommStall > u.Comm ||
				u.Idle < 0 || u.Compute+max(u.IOStall, u.CommStall)+u.Idle > u.Wall || u.Wall != p.End-p.Start {
				t.Errorf("times of the process %+v, want none longer than its wall time", p)
			}
		}
	})
}
