//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/ingest/pyring/pyclient"
	"github.com/trainspan/trainspan/internal/job/rundir"
)

// TestImportDeletesOnlyItsOwn checks that a folder that run.json names is
// deleted only if trainspan run made it and nothing else is in it.
func TestImportDeletesOnlyItsOwn(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	for name, c := range map[string]struct {
		folder string
		mode   os.FileMode
		host   string
		file   string
		gone   bool
	}{
		"its own":         {folder: "trainspan-1", mode: 0o700, file: "rings/py-1-2.names", gone: true},
		"compiled":        {folder: "trainspan-1", mode: 0o700, file: "python/trainspan/__pycache__/_ring.cpython-313.pyc", gone: true},
		"another name":    {folder: "thesis", mode: 0o700, file: "rings/py-1-2.names"},
		"another mode":    {folder: "trainspan-1", mode: 0o755, file: "rings/py-1-2.names"},
		"another host":    {folder: "trainspan-1", mode: 0o700, host: "elsewhere", file: "rings/py-1-2.names"},
		"another file":    {folder: "trainspan-1", mode: 0o700, file: "python/thesis.py"},
		"among the rings": {folder: "trainspan-1", mode: 0o700, file: "rings/deep/py-1-2.names"},
		"a checkpoint":    {folder: "trainspan-1", mode: 0o700, file: "model.pt"},
		"an unread ring":  {folder: "trainspan-1", mode: 0o700, file: "rings/py-1-2.ring"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			folder, start := filepath.Join(dir, c.folder), filepath.Join(dir, "start")
			file := filepath.Join(folder, filepath.FromSlash(c.file))
			for _, d := range []string{start, filepath.Join(folder, "rings"), filepath.Dir(file)} {
				if err := os.MkdirAll(d, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := pyclient.Unpack(filepath.Join(folder, "python")); err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(&rundir.Run{Version: rundir.Version, State: rundir.Ended, Host: c.host, Ring: filepath.Join(folder, "rings")})
			if err != nil {
				t.Fatal(err)
			}
			if c.host == "" {
				text = []byte(strings.Replace(string(text), `"host":""`, `"host":"`+host+`"`, 1))
			}
			for path, text := range map[string][]byte{filepath.Join(start, rundir.FileName): text, file: []byte("precious")} {
				if err := os.WriteFile(path, text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if c.host != "" {
				if err := os.WriteFile(filepath.Join(start, "a.pt.trace.json"), []byte(profile), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(folder, c.mode); err != nil {
				t.Fatal(err)
			}
			status, _, problems := call("trace", "import", start)
			_, err = os.Stat(file)
			if gone := os.IsNotExist(err); gone != c.gone {
				t.Errorf("deleted: %v, want %v, %v (status %d: %s)", gone, c.gone, err, status, problems)
			}
			if _, err := os.Stat(filepath.Join(folder, "python", "sitecustomize.py")); os.IsNotExist(err) != c.gone {
				t.Errorf("sitecustomize.py after import: %v, want it deleted: %v", err, c.gone)
			}
			if c.host != "" && (!strings.Contains(problems, "was recorded on elsewhere") || !strings.Contains(problems, "1 profiler file not imported")) {
				t.Errorf(`import of a run of host %s reports %q, want "was recorded on elsewhere" and "1 profiler file not imported"`, c.host, problems)
			}
		})
	}
	// The folder of ring buffers may be any folder.
	dir := t.TempDir()
	thesis, start := filepath.Join(dir, "thesis"), filepath.Join(dir, "start")
	for _, d := range []string{thesis, start} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range map[string]string{filepath.Join(thesis, "a.txt"): "precious", filepath.Join(start, rundir.FileName): `{"version":1,"state":"ended","ring":"` + thesis + `"}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	call("trace", "import", start)
	if text, err := os.ReadFile(filepath.Join(thesis, "a.txt")); err != nil || string(text) != "precious" {
		t.Errorf(`file of the user contains %q, %v; want "precious" as before`, text, err)
	}
}

// TestImportOfUnreadableRings checks that a folder of rings that cannot be read is an
// error of the import, not one that was deleted.
func TestImportOfUnreadableRings(t *testing.T) {
	dir := t.TempDir()
	start, file := filepath.Join(dir, "start"), filepath.Join(dir, "file")
	if err := os.Mkdir(start, 0o700); err != nil {
		t.Fatal(err)
	}
	// A folder of another user is as unreadable as one below a file, but not for root.
	for path, text := range map[string]string{file: "", filepath.Join(start, rundir.FileName): `{"version":1,"state":"ended","ring":"` + file + `/rings"}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	status, out, problems := call("trace", "import", start)
	if status != 2 || out != "" || !strings.Contains(problems, file+"/rings") {
		t.Errorf("status %d, output %q, problems %q; want 2, none and one with the folder", status, out, problems)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if status, out, problems := call("trace", "import", start); status != 0 || !strings.Contains(out, "nothing is left") {
		t.Errorf(`deleted: status %d, output %q, problems %q; want 0, "nothing is left"`, status, out, problems)
	}
}

// TestImportOfRingsElsewhere checks that an import does not claim to have all data of a
// run whose rings may be on another host.
func TestImportOfRingsElsewhere(t *testing.T) {
	start := t.TempDir()
	text := `{"version":1,"state":"running","host":"elsewhere","ring":"/dev/shm/trainspan-gone/rings"}`
	if err := os.WriteFile(filepath.Join(start, rundir.FileName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, problems := call("trace", "import", start)
	if status != 1 || out != "" || !strings.Contains(problems, "was recorded on elsewhere") {
		t.Errorf(`status %d, output %q, problems %q; want 1, none, "was recorded on elsewhere"`, status, out, problems)
	}
}

// TestImportOfRunsAsJSON checks that the JSON of an import of runs is one
// document, also if nothing is left, and that an id is not taken for a file.
func TestImportOfRunsAsJSON(t *testing.T) {
	t.Chdir(t.TempDir())
	makeRuns(t)
	var got struct {
		Rings    []struct{ Dir string }
		Journals *struct{}
	}
	status, out, said := call("trace", "import", "trainspan-runs", "--json")
	if err := json.Unmarshal([]byte(out), &got); err != nil || status != 0 || got.Rings == nil || len(got.Rings) > 0 || got.Journals != nil {
		t.Errorf("nothing is left: status %d, %v, output %q, %s; want an object without rings", status, err, out, said)
	}
	if status, out, said := call("trace", "import", "trainspan-runs", "--quiet"); status != 0 || out != "" {
		t.Errorf("nothing is left, --quiet: status %d, output %q, %s; want none", status, out, said)
	}
	if status, _, said := call("trace", "import", "train.3"); status != 2 || !strings.Contains(said, "import takes the directory of a run: trainspan-runs/train/attempt-3") {
		t.Errorf("import of an id: status %d, %q; want the directory", status, said)
	}
}
