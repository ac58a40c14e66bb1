// Goproxy writes the module of a commit as a file proxy of the go command has it, so
// that programs can require it before it is published:
//
//	goproxy -module github.com/trainspan/trainspan -version v1.2.3 -out FOLDER COMMIT
//	GOPROXY=file://FOLDER,direct go get github.com/trainspan/trainspan
//
// It runs in the root of the repository. A version that is no tag, as git describe says
// it, becomes the pseudo-version of the commit. The same commit gives the same bytes.
package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
	"golang.org/x/mod/zip"
)

func main() {
	path := flag.String("module", "", "the path of the module in the root of the repository")
	version := flag.String("version", "", "what git describe says")
	out := flag.String("out", "", "the folder of the proxy, which is made anew")
	flag.Parse()
	if err := write(*path, *version, *out, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "goproxy:", err)
		os.Exit(1)
	}
}

// info is what the go command asks of a version.
type info struct {
	Version string
	Time    time.Time
}

func write(path, described, out, commit string) error {
	at, hash, err := look(commit)
	if err != nil {
		return err
	}
	v := module.Version{Path: path, Version: described}
	tagged := semver.Canonical(described) == described && !module.IsPseudoVersion(described)
	if !tagged {
		v.Version = module.PseudoVersion("v0", "", at, hash[:12])
	}
	escaped, err := module.EscapePath(path)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(out, filepath.FromSlash(escaped))); err != nil {
		return err
	}
	dir := filepath.Join(out, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // for everybody
		return err
	}
	mod, err := git("show", hash+":go.mod")
	if err != nil {
		return err
	}
	about, err := json.Marshal(info{v.Version, at})
	if err != nil {
		return err
	}
	list := "" // a proxy lists no pseudo-versions
	if tagged {
		list = v.Version + "\n"
	}
	for name, text := range map[string][]byte{"list": []byte(list), "../@latest": about, v.Version + ".info": about, v.Version + ".mod": mod} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil { //nolint:gosec // for everybody
			return err
		}
	}
	f, err := os.Create(filepath.Join(dir, v.Version+".zip"))
	if err != nil {
		return err
	}
	files, err := files(hash)
	if err == nil {
		err = zip.Create(f, v, files) // which leaves out modules below
	}
	if err != nil {
		_ = f.Close() // the first error counts
		return err
	}
	fmt.Println(path + "@" + v.Version)
	return f.Close()
}

// look returns the time and the hash of a commit.
func look(commit string) (time.Time, string, error) {
	text, err := git("log", "-1", "--format=%ct %H", commit)
	if err != nil {
		return time.Time{}, "", err
	}
	seconds, hash, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	n, err := strconv.ParseInt(seconds, 10, 64)
	return time.Unix(n, 0).UTC(), hash, err
}

// file is one of a commit.
type file struct {
	fs.FileInfo
	path string
	text []byte
}

func (f file) Path() string                 { return f.path }
func (f file) Lstat() (fs.FileInfo, error)  { return f.FileInfo, nil }
func (f file) Open() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(f.text)), nil }

// files returns those of a commit.
func files(hash string) (all []zip.File, err error) {
	text, err := git("archive", "--format=tar", hash)
	if err != nil {
		return nil, err
	}
	for r := tar.NewReader(bytes.NewReader(text)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		text, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		all = append(all, file{h.FileInfo(), h.Name, text})
	}
}

func git(args ...string) ([]byte, error) {
	text, err := exec.Command("git", args...).Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return text, nil
}
