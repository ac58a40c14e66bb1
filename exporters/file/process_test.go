//go:build unix

package file_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/trainspan/trainspan/exporters/file"
	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"github.com/trainspan/trainspan/internal/testkit/until"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// reported counts the outages reported in a child.
var reported atomic.Int64

// child runs the part of a child process.
func child(role, path string) int {
	signal.Ignore(syscall.SIGXFSZ)
	note := func(error) { reported.Add(1) }
	options := &file.Options{FlushInterval: time.Hour, StallMemory: 8 << 20, OnError: note}
	run := map[string]func(*file.Exporter, string) error{
		"outages": outages, "outages at once": outages, "overflow": overflow, "half": half,
		"write": writeMany, "write compat": writeMany, "until killed": writeUntilKilled,
	}[role]
	switch role {
	case "outages at once":
		options.FlushInterval = -1
	case "write compat":
		options = &file.Options{Compat: true}
	case "write", "until killed":
		options = nil
	}
	e := file.New(path, options)
	id := outputs.Identity{Host: "child", PID: os.Getpid()}
	err := attach(e, id)
	if err == nil {
		err = run(e, e.Path())
	}
	if err == nil {
		err = e.Shutdown(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func command(t testing.TB, role, path string) *exec.Cmd {
	c := exec.CommandContext(t.Context(), os.Args[0], path)
	c.Env = append(os.Environ(), childVariable+"="+role)
	c.Stderr = os.Stderr
	return c
}

func runChild(t testing.TB, role, path string) string {
	t.Helper()
	out, err := command(t, role, path).Output()
	if err != nil {
		t.Fatalf("child %q: %v", role, err)
	}
	return string(out)
}

const manyRecords = 2000

func writeMany(e *file.Exporter, _ string) error {
	for i := range manyRecords {
		s := spanData(strings.Repeat("x", i%500), 1)
		if err := e.Write([]outputs.Record{*event(s, "ev", attrvalue.String("k", s.Name))}); err != nil {
			return err
		}
	}
	return nil
}

func TestTwoProcessesOnOnePath(t *testing.T) {
	for _, compat := range []bool{false, true} {
		path := temporary(t)
		role := "write"
		if compat {
			role = "write compat"
		}
		mine := started(t, path, &file.Options{Compat: compat})
		other := command(t, role, path)
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		if err := writeMany(mine, path); err != nil {
			t.Fatal(err)
		}
		if err := other.Wait(); err != nil {
			t.Fatal(err)
		}
		shutdown(t, mine)
		files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
		if err != nil || len(files) != 2 {
			t.Fatalf("files %v, %v; want two", files, err)
		}
		for _, f := range files {
			records := decode(t, contents(t, f))
			counted(t, records, manyRecords)
			for _, r := range records {
				if r.PID != records[0].PID {
					t.Fatalf("%s has records of processes %d and %d, want one", f, records[0].PID, r.PID)
				}
			}
		}
	}
}

// writeUntilKilled writes a record every 2 ms, and prints each one that the
// exporter has accepted.
func writeUntilKilled(e *file.Exporter, _ string) error {
	for i := 1; ; i++ {
		if err := e.Write([]outputs.Record{*start(spanData(fmt.Sprint("span", i), byte(i)))}); err != nil {
			return err
		}
		fmt.Println(i)
		time.Sleep(2 * time.Millisecond) // a stand-in for work
	}
}

// Records get into the file without a flush, and remain there if the process is
// killed.
func TestKilledProcess(t *testing.T) {
	path := temporary(t)
	c := command(t, "until killed", path)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	const safe = 300
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() != fmt.Sprint(safe) {
			continue
		}
		until.True(t, "what the child wrote is in the file", func() bool {
			b, _ := os.ReadFile(path)
			return bytes.Contains(b, fmt.Appendf(nil, `"span%d"`, safe))
		})
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Wait(); err == nil {
		t.Fatal("the child exited with status 0, want a failure")
	}

	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	text = text[:strings.LastIndexByte(text, '\n')+1] // it may be followed by an incomplete line
	records := decode(t, text)
	if len(records) < safe {
		t.Errorf("%d records are in the file, want at least %d", len(records), safe)
	}
	counted(t, records, len(records))

	after := started(t, path, &file.Options{Append: true}) // the next run of the job
	export(t, after, dataError("next run"))
	shutdown(t, after)
	if got := decode(t, contents(t, path)); after.Path() != path || len(got) != len(records)+1 {
		t.Errorf("%d records in %s after the next run, want %d", len(got), after.Path(), len(records)+1)
	}
}
