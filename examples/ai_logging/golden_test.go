package main

import (
	"flag"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/goldentrace"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// The lines of each setting that the original's tests have.
func TestLines(t *testing.T) {
	for name, args := range map[string]string{
		"normal": "", "epoch_as_metadata": "-epoch-as-metadata", "disable_all": "-disable all", "disable_dataloader": "-disable dataloader",
		"disable_device": "-disable device", "disable_compute": "-disable compute", "disable_ckpt": "-disable ckpt",
	} {
		t.Run(name, func(t *testing.T) {
			path, _ := trace(t, "", strings.Fields(args)...)
			goldentrace.Check(t, path, filepath.Join("testdata", name+".golden"), *update)
		})
	}
}
