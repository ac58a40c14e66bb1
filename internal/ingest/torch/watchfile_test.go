package torch_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/ingest/torch"
)

// Another JSON file is refused as state file before anything is written.
func TestStateFileOfSomebodyElse(t *testing.T) {
	for _, text := range []string{`{"name":"x"}`, `{}`, `{"version":1}`, `{"files":{}}`, `{"name":"x","version":"1.0.0","files":["dist"]}`, `[]`, `precious`} {
		dir := t.TempDir()
		state := filepath.Join(dir, "package.json")
		if err := os.WriteFile(state, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := torch.NewWatcher(dir, nil, &torch.WatchOptions{StateFile: state}); err == nil || !strings.Contains(err.Error(), "package.json") {
			t.Errorf("%s: NewWatcher() = %v, want an error that names package.json", text, err)
		}
		if got, err := os.ReadFile(state); err != nil || string(got) != text {
			t.Errorf("state file contains %q, %v; want %q as before", got, err, text)
		}
	}
}

// A foreign state file that appears while a watch runs is not changed.
func TestStateFileThatAppears(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, "state.json")
	const begun = `{"version":1,"files":{"x":{"name":"old.pt.trace.json","state":"importing"}}}`
	if err := os.WriteFile(state, []byte(begun), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := torch.NewWatcher(dir, nil, &torch.WatchOptions{StateFile: state})
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other")
	if err := errors.Join(os.WriteFile(other, []byte("precious"), 0o600), os.Rename(other, state)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.Scan(context.Background()); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if got, err := os.ReadFile(state); err != nil || string(got) != "precious" {
		t.Errorf(`state file contains %q, %v; want "precious" as before`, got, err)
	}
}
