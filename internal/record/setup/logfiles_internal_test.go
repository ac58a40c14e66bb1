package setup

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/config"
)

func TestErrorsGoToBothLogFiles(t *testing.T) {
	dir := t.TempDir()
	c := config.Logger{InfoPath: filepath.Join(dir, "info"), ErrorPath: filepath.Join(dir, "error")}
	l := withLogFiles(slog.New(slog.NewTextHandler(io.Discard, nil)), &c, 0).With("rank", 3).WithGroup("g")
	l.Debug("hidden")
	l.Info("fine", "k", 1)
	l.Error("bad", "k", 2)
	for name, want := range map[string]int{"info": 2, "error": 1} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || strings.Count(string(text), "\n") != want || !strings.Contains(string(text), "msg=bad rank=3 g.k=2") {
			t.Errorf(`%s: %q, %v; want %d lines, one "msg=bad rank=3 g.k=2"`, name, text, err, want)
		}
	}
	if own := slog.Default(); withLogFiles(own, &config.Logger{}, 0) != own {
		t.Error("the logger changed without files, want the same")
	}
}

// TestLogFileBehindALink checks that a log file behind a symbolic link, which may belong
// to another user, is not written, and that a warning is logged.
func TestLogFileBehindALink(t *testing.T) {
	dir := t.TempDir()
	victim, link := filepath.Join(dir, "victim"), filepath.Join(dir, "info.log")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, link); err != nil {
		t.Skip(err)
	}
	var said strings.Builder
	withLogFiles(slog.New(slog.NewTextHandler(&said, nil)), &config.Logger{InfoPath: link}, 0).Error("bad")
	if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
		t.Errorf(`file behind the link contains %q, %v; want "precious" as before`, text, err)
	}
	if !strings.Contains(said.String(), "symbolic link") || !strings.Contains(said.String(), "msg=bad") {
		t.Errorf("message %q, want the symbolic link and the error itself", said.String())
	}
}
