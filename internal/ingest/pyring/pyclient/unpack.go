// Package pyclient unpacks the Python client for the PYTHONPATH of processes,
// and returns its properties.
package pyclient

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	pathpkg "path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/trainspan/trainspan/integrations/python"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
)

// site is the folder of files beside the package in PYTHONPATH.
const site = "trainspan_site/"

// phaseList matches the list of phases in the client.
var phaseList = regexp.MustCompile(`(?s)\nPHASES = \((.*?)\n\)`)

// Phases returns the phases of PyTorch that can be switched on and off, in the
// client's order: the values for TRAINSPAN_ONLY and TRAINSPAN_WITHOUT.
func Phases() (names []string) {
	text, err := python.Client.ReadFile("trainspan_torch/__init__.py")
	if err != nil {
		return nil
	}
	list := phaseList.FindSubmatch(text)
	if list == nil {
		return nil
	}
	for name := range strings.FieldsFuncSeq(string(list[1]), func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') }) {
		names = append(names, name)
	}
	return names
}

// modules is a file with all modules of the packages, which sitecustomize.py
// reads at once: before each module is a line with its size and its path.
const modules = "trainspan/modules"

// Unpack writes the client below a folder, for PYTHONPATH: sitecustomize.py and
// the packages trainspan and trainspan_torch. The folder is created private if
// it is missing. An existing file with other contents is not changed, and is an
// error.
func Unpack(dir string) error {
	var all bytes.Buffer
	for _, name := range clientFiles() {
		text, err := python.Client.ReadFile(name)
		if err == nil {
			err = unpack(filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(name, site))), text)
		}
		if err != nil {
			return fmt.Errorf("python: unpack the client: %w", err)
		}
		if !strings.HasPrefix(name, site) {
			fmt.Fprintf(&all, "%d %s\n%s", len(text), name, text)
		}
	}
	// If a file of this size is not possible, Python reads each module from its own
	// file.
	if err := unpack(filepath.Join(dir, filepath.FromSlash(modules)), all.Bytes()); err != nil && !errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("python: unpack the client: %w", err)
	}
	return nil
}

func unpack(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	_, err := fswrite.Write(path, text, 0o600, nil)
	if errors.Is(err, fs.ErrExist) {
		if there, readErr := os.ReadFile(path); readErr == nil && bytes.Equal(there, text) {
			return nil
		}
	}
	return err
}

// clientFiles returns the files of the client.
func clientFiles() (names []string) {
	_ = fs.WalkDir(python.Client, ".", func(path string, d fs.DirEntry, err error) error { // in memory: never fails
		if err == nil && !d.IsDir() && filepath.Ext(path) == ".py" {
			names = append(names, path)
		}
		return err
	})
	return names
}

// Differs returns a file of the client in another folder, such as
// site-packages, that differs from the one that [Unpack] writes, or "".
func Differs(dir string) string {
	for _, name := range clientFiles() {
		if strings.HasPrefix(name, site) { // not installed there
			continue
		}
		own, err := python.Client.ReadFile(name)
		there, errThere := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil || errThere != nil || !bytes.Equal(own, there) {
			return filepath.Join(dir, filepath.FromSlash(name))
		}
	}
	return ""
}

// IsClient reports whether a slash-separated path below the folder of [Unpack]
// is a file of the client or one that Python compiled from it.
func IsClient(path string) bool {
	dir, base := pathpkg.Split(path)
	if up, ok := strings.CutSuffix(dir, "__pycache__/"); ok { // NAME.cpython-313.pyc, followed by a number while it is written
		stem, _, _ := strings.Cut(base, ".")
		path = up + stem + ".py"
	}
	return path == modules || slices.ContainsFunc(clientFiles(), func(name string) bool { return strings.TrimPrefix(name, site) == path })
}
