package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

const module = "github.com/trainspan/trainspan"

// modules are the folders whose packages are looked at, with the patterns that name
// them there. The first is the product and what go.work joins with it.
var modules = []struct {
	dir      string
	patterns []string
}{
	{".", []string{"./...", "./cmd/trainspan/..."}},
	{"examples", []string{"./..."}},
	{"collector/dftracerexporter", []string{"./..."}},
	{"integrations/gomlx", []string{"./..."}},
	{"e2e", []string{"./..."}},
	{"benchmarks", []string{"./..."}},
	{"report/browser", []string{"./..."}},
}

const mode = packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedModule |
	packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedForTest

// load returns the packages that patterns name in dir. With tests they come with their
// tests, as packages beside them.
func load(dir string, tests bool, patterns ...string) ([]*packages.Package, error) {
	ps, err := packages.Load(&packages.Config{Mode: mode, Dir: dir, Tests: tests, Env: append(os.Environ(), "GOWORK=")}, patterns...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	var errs []error
	for _, p := range ps {
		for _, e := range p.Errors {
			errs = append(errs, e)
		}
	}
	return ps, errors.Join(errs...)
}

// loadOne returns the packages that a pattern from the root names, in whichever
// module they are.
func loadOne(root, pattern string) ([]*packages.Package, error) {
	dir, base := root, pattern
	for _, m := range modules[1:] {
		if below(strings.TrimPrefix(pattern, "./"), m.dir) {
			rel, err := filepath.Rel(m.dir, pattern)
			if err != nil {
				return nil, err
			}
			dir, base = filepath.Join(root, m.dir), "./"+rel
		}
	}
	return load(dir, false, base)
}

// loadAll returns the packages of all modules that are there, with their tests.
func loadAll(root string) (all []*packages.Package, err error) {
	for _, m := range modules {
		dir := filepath.Join(root, m.dir)
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
			continue
		}
		ps, err := load(dir, true, m.patterns...)
		if err != nil {
			return nil, err
		}
		all = append(all, ps...)
	}
	return all, nil
}

// short returns the path of a package below the module; of others all of it.
func short(path string) string {
	path = strings.TrimSuffix(path, "_test")
	if path == module {
		return "(root)"
	}
	return strings.TrimPrefix(path, module+"/")
}

// below reports whether a path is one of folders, or in one.
func below(path string, folders ...string) bool {
	for _, f := range folders {
		if path == f || strings.HasPrefix(path, f+"/") {
			return true
		}
	}
	return false
}

// public reports whether programs of others can import a package of the product.
func public(p *packages.Package) bool {
	path := short(p.PkgPath)
	return p.Name != "main" && !below(path, "examples", "e2e", "benchmarks", "report/browser", "release", "tools", "integrations/gomlx/example") &&
		!strings.Contains("/"+path+"/", "/internal/")
}

// product returns the packages that are shipped: the public ones, the command, and
// what these import. The others are there for tests. Tests are left out.
func product(all []*packages.Package) (shipped []*packages.Package) {
	byPath := make(map[string]*packages.Package)
	for _, p := range all {
		if !isTest(p) {
			byPath[p.PkgPath] = p
		}
	}
	seen := make(map[string]bool)
	var add func(path string)
	add = func(path string) {
		p := byPath[path]
		if p == nil || seen[path] {
			return
		}
		seen[path] = true
		for i := range p.Imports {
			add(i)
		}
	}
	for path, p := range byPath {
		if public(p) || path == module+"/cmd/trainspan" {
			add(path)
		}
	}
	for _, p := range all {
		if !isTest(p) && seen[p.PkgPath] {
			shipped = append(shipped, p)
		}
	}
	return shipped
}

// isTest reports whether a package was loaded for its tests.
func isTest(p *packages.Package) bool {
	return p.ForTest != "" || strings.HasSuffix(p.ID, ".test") || strings.HasSuffix(p.PkgPath, ".test")
}
