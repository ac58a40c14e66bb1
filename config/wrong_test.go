package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/config"
)

// TestWrongFiles compares the errors of wrong files with the text beside them:
// each has every problem with file, line, column and a remedy, and shows no
// secret. -update writes them.
func TestWrongFiles(t *testing.T) {
	paths, err := filepath.Glob("testdata/wrong/*.[yj]*[ln]")
	if err != nil || len(paths) < 10 {
		t.Fatalf("%d files, want 10 or more: %v", len(paths), err)
	}
	for _, path := range paths {
		_, err := config.Load(config.LoadOptions{Path: path, LookupEnv: config.Environ([]string{"RANK=0"})})
		if err == nil {
			t.Errorf("%s is accepted, want an error", path)
			continue
		}
		got := strings.ReplaceAll(err.Error(), filepath.Dir(path)+"/", "") + "\n"
		if strings.Contains(got, "hunter2") || strings.ContainsAny(got, "\x1b\t\r") {
			t.Errorf("%s: a secret or a control character is shown in\n%s", path, got)
		}
		golden := path + ".txt"
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(golden); err != nil || got != string(want) {
			t.Errorf("%s: got\n%swant\n%s%v", path, got, want, err)
		}
	}
}
