// Package dftest checks trace files in tests.
package dftest

import (
	"testing"

	"github.com/trainspan/trainspan/dftracer"
)

// Check fails the test unless the trace at path has no findings of
// dftracer.Validate: every line is strict JSON, and framing, key types, the
// order of the first records, unique ids, existing parents that contain their
// children, and no partial overlap on any lane. It returns the report.
func Check(t testing.TB, path string) dftracer.Report {
	t.Helper()
	return CheckWith(t, path, nil)
}

// CheckWith is Check with the given options, which relax some of the rules.
func CheckWith(t testing.TB, path string, opts *dftracer.ValidateOptions) dftracer.Report {
	t.Helper()
	report, err := dftracer.ValidateFile(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	shown := report.Problems[:min(len(report.Problems), 20)]
	for _, p := range shown {
		t.Errorf("%s: %s", path, p)
	}
	if more := report.Count - len(shown); more > 0 {
		t.Errorf("%s: and %d more problems", path, more)
	}
	return report
}

// Events returns copies of all events of a trace. It fails the test if a line
// cannot be read.
func Events(t testing.TB, path string) []dftracer.Event {
	t.Helper()
	r, err := dftracer.OpenReader(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // only read
	var events []dftracer.Event
	for ev, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		copied := *ev
		copied.Args = append([]dftracer.Arg(nil), ev.Args...)
		events = append(events, copied)
	}
	for _, e := range r.Stats().First {
		t.Errorf("%s: %v", path, &e)
	}
	return events
}
