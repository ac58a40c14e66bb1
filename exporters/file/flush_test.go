package file_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trainspan/trainspan/exporters/file"
	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

func size(t testing.TB, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func TestFlushInterval(t *testing.T) {
	for _, c := range []struct {
		interval, waits time.Duration
	}{{0, file.DefaultFlushInterval}, {time.Minute, time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			path := temporary(t)
			e := file.New(path, &file.Options{FlushInterval: c.interval, Heartbeat: -1})
			if err := attach(e, identity); err != nil {
				t.Fatal(err)
			}
			s := spanData("custom", 1)
			export(t, e, start(s), stop(s, 1))
			time.Sleep(c.waits - time.Nanosecond)
			synctest.Wait()
			if n := size(t, path); n != 0 {
				t.Errorf("%d bytes before the interval is over, want 0", n)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			counted(t, decode(t, contents(t, path)), 2)
			shutdown(t, e)
		})
	}
}

// docs/explain/reliability.md promises how much a killed process loses.
func TestDefaultFlushInterval(t *testing.T) {
	if file.DefaultFlushInterval > fswrite.FlushInterval {
		t.Errorf("records wait for %v, want at most %v", file.DefaultFlushInterval, fswrite.FlushInterval)
	}
}

func TestUrgentRecords(t *testing.T) {
	for name, c := range map[string]struct {
		record *outputs.Record
		urgent bool
	}{
		"start of an iteration":   {start(spanData(spans.TrainingIteration, 1)), false},
		"stop of an iteration":    {stop(spanData(spans.TrainingIteration, 1), 1), false},
		"start of a custom span":  {start(spanData("custom", 1)), false},
		"start of application":    {start(spanData(spans.Application, 1)), true},
		"start of training loop":  {start(spanData(spans.TrainingLoop, 1)), true},
		"stop of validation loop": {stop(spanData(spans.ValidationLoop, 1), 1), true},
		"event":                   {event(spanData("custom", 1), "metrics"), true},
		"error":                   {failure(spanData("custom", 1), "bad"), true},
		"telemetry data error":    {dataError("bad"), true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := temporary(t)
				e := file.New(path, &file.Options{FlushInterval: time.Hour})
				if err := attach(e, identity); err != nil {
					t.Fatal(err)
				}
				export(t, e, c.record)
				synctest.Wait() // synthetic time does not pass
				if written := size(t, path) > 0; written != c.urgent {
					t.Errorf("written at once: %t, want %t", written, c.urgent)
				}
				shutdown(t, e)
				counted(t, decode(t, contents(t, path)), 1)
			})
		})
	}
}

func TestNegativeIntervalAndFlush(t *testing.T) {
	path := temporary(t)
	e := started(t, path, &file.Options{FlushInterval: -1})
	s := spanData("custom", 1)
	var before int64
	for i := range 10 {
		export(t, e, event(s, "ev", attrvalue.Int("i", int64(i))))
		now := size(t, path)
		if now <= before {
			t.Fatalf("record %d is not written: the file stays at %d bytes", i, now)
		}
		before = now
		if st := e.Stats().File; st.Bytes != now || st.Records != int64(i+1) {
			t.Errorf("stats %+v, want the %d bytes of the file and %d records", st, now, i+1)
		}
	}
	if e.Stats().File.Blocked <= 0 {
		t.Error("callers that wrote did not wait")
	}

	path = temporary(t)
	e = started(t, path, &file.Options{FlushInterval: time.Hour})
	export(t, e, start(s))
	if n := size(t, path); n != 0 {
		t.Errorf("%d bytes before Flush, want 0", n)
	}
	if waited := e.Stats().File.Blocked; waited != 0 {
		t.Errorf("a caller that wrote nothing waited %v, want 0", waited)
	}
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	counted(t, decode(t, contents(t, path)), 1)
}

func TestFullBufferIsWritten(t *testing.T) {
	path := temporary(t)
	e := started(t, path, &file.Options{FlushInterval: time.Hour})
	s := spanData(strings.Repeat("x", 1000), 1)
	for range 400 {
		export(t, e, start(s))
	}
	if n := size(t, path); n < 256<<10 {
		t.Errorf("%d bytes are written of 400 KB, want at least %d", n, 256<<10)
	}
}

func TestManyGoroutines(t *testing.T) {
	const workers, each = 32, 100
	for _, options := range []*file.Options{nil, {FlushInterval: time.Millisecond}, {FlushInterval: -1}, {Compat: true}} {
		path := temporary(t)
		e := started(t, path, options)
		var all sync.WaitGroup
		for w := range workers {
			all.Go(func() {
				name := strings.Repeat("x", 8*w) + fmt.Sprint("worker", w)
				for i := range each {
					s := spanData(name, byte(w))
					begin, end := start(s), stop(s, 1) // a span must not change while others export it
					if err := e.Write([]outputs.Record{*begin}); err != nil {
						t.Error(err)
					}
					if i%50 == 0 {
						if err := e.Write([]outputs.Record{*event(s, "ev")}); err != nil {
							t.Error(err)
						}
						_ = e.Flush()
						_ = e.Stats().File
					}
					if err := e.Write([]outputs.Record{*end}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		shutdown(t, e)
		records := decode(t, contents(t, path))
		counted(t, records, int(e.Stats().File.Records))
		ended := 0
		for _, r := range records {
			if r.Type == "stop" || r.Type == "complete" {
				ended++
			}
		}
		if ended != workers*each {
			t.Errorf("%+v: %d ends, want %d", options, ended, workers*each)
		}
	}
}

// TestShutdownRace exports during the shutdown: each accepted record is in the
// file.
func TestShutdownRace(t *testing.T) {
	for round := range 20 {
		path := temporary(t)
		e := started(t, path, nil)
		now := make(chan struct{})
		var first atomic.Int64
		var taken [8]int
		var all sync.WaitGroup
		for w := range taken {
			all.Go(func() {
				for e.Write([]outputs.Record{*start(spanData("s", byte(w)))}) == nil {
					taken[w]++
					if first.Add(1) == int64(1+100*round) {
						close(now)
					}
				}
			})
		}
		<-now
		shutdown(t, e)
		all.Wait()
		total := 0
		for _, n := range taken {
			total += n
		}
		counted(t, decode(t, contents(t, path)), total)
	}
}
