package exporters

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
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if own := slog.Default(); withLogFiles(own, &config.Logger{}, 0) != own {
		t.Error("no files change the logger")
	}
}
