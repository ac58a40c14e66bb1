package dftracer_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// TestOlderDialects reads lines of DFTracer before 1.0, which had another name
// then: with a comma after the last argument, and with each value as text.
func TestOlderDialects(t *testing.T) {
	path := filepath.Join(t.TempDir(), "old.pfw")
	text := `[
{"name":"loop.iter","cat":"data_loader","pid":33,"tid":81,"ts":1700,"dur":100,"ph":"X","args":{"epoch":1,"file":"a,}\",}","step":2,}}
{"id":"7","name":"read","cat":"POSIX","pid":"33","tid":"81","ts":"1698080323775554","dur":"141","ph":"X","args":{"hostname":"node7","ret":"131072","fd":18}}
`
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := dftracer.OpenReader(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	var events []dftracer.Event
	for ev, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		one := *ev
		one.Args = slices.Clone(ev.Args)
		events = append(events, one)
	}
	if len(events) != 2 {
		t.Fatalf("%d events, want 2", len(events))
	}
	if e := &events[0]; e.Dur != 100 || len(e.Args) != 3 || tracefile.Str(e.Args[1]) != `a,}",}` || e.Args[2].Int64() != 2 {
		t.Errorf(`event %+v, want 100 µs and 3 arguments, the second a,}",}, the third 2`, e)
	}
	if e := &events[1]; e.ID != 7 || e.TS != 1698080323775554 || e.Dur != 141 || e.PID != 33 || tracefile.Str(e.Args[0]) != "node7" {
		t.Errorf("event %+v, want ID 7, ts 1698080323775554, 141 µs, process 33, node7", e)
	}
}
