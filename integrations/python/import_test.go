package python_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/ingest/pyring"
	"github.com/trainspan/trainspan/internal/testkit/pyrun"
)

// TestImportBesideTheRings checks that without an output folder each trace is
// beside its ring buffer, so that the next import finds what is already
// written.
func TestImportBesideTheRings(t *testing.T) {
	both := t.TempDir()
	for _, folder := range []string{"a", "b"} {
		rings := filepath.Join(both, folder)
		if err := os.Mkdir(rings, 0o755); err != nil {
			t.Fatal(err)
		}
		pyrun.Output(t, pyrun.Command(t, rings, "from trainspan.dftracer import ai\nwith ai.compute.forward: pass\n"))
	}
	for _, c := range []struct {
		path, dir    string
		spans, again int64
	}{{filepath.Join(both, "b"), "b", 1, 0}, {both, "a", 2, 1}} {
		st, err := pyring.Import(t.Context(), []string{c.path}, pyring.Options{Attempt: -1})
		if err != nil || st.Spans != c.spans || st.Again != c.again || filepath.Dir(st.Files[0]) != filepath.Join(both, c.dir) {
			t.Errorf("%s: %+v, %v; want %d spans, %d again, in %s", c.path, st, err, c.spans, c.again, c.dir)
		}
	}
}

// TestImportTwice checks that an import does not repeat records that a trace
// already has, from an earlier import or from a reader that was killed before
// it freed the slots.
func TestImportTwice(t *testing.T) {
	rings, out := t.TempDir(), t.TempDir()
	pyrun.Output(t, pyrun.Command(t, rings, `
from trainspan.dftracer import ai
for i in range(100):
    with ai.compute.forward:
        with ai.data.item:
            pass
`))
	first, _ := importRings(t, pyring.Options{Out: out, Attempt: -1}, rings)
	second, files := importRings(t, pyring.Options{Out: out, Attempt: -1}, rings)
	if first.Spans != 200 || first.Again != 0 || second.Spans != 200 || second.Again != 200 || second.Lost != 0 {
		t.Errorf("imports gave %+v, then %+v; want 200 spans each, all 200 again the second time", first, second)
	}
	for _, f := range files {
		if strings.Contains(text(f), `"name":"item"`) {
			t.Errorf("%s has the spans a second time", f)
		}
	}
}

// TestImportBesideAnotherProcess checks that spans of another process do not
// count as this one's, even if their names and times are equal and the process
// ids have a common prefix.
func TestImportBesideAnotherProcess(t *testing.T) {
	rings, out := t.TempDir(), t.TempDir()
	pyrun.Output(t, pyrun.Command(t, rings, `
from trainspan import _ring
n = _ring.name("forward", "compute")
at = _ring.now()
for i in range(3):
    _ring.event(n, at, at)
`))
	st, files := importRings(t, pyring.Options{Out: out, Attempt: -1}, rings)
	if st.Spans != 3 || len(files) != 1 {
		t.Fatalf("stats %+v, want 3 spans in one file", st)
	}
	if err := os.Rename(files[0], strings.TrimSuffix(files[0], ".pfw.gz")+"1.pfw.gz"); err != nil {
		t.Fatal(err)
	}
	if st, _ := importRings(t, pyring.Options{Out: out, Attempt: -1}, rings); st.Again != 0 {
		t.Errorf("%d spans of another process were taken for its own, want 0", st.Again)
	}
	if st, _ := importRings(t, pyring.Options{Out: out, Attempt: -1}, rings); st.Again != 3 {
		t.Errorf("%d of 3 equal spans were known, want 3", st.Again)
	}
}
