//go:build linux

package session

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/resources"
	"github.com/trainspan/trainspan/internal/ingest/pyring/pyclient"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
)

// ended returns the name of an owner that has ended.
func ended(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return ownerName(cmd.Process.Pid)
}

// TestSweep checks that a folder is deleted when all its owners have ended, as
// far as this process can see, and nothing in it waits for an import.
func TestSweep(t *testing.T) {
	dead, alive := ended(t), ownerName(os.Getpid())
	elsewhere := fmt.Sprintf("owner-%d-1-1-other.names", os.Getpid())
	for name, c := range map[string]struct {
		files  []string
		locked bool
		gone   bool
	}{
		"all have ended":                {files: []string{dead}, gone: true},
		"with names of rings":           {files: []string{dead, "rings/py-1-2.names"}, gone: true},
		"with a ring":                   {files: []string{dead, "rings/py-1-2.ring"}},
		"one lives":                     {files: []string{dead, alive}},
		"one of another container":      {files: []string{dead, elsewhere}},
		"somebody has its lock":         {files: []string{dead}, locked: true},
		"it is just made":               {},
		"with a file of somebody else":  {files: []string{dead, "thesis.txt"}},
		"with a name that has no sense": {files: []string{dead, "owner-x.names"}},
	} {
		t.Run(name, func(t *testing.T) {
			up := t.TempDir()
			dir := filepath.Join(up, "trainspan-1")
			for _, d := range []string{dir, filepath.Join(dir, folderRings)} {
				if err := os.Mkdir(d, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := pyclient.Unpack(filepath.Join(dir, folderClient)); err != nil {
				t.Fatal(err)
			}
			for _, file := range c.files {
				if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if c.locked {
				f, err := os.Open(dir)
				if err != nil || !fswrite.Lock(f) {
					t.Fatal(err)
				}
				defer f.Close() //nolint:errcheck // only read
			}
			sweep(up)
			if _, err := os.Stat(dir); os.IsNotExist(err) != c.gone {
				t.Errorf("deleted: %v, want %v", os.IsNotExist(err), c.gone)
			}
			if !c.gone {
				for _, file := range c.files {
					if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
						t.Errorf("of a folder that stays: %v", err)
					}
				}
			}
		})
	}
}

// TestSweepOfANode checks that the folder in which the ranks of a node meet is
// removed when all of them were killed, and not before.
func TestSweepOfANode(t *testing.T) {
	up := t.TempDir()
	meet := func(owner string) *resources.Node {
		n, err := resources.Meet(up, "start", resources.Member{Command: 1 << 30, Base: 10, GPUs: owner})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(n.Dir(), owner), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return n
	}
	dir := meet(ended(t)).Dir()
	alive := ownerName(os.Getpid())
	meet(alive)
	sweep(up)
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("while one lives: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, alive)); err != nil {
		t.Fatal(err)
	}
	sweep(up)
	if left, _ := os.ReadDir(up); len(left) != 0 {
		t.Errorf("%v is left, want none", left)
	}
	last := meet(ended(t))
	last.Leave()
	if left, _ := os.ReadDir(up); len(left) != 0 {
		t.Errorf("%v is left by the last one, want none", left)
	}
}

// TestFolderHasAnOwner checks that a start's folder for Python is not swept
// while the start lives, and is removed at its end.
func TestFolderHasAnOwner(t *testing.T) {
	up := t.TempDir()
	p := &pythonSide{owner: os.Getpid()}
	dir, err := p.folder(up)
	if err != nil {
		t.Fatal(err)
	}
	sweep(up)
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the folder of a living start: %v", err)
	}
	p.remove()
	if left, _ := os.ReadDir(up); len(left) != 0 {
		t.Errorf("%v is left, want none", left)
	}
}
