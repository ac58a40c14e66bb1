package torchtrace

import (
	"math"
	"strconv"
	"time"

	"github.com/trainspan/trainspan/internal/kineto"
)

// Logs from before PyTorch 2.5 have no events of phases. From 2.4 on the metrics of a
// compilation say when it began and how long it took; before, there is only the clock
// in front of each record, from which a compilation lasts from its first record to
// its last.

// wholeFrame is how later logs call that phase.
const wholeFrame = "entire_frame_compile"

// maxSeen bounds the compilations that are dated by them.
const maxSeen = 1 << 16

// metrics takes the metrics of a compilation.
func (rd *reader) metrics(raw []byte, id string) error {
	if rd.log.Records["chromium_event"] > 0 {
		return nil // these say more
	}
	args := kineto.Args(raw)
	start, took := seconds(args, "start_time"), seconds(args, "entire_frame_compile_time_s")
	if start <= 0 || took < 0 {
		return nil
	}
	ev := Phase{Name: wholeFrame, CompileID: id, Start: start, Dur: took, TID: rd.tid, Depth: 1}
	ev.FailType, _ = args.Text("fail_type")
	return rd.emit(&ev)
}

// seconds reads a number of seconds as nanoseconds, -1 where there is none.
func seconds(args kineto.Args, key string) int64 {
	raw, ok := args.Raw(key)
	if !ok {
		return -1
	}
	v, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || !(v >= 0) || v > math.MaxInt64/1e9 {
		return -1
	}
	whole, part := math.Modf(v)
	return int64(whole)*1e9 + int64(math.Round(part*1e9))
}

// clock notes when a record was written.
func (rd *reader) clock(prefix string) {
	if t, err := time.Parse("0102 15:04:05.999999", prefix); err == nil {
		rd.at = t
	}
}

// dates notes a record of a compilation.
func (rd *reader) dates(id string) {
	if id == "" || rd.at.IsZero() {
		return
	}
	i, ok := rd.seenAt[id]
	if !ok {
		if len(rd.seen) >= maxSeen {
			return
		}
		i = len(rd.seen)
		rd.seenAt[id] = i
		rd.seen = append(rd.seen, seen{id: id, tid: rd.tid, first: rd.at})
	}
	rd.seen[i].last = rd.at
}

// undated hands out the compilations of a log that dates none of them, by the clocks
// of its records. Their year and zone are those with which the last record comes
// closest to when the file was written.
func (rd *reader) undated(written time.Time) error {
	if rd.log.Phases > 0 || rd.log.Records["chromium_event"] > 0 || written.IsZero() || rd.at.IsZero() {
		return nil
	}
	const quarter = 15 * time.Minute // all zones are of these
	apart := time.Duration(math.MaxInt64)
	year := 0
	for y := written.Year() - 1; y <= written.Year()+1; y++ {
		if d := rd.at.AddDate(y-rd.at.Year(), 0, 0).Sub(written.UTC()); d.Abs() < apart.Abs() {
			apart, year = d, y
		}
	}
	zone := apart.Round(quarter)
	if zone.Abs() > 14*time.Hour { // the file is a copy
		_, offset := written.Zone()
		zone = time.Duration(offset) * time.Second
	}
	for i := range rd.seen {
		s := &rd.seen[i]
		start := s.first.AddDate(year-s.first.Year(), 0, 0).Add(-zone)
		ev := Phase{Name: wholeFrame, CompileID: s.id, Start: start.UnixNano(), Dur: max(int64(s.last.Sub(s.first)), 0), TID: s.tid, Depth: 1}
		if err := rd.emit(&ev); err != nil {
			return err
		}
	}
	rd.log.ByClock = len(rd.seen) > 0
	return nil
}
