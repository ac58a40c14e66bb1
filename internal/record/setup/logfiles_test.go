package setup_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/record/setup"
)

// TestLogFiles checks that the library's own messages go to the configured log files.
func TestLogFiles(t *testing.T) {
	for _, tc := range []struct {
		level string
		want  int // warnings in the file
	}{{"", 2}, {"WARNING", 2}, {"ERROR", 0}} {
		t.Run(tc.level, func(t *testing.T) {
			dir := t.TempDir()
			cfg := job()
			cfg.Ranks.Rank = config.Value(3)
			cfg.Logger = config.Logger{Level: tc.level, InfoPath: filepath.Join(dir, "info-{rank}.log"), ErrorPath: filepath.Join(dir, "error.log")}
			cfg.Warnings = []config.Problem{{Where: "TRAINSPAN_X", Message: "odd"}}
			for range 2 { // a second run adds to the files
				var own bytes.Buffer
				o := &setup.Options{Logger: slog.New(slog.NewTextHandler(&own, nil))}
				_, outputs, err := setup.NewBuilder(context.Background(), cfg, o)
				if err != nil {
					t.Fatal(err)
				}
				if err := outputs.Close(context.Background()); err != nil {
					t.Error(err)
				}
				if !strings.Contains(own.String(), "TRAINSPAN_X: odd") {
					t.Errorf("logger of the program got %q, want the warning about TRAINSPAN_X", own.String())
				}
			}
			text, _ := os.ReadFile(filepath.Join(dir, "info-3.log")) // a missing file counts as empty
			if n := strings.Count(string(text), "TRAINSPAN_X: odd"); n != tc.want {
				t.Errorf("%d warnings, want %d in %q", n, tc.want, text)
			}
			if _, err := os.Stat(filepath.Join(dir, "error.log")); err == nil {
				t.Error("a warning created the file for errors, want none")
			}
		})
	}
}
