package fswrite

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Stdout is the path of the standard output.
const Stdout = "-"

// Name is the path of a file as the user gives it, and the values of its
// placeholders.
type Name struct {
	Path      string // may hold {rank}, {pid} and {host}
	Rank      *int   // nil if unknown; {rank} then becomes 0
	WorldSize int    // 0 if unknown
	PID       int
	Host      string
}

var placeholder = regexp.MustCompile(`\{[A-Za-z_][A-Za-z0-9_]*\}`)

// Expand replaces the placeholders. An unknown placeholder is an error.
func (n Name) Expand() (string, error) {
	rank := 0
	if n.Rank != nil {
		rank = *n.Rank
	}
	values := map[string]string{
		"{rank}": strconv.Itoa(rank),
		"{pid}":  strconv.Itoa(n.PID),
		"{host}": SafeName(n.Host, maxBase),
	}
	var unknown string
	path := placeholder.ReplaceAllStringFunc(n.Path, func(p string) string {
		v, ok := values[p]
		if !ok && unknown == "" {
			unknown = p
		}
		return v
	})
	if unknown != "" {
		return "", fmt.Errorf("path %q has the unknown placeholder %s: use {rank}, {pid} or {host}", n.Path, unknown)
	}
	return path, nil
}

// Resolve returns the path for one rank. If the job has several ranks and the
// path has no {rank}, "-rank2" (for rank 2) goes before the extension, so that
// ranks use different files. Pipes, devices and the standard output stay as
// they are.
func (n Name) Resolve() (string, error) {
	path, err := n.Expand()
	if err != nil {
		return "", err
	}
	if path == "" {
		return "", fmt.Errorf("the path is empty")
	}
	if n.WorldSize > 1 && n.Rank != nil && !strings.Contains(n.Path, "{rank}") && !AsIs(path) {
		path = Insert(path, "-rank"+strconv.Itoa(*n.Rank))
	}
	return path, nil
}

// AsIs reports whether a path is opened as it is: the standard output, or an
// existing pipe, device or other file that is not regular.
func AsIs(path string) bool {
	if path == Stdout || path == "/dev/stdout" || path == "/dev/stderr" || strings.HasPrefix(path, "/dev/fd/") {
		return true
	}
	info, err := os.Stat(path)
	return err == nil && !info.Mode().IsRegular() && !info.IsDir()
}

// Split splits the extension off a path: the last one, and the one before if
// the last is that of a compression, as in trace.pfw.gz.
func Split(path string) (stem, ext string) {
	dir, base := filepath.Split(path)
	cut := func(s string) string {
		if i := strings.LastIndexByte(s, '.'); i > 0 {
			return s[:i]
		}
		return s
	}
	name := cut(base)
	switch base[len(name):] {
	case ".gz", ".zst", ".xz", ".bz2":
		if i := strings.LastIndexByte(name, '.'); i > 0 && len(name)-i <= 6 {
			name = name[:i]
		}
	}
	return dir + name, base[len(name):]
}

// Insert inserts text before the extension of a path.
func Insert(path, text string) string {
	stem, ext := Split(path)
	return stem + text + ext
}

// Run returns the name for the n-th run with the same path: the path itself,
// then trace.run2.pfw.gz.
func Run(path string, n int) string {
	if n <= 1 {
		return path
	}
	return Insert(path, ".run"+strconv.Itoa(n))
}

// part returns the name of the n-th continuation of a file.
func part(path string, n int) string { return Insert(path, "."+strconv.Itoa(n)) }

// maxBase leaves room for additions to a name. File systems allow 255 bytes.
const maxBase = 200

// SafeName makes any text usable in a file name: letters and digits of all
// scripts, spaces and -_.,+=@ stay, other characters become "_". The result
// does not begin or end with a point or a space, and has at most most bytes. It
// may be empty.
func SafeName(text string, most int) string {
	name := strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.L, unicode.M, unicode.N) || strings.ContainsRune(" -_.,+=@", r) {
			return r
		}
		return '_'
	}, text)
	return strings.Trim(cut(name, most), ". ")
}

// cut shortens a text at a character boundary.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
