package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// pkg is the output of go list for a package.
type pkg struct {
	Dir      string
	Standard bool
	Module   *struct {
		Path, Version, Dir string
		Main               bool
	}
}

// sources returns the parts of the command on a platform such as linux_amd64,
// by module, with the license texts in the folders of the packages and above.
// The standard library is std.
func sources(platform string) (map[string]*part, error) {
	goos, goarch, ok := strings.Cut(platform, "_")
	if !ok {
		return nil, fmt.Errorf("%q is no platform", platform)
	}
	list := exec.Command("go", "list", "-deps", "-json=Dir,Standard,Module", "./cmd/trainspan")
	list.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	std := &part{name: "Go standard library", texts: map[string]string{}}
	parts := map[string]*part{"std": std}
	if err := std.read(strings.TrimSpace(string(root)), ""); err != nil {
		return nil, err
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return parts, nil
		} else if err != nil {
			return nil, err
		}
		if p.Standard || p.Module == nil || p.Module.Main {
			continue
		}
		m := parts[p.Module.Path]
		if m == nil {
			m = &part{name: p.Module.Path, version: p.Module.Version, texts: map[string]string{}, purl: "pkg:golang/" + p.Module.Path + "@" + p.Module.Version}
			parts[p.Module.Path] = m
		}
		below, err := filepath.Rel(p.Module.Dir, p.Dir)
		if err != nil {
			return nil, err
		}
		for at := filepath.ToSlash(below); ; at = path.Dir(at) {
			if err := m.read(p.Module.Dir, at); err != nil {
				return nil, err
			}
			if at == "." {
				break
			}
		}
	}
}

// legal matches the names of files with licenses and related texts.
var legal = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice|patents)([-._].*)?$`)

// read reads the texts of one folder.
func (p *part) read(root, below string) error {
	files, err := os.ReadDir(filepath.Join(root, below))
	if err != nil {
		return err
	}
	for _, f := range files {
		if !f.Type().IsRegular() || !legal.MatchString(f.Name()) || strings.HasSuffix(f.Name(), ".go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, below, f.Name()))
		if err != nil {
			return err
		}
		p.texts[path.Join(below, f.Name())] = string(text)
	}
	return nil
}
