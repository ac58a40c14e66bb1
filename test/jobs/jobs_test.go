package jobs_test

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/ingest/torch"
)

var update = flag.Bool("update", false, "write what the replays give into the golden files")

// job is a recording in testdata/NAME and the options of its replay. Its kind
// follows from the file there: rings.tar.gz, requests.tar.gz, profiles.tar.gz
// or script.txt.
type job struct {
	name  string
	of    string         // the job whose recording it replays, if that is another one
	long  bool           // not in the short tests
	send  *config.Export // ring buffers: the export over OTLP
	most  int            // requests: limit of the attributes, events and links of a span
	level torch.Level    // profiles: the level of the export over OTLP
	train bool           // no recording: the example charlm runs
}

// input returns the archive or the script of a job, empty if it has none.
func (j *job) input() (string, error) {
	for _, name := range []string{"rings.tar.gz", "requests.tar.gz", "profiles.tar.gz", "script.txt"} {
		path := filepath.Join("testdata", cmp.Or(j.of, j.name), name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("testdata/%s has no recording", cmp.Or(j.of, j.name))
}

// replay replays the recording.
func (j *job) replay(t *testing.T) (*outputs, error) {
	if j.train {
		return runCharlm(t)
	}
	path, err := j.input()
	if err != nil {
		return nil, err
	}
	if filepath.Base(path) == "script.txt" {
		return replayScript(t, path)
	}
	dir := t.TempDir()
	if err := unpack(path, dir); err != nil {
		return nil, err
	}
	var outs *outputs
	switch filepath.Base(path) {
	case "rings.tar.gz":
		outs, err = replayRings(t, dir, j.send)
	case "requests.tar.gz":
		outs, err = replayRequests(t, dir, j.most)
	default:
		outs, err = replayProfiles(t, dir, j.level)
	}
	if err == nil {
		outs.from = dir
	}
	return outs, err
}

// unpack writes the files of an archive to a folder.
func unpack(path, dir string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		data, err := io.ReadAll(r)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(h.Name)), data, 0o600)
		}
		if err != nil {
			return err
		}
	}
}

// text returns all outputs of a replay as text.
func (j *job) text(outs *outputs, f *form) (string, error) {
	var b strings.Builder
	b.WriteString(outs.notes)
	if err := f.traces(&b, outs.traces); err != nil {
		return "", err
	}
	if err := f.lines(&b, outs.lines); err != nil {
		return "", err
	}
	for _, r := range outs.requests {
		if err := f.requests(&b, r); err != nil {
			return "", err
		}
	}
	if outs.from != "" {
		return strings.ReplaceAll(b.String(), outs.from, "FROM"), nil
	}
	return b.String(), nil
}

// form returns the form in which the outputs are compared. A script is compared
// without its host and program and without lines of this test; a training also
// without times and values that follow from them.
func (j *job) form() *form {
	path, err := j.input()
	switch {
	case j.train:
		return &form{noTimes: true, noHost: true, hide: map[string]bool{"latest_loss": true, "checkpoint_size": true, "node_name": true}}
	case err == nil && filepath.Base(path) == "script.txt":
		return &form{noHost: true, hide: map[string]bool{"exception_traceback": true}}
	}
	return new(form)
}

// TestJobs replays each recording and compares the outputs with want.txt in the
// same folder.
func TestJobs(t *testing.T) {
	for _, j := range jobs {
		t.Run(j.name, func(t *testing.T) {
			if j.long && testing.Short() {
				t.Skip("runs in the long tests")
			}
			outs, err := j.replay(t)
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range outs.traces {
				if strings.Contains(path, "-killed") {
					continue
				}
				if err := validate(path, false); err != nil {
					t.Error(err)
				}
			}
			got, err := j.text(outs, j.form())
			if err != nil {
				t.Fatal(err)
			}
			compare(t, filepath.Join("testdata", j.name, "want.txt"), got)
		})
	}
}

// TestLive drains the ring buffers as if the processes were running: the
// outputs equal those of an import.
func TestLive(t *testing.T) {
	for _, j := range jobs {
		path, err := j.input()
		if err != nil || filepath.Base(path) != "rings.tar.gz" || j.of != "" || j.send != nil {
			continue
		}
		t.Run(j.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := unpack(path, dir); err != nil {
				t.Fatal(err)
			}
			outs, err := drainRings(t, dir)
			if err != nil {
				t.Fatal(err)
			}
			got, err := j.text(outs, j.form())
			if err != nil {
				t.Fatal(err)
			}
			compare(t, filepath.Join("testdata", j.name, "want.txt"), got)
		})
	}
}

// compare compares a text with a golden file, and shows the differing lines.
func compare(t *testing.T, golden, got string) {
	t.Helper()
	if *update && !strings.HasPrefix(t.Name(), "TestLive/") {
		if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden) // -update writes it
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got (+) differs from want (-):\n%s", golden, diff(string(want), got))
	}
}

// diff returns the lines that only one of two texts has, with their neighbors.
func diff(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	start := 0
	for start < min(len(a), len(b)) && a[start] == b[start] {
		start++
	}
	endA, endB := len(a), len(b)
	for endA > start && endB > start && a[endA-1] == b[endB-1] {
		endA, endB = endA-1, endB-1
	}
	var out []string
	add := func(mark string, lines []string) {
		const most = 12
		for _, l := range lines[:min(len(lines), most)] {
			out = append(out, mark+l)
		}
		if len(lines) > most {
			out = append(out, fmt.Sprintf("%s... and %d lines more", mark, len(lines)-most))
		}
	}
	add("  ", a[max(start-3, 0):start])
	add("- ", a[start:endA])
	add("+ ", b[start:endB])
	add("  ", a[endA:min(endA+2, len(a))])
	return strings.Join(out, "\n")
}

// TestEachRecordingIsReplayed fails for a recording that no job replays.
func TestEachRecordingIsReplayed(t *testing.T) {
	folders, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		if f.Name() != "programs" && !slices.ContainsFunc(jobs, func(j job) bool { return j.name == f.Name() }) {
			t.Errorf("testdata/%s is a recording without a job", f.Name())
		}
	}
}
