package main

import (
	"flag"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/trainspan/trainspan/ai"
	"github.com/trainspan/trainspan/internal/goldentrace"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPrograms(t *testing.T) {
	for name := range programs {
		t.Run(name, func(t *testing.T) {
			ai.Root.Reset() // the default tree is that of the process
			path := filepath.Join(t.TempDir(), "trace.pfw")
			if err := command([]string{"-program", name, "-out", path}); err != nil {
				t.Fatal(err)
			}
			goldentrace.Check(t, path, filepath.Join("testdata", name+".golden"), *update)
		})
	}
}

func TestUnknownProgram(t *testing.T) {
	if err := command([]string{"-program", "x", "-out", filepath.Join(t.TempDir(), "trace.pfw")}); err == nil {
		t.Error("it was run")
	}
}
