// Package data reads training text from disk: it finds the files, splits them
// into training, validation and test parts, and loads shuffled batches with
// worker goroutines.
package data

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNoText means that there is no text to train on.
var ErrNoText = errors.New("no training text")

// FindText returns the directory with the Go standard library's sources: that
// of the go command, else $GOROOT, else that of the go command's path, else the
// usual ones. The error describes what to do instead.
func FindText(ctx context.Context) (string, error) {
	var tried []string
	for root := range goRoots(ctx) {
		src := filepath.Join(root, "src")
		if info, err := os.Stat(filepath.Join(src, "fmt", "print.go")); err == nil && info.Mode().IsRegular() {
			return src, nil
		}
		tried = append(tried, src)
	}
	where := "no Go installation is known"
	if len(tried) > 0 {
		where = "not found in " + strings.Join(tried, ", ")
	}
	return "", fmt.Errorf("%w: the Go standard library's source files are the default, but %s; "+
		"install Go from https://go.dev/dl, or name a text file or a directory with -text", ErrNoText, where)
}

func goRoots(ctx context.Context) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		seen := map[string]bool{"": true}
		next := func(root string) bool {
			if seen[root] {
				return true
			}
			seen[root] = true
			return yield(root)
		}
		if out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output(); err == nil {
			if !next(strings.TrimSpace(string(out))) {
				return
			}
		}
		if !next(os.Getenv("GOROOT")) {
			return
		}
		if path, err := exec.LookPath("go"); err == nil {
			if path, err = filepath.EvalSymlinks(path); err == nil && !next(filepath.Dir(filepath.Dir(path))) {
				return
			}
		}
		for _, root := range []string{"/usr/local/go", "/usr/lib/go", `C:\Program Files\Go`} {
			if !next(root) {
				return
			}
		}
	}
}
