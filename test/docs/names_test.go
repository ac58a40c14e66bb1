package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// exported returns the exported names of each package that programs import: functions,
// types, constants and variables, and Type.Method and Type.Field.
func exported(t *testing.T) map[string]map[string]bool {
	t.Helper()
	all := make(map[string]map[string]bool)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains([]string{"testdata", "internal", "test", "tools", "cmd"}, d.Name()) || strings.HasPrefix(d.Name(), ".") && d.Name() != ".." && path != root):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, src, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		names := all[f.Name.Name]
		if names == nil {
			names = make(map[string]bool)
			all[f.Name.Name] = names
		}
		for _, d := range f.Decls {
			declared(d, names)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func declared(d ast.Decl, names map[string]bool) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			names[d.Name.Name] = true
			return
		}
		names[typeName(d.Recv.List[0].Type)+"."+d.Name.Name] = true
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names[n.Name] = true
				}
			case *ast.TypeSpec:
				names[s.Name.Name] = true
				var fields *ast.FieldList
				switch x := s.Type.(type) {
				case *ast.StructType:
					fields = x.Fields
				case *ast.InterfaceType:
					fields = x.Methods
				default:
					continue
				}
				for _, f := range fields.List {
					if len(f.Names) == 0 {
						names[s.Name.Name+"."+typeName(f.Type)] = true
					}
					for _, n := range f.Names {
						names[s.Name.Name+"."+n.Name] = true
					}
				}
			}
		}
	}
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// goMember is a method or a field without its package: `Writer.Path`, `Options.Dialect`.
var goMember = regexp.MustCompile(`^([A-Z]\w*)\.([A-Z]\w*)(?:\(.*\))?$`)

var goName = regexp.MustCompile(`^([a-z]\w*)\.([A-Z]\w*)(?:\.([A-Z]\w*))?(?:\(.*\))?$`)

// TestMembersOfTheLibrary checks that the methods and fields that the pages name of types of
// our packages exist: `Writer.Path`. A type whose members are those of another one, such as
// an alias or an embedded type, is left out.
func TestMembersOfTheLibrary(t *testing.T) {
	types := make(map[string]map[string]bool) // the members of the types of a name, of all packages
	for _, names := range exported(t) {
		for name := range names {
			if owner, member, ok := strings.Cut(name, "."); ok {
				if types[owner] == nil {
					types[owner] = make(map[string]bool)
				}
				types[owner][member] = true
			}
		}
	}
	n := 0
	for _, p := range pages(t) {
		for _, m := range quoted.FindAllStringSubmatch(p.prose(), -1) {
			name := goMember.FindStringSubmatch(m[1])
			if name == nil || types[name[1]] == nil {
				continue
			}
			n++
			if !types[name[1]][name[2]] {
				t.Errorf("%s names %s, which no %s of the library has", p.name, m[1], name[1])
			}
		}
	}
	if n < 10 {
		t.Errorf("found %d methods and fields, want at least 10", n)
	}
}

// TestNamesOfTheLibrary checks that what the pages name of our packages exists:
// `dftracer.Recover`, `dftracer.Options.Rank`.
func TestNamesOfTheLibrary(t *testing.T) {
	all := exported(t)
	n := 0
	for _, p := range pages(t) {
		for _, m := range quoted.FindAllStringSubmatch(p.prose(), -1) {
			name := goName.FindStringSubmatch(m[1])
			if name == nil || all[name[1]] == nil || name[1] == "main" {
				continue
			}
			n++
			names := all[name[1]]
			if !names[name[2]] {
				t.Errorf("%s names %s, which package %s does not have", p.name, m[1], name[1])
				continue
			}
			if name[3] != "" && !names[name[2]+"."+name[3]] && !variable(names, name[2]) {
				t.Errorf("%s names %s, which package %s does not have", p.name, m[1], name[1])
			}
		}
	}
	if n < 30 {
		t.Errorf("only %d names were found", n)
	}
}

// variable reports whether a name has no members that the source lists: a variable
// whose type is elsewhere, such as a node of a tree.
func variable(names map[string]bool, name string) bool {
	for known := range names {
		if strings.HasPrefix(known, name+".") {
			return false
		}
	}
	return true
}
