//go:build unix

package file_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trainspan/trainspan/exporters/file"
	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"github.com/trainspan/trainspan/internal/tracefile/onelogger"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// TestDiskFull writes to a device that never takes anything.
func TestDiskFull(t *testing.T) {
	const full = "/dev/full"
	if _, err := os.Stat(full); err != nil {
		t.Skipf("no %s here", full)
	}
	for name, options := range map[string]*file.Options{
		"buffered": {FlushInterval: time.Hour}, "at once": {FlushInterval: -1}, "compat": {Compat: true, FlushInterval: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			var told []error
			options.OnError = func(err error) { told = append(told, err) }
			e := started(t, full, options)
			if options.FlushInterval > 0 {
				export(t, e, dataError("held"))
				if err := e.Flush(); !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("Flush: %v", err)
				}
			}
			for range 100 {
				export(t, e, dataError("x"))
			}
			if st := e.Stats().File; st.Bytes != 0 || st.Lost != 0 || st.Errors == 0 || st.Records < 100 {
				t.Errorf("stats %+v, want 100 records or more held, none lost, and errors", st)
			}
			err := e.Shutdown(context.Background())
			if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "are lost") {
				t.Errorf("Shutdown: %v", err)
			}
			if len(told) != 1 || !errors.Is(told[0], syscall.ENOSPC) || !strings.HasPrefix(told[0].Error(), "file: ") {
				t.Errorf(`reports %v, want one of ENOSPC that begins with "file: "`, told)
			}
			if st := e.Stats().File; st.Bytes != 0 || st.Lost != st.Records {
				t.Errorf("stats after the end %+v, want every record lost", st)
			}
			shutdown(t, e)
		})
	}
}

// TestMemoryIsBounded keeps what a full disk does not take, up to a bound.
func TestMemoryIsBounded(t *testing.T) {
	const full = "/dev/full"
	if _, err := os.Stat(full); err != nil {
		t.Skipf("no %s here", full)
	}
	told := 0
	e := started(t, full, &file.Options{FlushInterval: time.Hour, StallMemory: 8 << 20, OnError: func(error) { told++ }})
	export(t, e, dataError("first"))
	_ = e.Flush()
	s := spanData("s", 1)
	r := event(s, "ev", attrvalue.String("k", strings.Repeat("x", 16<<10)))
	for range 2000 { // 32 MB
		export(t, e, r)
	}
	st := e.Stats().File
	if told != 1 || st.Lost < 1000 || st.Lost+st.Records != 2001 {
		t.Errorf("%d reports, stats %+v; want 1 report, 1000 or more lost, 2001 accounted for", told, st)
	}
	if held := st.Records * (16 << 10); held > 9<<20 || held < 7<<20 {
		t.Errorf("%d bytes are held, want 7 to 9 MiB", held)
	}
	_ = e.Shutdown(context.Background())
	if st := e.Stats().File; st.Lost != 2001 {
		t.Errorf("%d records were lost of 2001, want 2001", st.Lost)
	}
}

// quota limits the file size of this process, so that a write beyond it is
// short. It is for child processes.
func quota(limit uint64) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &l); err != nil {
		panic(err)
	}
	if l.Cur = limit; limit == 0 {
		l.Cur = l.Max
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l); err != nil {
		panic(err)
	}
}

// outages is the child of a test: its file reaches the limit in the middle of a
// line, repeatedly.
func outages(e *file.Exporter, path string) error {
	s := spanData("s", 1)
	var errs []error
	for i := range 200 {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		quota(uint64(info.Size()) + 1 + uint64(i*7%400))
		for range 3 {
			errs = append(errs, e.Write([]outputs.Record{*event(s, "ev", attrvalue.String("k", "some text to make a longer line"))}))
			_ = e.Flush()
		}
		errs = append(errs, e.Write([]outputs.Record{*start(s)}))
		quota(0)
		if err := e.Flush(); err != nil {
			errs = append(errs, err)
		}
	}
	if st := e.Stats().File; st.Lost != 0 || st.Records != 800 || st.Errors < 200 || st.Outages != 200 || reported.Load() != 400 {
		errs = append(errs, fmt.Errorf("got stats %+v, %d reports", st, reported.Load()))
	}
	return errors.Join(errs...)
}

// overflow is the child of a test: it loses records while the file cannot grow.
func overflow(e *file.Exporter, path string) error {
	_ = e.Write([]outputs.Record{*dataError("before")})
	_ = e.Flush()
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	quota(uint64(info.Size()) + 100)
	r := event(spanData("s", 1), "ev", attrvalue.String("k", strings.Repeat("x", 16<<10)))
	for i := range 600 {
		if err := e.Write([]outputs.Record{*r}); err != nil {
			return err
		}
		if i == 0 {
			_ = e.Flush()
		}
	}
	lost := e.Stats().File.Lost
	if reported.Load() != 1 || lost == 0 {
		return fmt.Errorf("got %d reports, %d lost records", reported.Load(), lost)
	}
	quota(0)
	fmt.Println(lost)
	if err := e.Shutdown(context.Background()); !errors.Is(err, syscall.EFBIG) { // the file recovers, but something is missing
		return fmt.Errorf("Shutdown: %w", err)
	}
	return nil
}

// half is the child of a test: it ends while half a line is written.
func half(e *file.Exporter, path string) error {
	_ = e.Write([]outputs.Record{*dataError("before")})
	_ = e.Flush()
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	quota(uint64(info.Size()) + 100)
	_ = e.Write([]outputs.Record{*dataError("half")})
	if err := e.Flush(); !errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("Flush: %w", err)
	}
	// A retry in the background may just have written a part, which it removes
	// again.
	for {
		now, err := os.Stat(path)
		if err != nil {
			return err
		}
		if now.Size() == info.Size() {
			break
		}
		time.Sleep(time.Millisecond) // the parent's deadline ends this loop
	}
	if err := e.Shutdown(context.Background()); !errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("Shutdown: %w", err)
	}
	return nil
}

func TestOutages(t *testing.T) {
	path := temporary(t)
	runChild(t, "outages", path)
	records := decode(t, contents(t, path))
	counted(t, records, 800)

	path = temporary(t)
	runChild(t, "outages at once", path)
	counted(t, decode(t, contents(t, path)), 800)
}

func TestLossIsRecorded(t *testing.T) {
	path := temporary(t)
	out := runChild(t, "overflow", path)
	records := decode(t, contents(t, path))
	counted(t, records, len(records))
	last := records[len(records)-1]
	if last.Type != spans.EventTelemetryDataError || fmt.Sprint(last.Error.Attributes[onelogger.LostRecords]) != strings.TrimSpace(out) ||
		last.Error.Attributes[onelogger.TelemetryDataErrorType] != onelogger.IncompleteTelemetryData {
		t.Errorf("the child lost %s, the last record is %+v; want a data error with the same number", out, last)
	}
	if lost := 601 - (len(records) - 1); fmt.Sprint(lost) != strings.TrimSpace(out) {
		t.Errorf("%d records are missing, want %s as the child lost", lost, out)
	}
}

func TestShutdownInAnOutageLeavesWholeLines(t *testing.T) {
	path := temporary(t)
	runChild(t, "half", path)
	counted(t, decode(t, contents(t, path)), 1)
}
