package trainspan_test

import (
	"bytes"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/trainspan/trainspan"

// publicPackages are the packages that programs import. All others are
// internal, commands, tests or embedded files.
var publicPackages = []string{
	"", "/telemetry", "/telemetry/outputs", "/spans", "/attributes", "/callbacks", "/config", "/ai", "/dftracer",
	"/exporters/pfw", "/exporters/file", "/exporters/otlp", "/integrations/iofs",
}

// embedOnly are packages outside internal that hold files for go:embed.
var embedOnly = []string{"/deploy", "/docs", "/integrations/python"}

// TestPublicPackages fails if a package becomes public that publicPackages does not list.
func TestPublicPackages(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", "{{if .GoFiles}}{{.ImportPath}}{{end}}", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for path := range strings.FieldsSeq(string(out)) {
		path = strings.TrimPrefix(path, module)
		if !strings.Contains(path+"/", "/internal/") && !strings.HasPrefix(path, "/test/") && !slices.Contains(embedOnly, path) {
			got = append(got, path)
		}
	}
	want := slices.Sorted(slices.Values(publicPackages))
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("public packages = %q, want %q", got, want)
	}
}

// TestPublicSignatures fails if an exported function, type, field or method of
// a public package names a type of an internal package, which programs cannot
// use.
func TestPublicSignatures(t *testing.T) {
	args := []string{"list", "-export", "-deps", "-f", "{{if .Export}}{{.ImportPath}} {{.Export}}{{end}}"}
	for _, path := range publicPackages {
		args = append(args, module+path)
	}
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for line := range bytes.Lines(out) {
		if path, file, ok := strings.Cut(strings.TrimSpace(string(line)), " "); ok {
			files[path] = file
		}
	}
	load := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
	public := make(map[*types.TypeName]bool) // internal types with a public name
	var packages []*types.Package
	for _, path := range publicPackages {
		pkg, err := load.Import(module + path)
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, pkg)
		for _, name := range pkg.Scope().Names() {
			o, ok := pkg.Scope().Lookup(name).(*types.TypeName)
			if named, isNamed := types.Unalias(pkg.Scope().Lookup(name).Type()).(*types.Named); ok && isNamed && o.IsAlias() && o.Exported() {
				public[named.Origin().Obj()] = true
			}
		}
	}
	found := make(map[string]bool)
	for _, pkg := range packages {
		for _, name := range pkg.Scope().Names() {
			if token.IsExported(name) {
				for _, leak := range leaks(pkg.Scope().Lookup(name), public) {
					found[fmt.Sprintf("%s.%s", pkg.Name(), leak)] = true
				}
			}
		}
	}
	for leak := range found {
		if !slices.Contains(untilOneRoad, leak) {
			t.Errorf("%s: an exported signature names an internal type", leak)
		}
	}
	for _, leak := range untilOneRoad {
		if !found[leak] {
			t.Errorf("%s names no internal type any more: remove it from the list", leak)
		}
	}
}

// leaks returns the places in an exported object that name an internal type.
// public are the internal types with a name in a public package.
func leaks(o types.Object, public map[*types.TypeName]bool) (found []string) {
	seen := make(map[types.Type]bool)
	var walk func(where string, t types.Type)
	walk = func(where string, t types.Type) {
		if internal(t, public) {
			found = append(found, where)
			return
		}
		if seen[t] {
			return
		}
		seen[t] = true
		switch t := t.(type) {
		case *types.Alias:
			walk(where, types.Unalias(t))
		case *types.Named:
			for a := range t.TypeArgs().Types() {
				walk(where, a)
			}
		case *types.Pointer:
			walk(where, t.Elem())
		case *types.Slice:
			walk(where, t.Elem())
		case *types.Array:
			walk(where, t.Elem())
		case *types.Chan:
			walk(where, t.Elem())
		case *types.Map:
			walk(where, t.Key())
			walk(where, t.Elem())
		case *types.Signature:
			for _, tuple := range []*types.Tuple{t.Params(), t.Results()} {
				for v := range tuple.Variables() {
					walk(where, v.Type())
				}
			}
		case *types.Struct:
			for f := range t.Fields() {
				if f.Exported() {
					walk(where+"."+f.Name(), f.Type())
				}
			}
		case *types.Interface:
			for m := range t.ExplicitMethods() {
				if m.Exported() {
					walk(where+"."+m.Name(), m.Type())
				}
			}
		}
	}
	t := o.Type()
	walk(o.Name(), t)
	if _, ok := o.(*types.TypeName); !ok {
		return found
	}
	if named, ok := types.Unalias(t).(*types.Named); ok {
		walk(o.Name(), named.Underlying())
		for m := range named.Methods() {
			if m.Exported() {
				walk(o.Name()+"."+m.Name(), m.Type())
			}
		}
	}
	return found
}

// internal reports whether a type belongs to an internal package of this module
// and has no public name.
func internal(t types.Type, public map[*types.TypeName]bool) bool {
	var o *types.TypeName
	switch t := t.(type) {
	case *types.Named:
		o = t.Origin().Obj()
	default:
		return false
	}
	return o.Pkg() != nil && strings.HasPrefix(o.Pkg().Path(), module) && strings.Contains(o.Pkg().Path(), "/internal/") && !public[o]
}

// untilOneRoad lists signatures to be removed together with the second path of
// spans into an output.
var untilOneRoad = []string{
	"otlp.Exporter.Delivery",
}
