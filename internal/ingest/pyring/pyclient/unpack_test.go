package pyclient_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/trainspan/trainspan/internal/ingest/pyring/pyclient"
)

// A program's own sitecustomize in the folder is not replaced; an existing copy
// of the client is accepted.
func TestUnpackReplacesNothing(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		if err := pyclient.Unpack(dir); err != nil {
			t.Fatal(err)
		}
	}
	site := filepath.Join(dir, "sitecustomize.py")
	if err := os.WriteFile(site, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := pyclient.Unpack(dir); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if text, err := os.ReadFile(site); err != nil || string(text) != "precious" {
		t.Errorf(`sitecustomize.py of the user contains %q, %v; want "precious" as before`, text, err)
	}
}

func TestIsClient(t *testing.T) {
	for path, want := range map[string]bool{
		"sitecustomize.py": true, "trainspan/_ring.py": true, "trainspan_torch/hooks.py": true, "trainspan/modules": true,
		"__pycache__/sitecustomize.cpython-311.pyc": true, "trainspan/__pycache__/_ring.cpython-313.pyc.140": true,
		"thesis.py": false, "trainspan_site/sitecustomize.py": false, "trainspan/thesis.py": false, "__pycache__/thesis.cpython-311.pyc": false, "": false,
	} {
		if got := pyclient.IsClient(path); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}
