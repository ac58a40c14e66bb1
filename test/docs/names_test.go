package docs

import (
	"go/ast"
	"go/doc"
	"go/doc/comment"
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

// exported returns the exported names of each public package: functions, types,
// constants and variables, and Type.Method and Type.Field.
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

// TestMembersOfTheLibrary checks that the methods and fields that the pages
// name exist in types of our packages: `Writer.Path`. It skips types with
// members of another one, such as an alias or an embedded type.
func TestMembersOfTheLibrary(t *testing.T) {
	types := make(map[string]map[string]bool) // the members of the types with a name, of all packages
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

// TestNamesOfTheLibrary checks that the names of our packages in the pages
// exist: `dftracer.Recover`, `dftracer.Options.Rank`.
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
		t.Errorf("only %d names were found, want at least 30", n)
	}
}

// variable reports whether a name has no members in the source: a variable
// whose type is in another package, such as a node of a tree.
func variable(names map[string]bool, name string) bool {
	for known := range names {
		if strings.HasPrefix(known, name+".") {
			return false
		}
	}
	return true
}

// TestNamesInComments checks that the names in the doc comments of the public
// packages exist and are visible: doc links such as [Writer.Path], and names of
// our packages such as telemetry.Provider. A user cannot look up a name of an
// internal package.
func TestNamesInComments(t *testing.T) {
	all, inside := exported(t), internalPackages(t)
	n := 0
	for _, dir := range publicDirs(t) {
		for _, c := range docComments(t, dir) {
			names := all[c.pkg]
			links := comment.Parser{LookupSym: func(recv, name string) bool {
				n++
				if full := strings.TrimPrefix(recv+"."+name, "."); !names[full] && token.IsExported(name) == (recv == "" || token.IsExported(recv)) {
					t.Errorf("package %s: %s names [%s], which does not exist", c.pkg, c.of, full)
				}
				return true
			}}
			links.Parse(markdown.ReplaceAllString(c.text, ""))
			for _, m := range nameInText.FindAllStringSubmatch(c.text, -1) {
				switch pkg, name, member := m[1], m[2], m[3]; {
				case all[pkg] != nil && pkg != "main" && !all[pkg][name]:
					t.Errorf("package %s: %s names %s.%s, which does not exist", c.pkg, c.of, pkg, name)
				case all[pkg] != nil && member != "" && !all[pkg][name+"."+member] && !variable(all[pkg], name):
					t.Errorf("package %s: %s names %s.%s.%s, which does not exist", c.pkg, c.of, pkg, name, member)
				case all[pkg] == nil && inside[pkg]:
					t.Errorf("package %s: %s names %s.%s, which is internal", c.pkg, c.of, pkg, name)
				}
				n++
			}
		}
	}
	if n < 100 {
		t.Errorf("found %d names, want at least 100", n)
	}
}

// markdown matches a link of the pages that are generated from config's
// comments.
var markdown = regexp.MustCompile(`\[[^\]]*\]\([^)]*\)`)

var nameInText = regexp.MustCompile(`\b([a-z]\w*)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)

// docComment is a comment as go doc shows it.
type docComment struct{ pkg, of, text string }

// docComments returns the comments of the exported declarations of a package.
func docComments(t *testing.T, dir string) (all []docComment) {
	t.Helper()
	set := token.NewFileSet()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	p, err := doc.NewFromFiles(set, files, dir)
	if err != nil {
		t.Fatal(err)
	}
	add := func(of, text string) { all = append(all, docComment{p.Name, of, text}) }
	declared := func(of string, d ast.Node) {
		ast.Inspect(d, func(n ast.Node) bool {
			if f, ok := n.(*ast.Field); ok {
				add("a field of "+of, f.Doc.Text()+f.Comment.Text())
			}
			if s, ok := n.(*ast.ValueSpec); ok {
				add("a value of "+of, s.Doc.Text()+s.Comment.Text())
			}
			_, isFunc := n.(*ast.FuncDecl)
			return !isFunc
		})
	}
	values := func(list []*doc.Value) {
		for _, v := range list {
			add(strings.Join(v.Names, ", "), v.Doc)
			declared(strings.Join(v.Names, ", "), v.Decl)
		}
	}
	functions := func(list []*doc.Func) {
		for _, f := range list {
			add(f.Name, f.Doc)
		}
	}
	add("its comment", p.Doc)
	values(p.Consts)
	values(p.Vars)
	functions(p.Funcs)
	for _, o := range p.Types {
		add(o.Name, o.Doc)
		declared(o.Name, o.Decl)
		values(o.Consts)
		values(o.Vars)
		functions(o.Funcs)
		functions(o.Methods)
	}
	return all
}

// publicDirs returns the folders of the packages of this module that programs
// import.
func publicDirs(t *testing.T) (dirs []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if private(path, d) {
			return filepath.SkipDir
		}
		sources, err := filepath.Glob(filepath.Join(path, "*.go"))
		if len(sources) > 0 {
			dirs = append(dirs, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

// private reports whether a folder has no packages that programs import: it is
// internal, a test, a tool, an example, a command, or another module.
func private(path string, d fs.DirEntry) bool {
	if path == root {
		return false
	}
	_, other := os.Stat(filepath.Join(path, "go.mod"))
	return other == nil || strings.HasPrefix(d.Name(), ".") ||
		slices.Contains([]string{"testdata", "internal", "test", "tools", "cmd", "bin", "deploy", "docs"}, d.Name())
}

// internalPackages returns the names of the packages below internal.
func internalPackages(t *testing.T) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() != "testdata" {
			names[d.Name()] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestAliases checks that the comment of an alias of an internal type names all
// of its fields and methods, because go doc does not show them.
func TestAliases(t *testing.T) {
	n := 0
	for _, dir := range publicDirs(t) {
		paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			folders := make(map[string]string) // of the internal packages that the file imports
			for _, im := range f.Imports {
				if at, ok := strings.CutPrefix(strings.Trim(im.Path.Value, `"`), module+"/"); ok && strings.HasPrefix(at, "internal/") {
					folders[filepath.Base(at)] = filepath.Join(root, at)
				}
			}
			ast.Inspect(f, func(node ast.Node) bool {
				d, ok := node.(*ast.GenDecl)
				if !ok {
					return true
				}
				for _, spec := range d.Specs {
					s, ok := spec.(*ast.TypeSpec)
					if !ok || !s.Assign.IsValid() || !s.Name.IsExported() {
						continue
					}
					of, ok := s.Type.(*ast.SelectorExpr)
					if !ok || folders[typeName(of.X)] == "" {
						continue
					}
					n++
					text := d.Doc.Text() + s.Doc.Text()
					for _, member := range members(t, folders[typeName(of.X)], of.Sel.Name) {
						if !regexp.MustCompile(`\b` + member + `\b`).MatchString(text) {
							t.Errorf("%s: the comment of %s does not name %s", path, s.Name.Name, member)
						}
					}
				}
				return false
			})
		}
	}
	if n < 10 {
		t.Errorf("found %d aliases, want at least 10", n)
	}
}

// members returns the exported fields and methods of a type.
func members(t *testing.T, dir, of string) (found []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, path := range paths {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			declared(d, names)
		}
	}
	for name := range names {
		if member, ok := strings.CutPrefix(name, of+"."); ok && token.IsExported(member) {
			found = append(found, member)
		}
	}
	slices.Sort(found)
	return found
}
