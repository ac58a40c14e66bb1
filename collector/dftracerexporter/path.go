package dftracerexporter

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/dftracer"
)

// maxNamePart bounds what a sender can put into a file name.
const maxNamePart = 100

// maxNumber bounds the numbers that are tried for a name that is taken.
const maxNumber = 1_000_000

// path is the file of a process by the pattern of the configuration.
func (id *identity) path(directory, pattern string) string {
	name := strings.NewReplacer(
		"{host}", safeName(id.host), "{service}", safeName(id.service),
		"{pid}", strconv.Itoa(id.pid), "{rank}", strconv.Itoa(id.rank),
	).Replace(pattern)
	return filepath.Join(directory, filepath.FromSlash(name))
}

// safeName makes a part of a file name of what a sender says: no separators,
// nothing that a shell or another system would stumble over.
func safeName(s string) string {
	if len(s) > maxNamePart {
		s = s[:maxNamePart]
	}
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '_'
	}, s)
	if s = strings.TrimLeft(s, "."); s == "" {
		return unknown
	}
	return s
}

// create makes the file of a process under the first name that is free, and
// returns the number it got, 0 for none.
func create(path string, opts *dftracer.Options) (*dftracer.Writer, int, error) {
	for n := range maxNumber {
		w, err := dftracer.Create(numbered(path, n), opts)
		if err == nil || !errors.Is(err, os.ErrExist) {
			return w, n, err
		}
	}
	return nil, 0, fmt.Errorf("dftracer exporter: %d files like %s are there already", maxNumber, path)
}

// numbered puts a number before the extension.
func numbered(path string, n int) string {
	if n == 0 {
		return path
	}
	for _, ext := range [...]string{".pfw.gz", ".pfw"} {
		if stem, ok := strings.CutSuffix(path, ext); ok {
			return stem + "." + strconv.Itoa(n) + ext
		}
	}
	return path + "." + strconv.Itoa(n)
}
