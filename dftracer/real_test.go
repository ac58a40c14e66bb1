package dftracer_test

import (
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// realTraces returns the files of a real run of DFTracer, which are not part of
// the module.
func realTraces(t testing.TB) []string {
	t.Helper()
	files, _ := filepath.Glob("../../shared/data/dftracer/*.pfw.gz")
	if len(files) == 0 {
		t.Skip("../shared/data/dftracer is absent")
	}
	return files
}

func TestRealTrace(t *testing.T) {
	events, hashes := 0, 0
	for _, path := range realTraces(t) {
		var names tracefile.Hashes
		r, err := dftracer.OpenReader(path, &dftracer.ReaderOptions{Hashes: &names})
		if err != nil {
			t.Fatal(err)
		}
		for ev, err := range r.All() {
			if err != nil {
				t.Fatal(err)
			}
			events++
			if ev.Phase != dftracer.PhaseMetadata {
				continue
			}
			switch ev.Name {
			case tracefile.NameHostHash, tracefile.NameFileHash, tracefile.NameStringHash:
				name, value := ev.Meta()
				if got := tracefile.HashText(tracefile.HashOf(dftracer.V1, name), dftracer.V1); got != value {
					t.Errorf("hash of %q is %s, want %s as in the trace", name, got, value)
				}
				hashes++
			}
		}
		st := r.Stats()
		if st.Bad > 0 || st.Torn || st.Dialect != dftracer.V1 || st.Slow > 0 {
			t.Errorf("%s: stats %+v, want dialect 1 without bad or slow lines", path, st)
		}
		if host, ok := names.Host("9509357668201227806"); !ok || host != "corona171" {
			t.Errorf("%s: host %q, %v; want corona171", path, host, ok)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		var scanned atomic.Int64
		sst, err := dftracer.Scan(path, &dftracer.ReaderOptions{Concurrent: true}, func(*dftracer.Event) error { scanned.Add(1); return nil })
		if err != nil || sst.Events != st.Events || scanned.Load() != int64(st.Events) || sst.Lines != st.Lines {
			t.Errorf("%s: Scan gave %+v, %v; want %d events in %d lines as Reader", path, sst, err, st.Events, st.Lines)
		}
		report, err := dftracer.ValidateFile(path, &dftracer.ValidateOptions{AllowForeign: true, AllowMissingParents: true})
		if err != nil || !report.OK() {
			t.Errorf("%s: %v, %v; want a valid trace", path, err, report.Err())
		}
	}
	if events != 18279 || hashes != 232 {
		t.Errorf("%d events and %d hash records, want 18279 and 232", events, hashes)
	}
}

func TestHashVectors(t *testing.T) {
	for _, v := range []struct{ text, v1, v2 string }{
		{"corona171", "9509357668201227806", "88fe0d6c9e446319"},
		{"dlio_benchmark", "15997048988198709261", "de04e44a7b1b2401"},
	} {
		if got := tracefile.HashText(tracefile.HashOf(dftracer.V1, v.text), dftracer.V1); got != v.v1 {
			t.Errorf("V1 hash of %q is %s, want %s", v.text, got, v.v1)
		}
		for _, d := range []dftracer.Dialect{dftracer.V2, dftracer.V22} {
			if got := tracefile.HashText(tracefile.HashOf(d, v.text), d); got != v.v2 {
				t.Errorf("%v hash of %q is %s, want %s", d, v.text, got, v.v2)
			}
		}
	}
	names := []string{dftracer.V1.String(), dftracer.V2.String(), dftracer.V22.String(), dftracer.Dialect(9).String()}
	if !slices.Equal(names, []string{"V1", "V2", "V22", "Dialect(9)"}) {
		t.Errorf("names of dialects: %v, want V1, V2, V22 and Dialect(9)", names)
	}
}
