package docs

import (
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/trainspan/trainspan"

// usual declares the variables that the blocks of code use without a
// declaration: those of the library and of the program around them.
const usual = `package p

import (
	"context"
	"io"
	"iter"
	"net/http"

	"` + module + `/config"
	"` + module + `/telemetry"
)

var (
	ctx     = context.Background()
	err     error
	tel     *telemetry.Provider
	builder = telemetry.NewTrainingTelemetryBuilder()
	base    config.Base

	path, dir     string
	epochs, steps int
	batches       iter.Seq[[]float64]
	object        io.ReaderAt
	mux           *http.ServeMux
)

func train(ctx context.Context, batch []float64) (loss float64, err error) { return }
`

// TestOutside compiles every block of Go of the pages and of the doc comments
// of the public packages, in a separate module, like a program that uses the
// library. Blocks that are snippets are compiled in their source file.
func TestOutside(t *testing.T) {
	blocks, packages := commentBlocks(t)
	for _, p := range pages(t) {
		own := snippet.ReplaceAllString(p.text, "")
		for _, m := range fence.FindAllStringSubmatchIndex(own, -1) {
			if own[m[2]:m[3]] == "go" {
				line := "\n" + own[m[4]:m[5]]
				blocks = append(blocks, block{fmt.Sprintf("%s: %.60q", p.name, line), own[m[4]:m[5]]})
			}
		}
	}
	if len(blocks) < 20 {
		t.Fatalf("found %d blocks of Go, want at least 20", len(blocks))
	}
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("usual.go", usual)
	for i, b := range blocks {
		name, text, err := b.file(i, packages)
		if err != nil {
			t.Errorf("%s is not Go: %v", b.where, err)
			continue
		}
		write(name, text)
	}
	for _, problem := range compile(t, dir, write) {
		where := problem
		if m := fileOfBlock.FindStringSubmatch(problem); m != nil {
			i, _ := strconv.Atoi(m[1])
			where = blocks[i].where + ": " + m[2]
		}
		t.Errorf("does not compile outside of this module: %s", where)
	}
}

var fileOfBlock = regexp.MustCompile(`block(\d+)\.go:\d+:\d+: (.*)`)

// TestOutsideFails checks that a block that a program outside cannot compile is
// found.
func TestOutsideFails(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"tel, err := trainspan.Begin(ctx)\n", "undefined: trainspan.Begin"},
		{"tel.Begin(ctx)\n", "tel.Begin undefined"},
		{"r := new(spantree.Counters)\n", "undefined: spantree"},
		{"x := notDeclared\n", "undefined: notDeclared"},
		{"x := 1\n", ""},
		{"for i, x := range batches {\n}\n", "permits only one iteration variable"},
		{"for x := range batches {\n\tn := len(x)\n}\n", ""},
		{"type output struct{ outputs.None }\n\nfunc (output) Write([]outputs.Record) error { return nil }\n", ""},
	} {
		packages := map[string]string{"trainspan": module, "outputs": module + "/telemetry/outputs"}
		_, text, err := block{"here", c.text}.file(0, packages)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		write := func(name, text string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("usual.go", usual)
		write("block0.go", text)
		if got := strings.Join(compile(t, dir, write), "\n"); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
}

// compile builds the module in a folder with the module cache only, and returns
// the errors.
func compile(t *testing.T, dir string, write func(name, text string)) (problems []string) {
	t.Helper()
	checkout, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	own := textOf(t, filepath.Join(root, "go.mod"))
	_, needs, _ := strings.Cut(own, "\nrequire ")
	_, version, _ := strings.Cut(own, "\ngo ")
	version, _, _ = strings.Cut(version, "\n")
	write("go.mod", fmt.Sprintf("module example.com/program\n\ngo %s\n\nrequire %s v0.0.0\n\nreplace %s => %s\n\nrequire %s", version, module, module, checkout, needs))
	write("go.sum", textOf(t, filepath.Join(root, "go.sum")))
	run := exec.Command("go", "build", "-gcflags=-e", "./...")
	run.Dir = dir
	run.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOPROXY=off", "GOTOOLCHAIN=local")
	out, err := run.CombinedOutput()
	if err == nil {
		return nil
	}
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			problems = append(problems, line)
		}
	}
	return append(problems, err.Error())
}

// block is one block of code and its position.
type block struct{ where, text string }

// file returns the name and the text of a file that compiles a block: a whole
// file, declarations, or statements, which become the body of a function. It
// adds missing imports; packages has their paths by name.
func (b block) file(i int, packages map[string]string) (name, text string, err error) {
	name = fmt.Sprintf("block%d.go", i)
	parse := func(text string) (*token.FileSet, *ast.File, error) {
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, name, text, 0)
		return files, f, err
	}
	if strings.HasPrefix(b.text, "package ") || strings.Contains(b.text, "\npackage ") {
		_, f, err := parse(b.text)
		if err != nil {
			return "", "", err
		}
		return path.Join(f.Name.Name+strconv.Itoa(i), name), b.text, nil
	}
	body := b.text
	_, f, err := parse("package p\n" + body)
	if err != nil {
		body = "func _() error {\n" + b.text + "\n\treturn nil\n}\n"
		files, wrapped, err := parse("package p\n" + body)
		if err != nil {
			return "", "", err
		}
		if f, body = wrapped, used(files, wrapped, "package p\n"+body); f == nil {
			return "", "", fmt.Errorf("no statements")
		}
		body = strings.TrimPrefix(body, "package p\n")
	}
	imports := ""
	for _, p := range f.Unresolved {
		if at, ok := packages[p.Name]; ok && selects(f, p) && !strings.Contains(imports, strconv.Quote(at)) {
			imports += fmt.Sprintf("import %s %q\n", p.Name, at)
		}
	}
	return name, "package p\n\n" + imports + body, nil
}

// selects reports whether a name has a selector: fmt in fmt.Println.
func selects(f *ast.File, name *ast.Ident) (found bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		found = found || ok && s.X == ast.Expr(name)
		return !found
	})
	return found
}

// used returns statements that use every variable that a block declares.
func used(files *token.FileSet, f *ast.File, text string) string {
	at := make(map[int]string)
	use := func(pos token.Pos, names ...ast.Expr) {
		for _, e := range names {
			if id, ok := e.(*ast.Ident); ok && id.Name != "_" {
				at[files.Position(pos).Offset] += "; _ = " + id.Name
			}
		}
	}
	statement := func(s ast.Stmt) {
		switch s := s.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				use(s.End(), s.Lhs...)
			}
		case *ast.DeclStmt:
			if d, ok := s.Decl.(*ast.GenDecl); ok && d.Tok == token.VAR {
				for _, spec := range d.Specs {
					for _, n := range spec.(*ast.ValueSpec).Names {
						use(s.End(), n)
					}
				}
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BlockStmt:
			for _, s := range n.List {
				statement(s)
			}
		case *ast.CaseClause:
			for _, s := range n.Body {
				statement(s)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				use(n.Body.Lbrace+1, n.Key, n.Value)
			}
		}
		return true
	})
	for _, offset := range slices.Backward(slices.Sorted(maps.Keys(at))) {
		text = text[:offset] + at[offset] + text[offset:]
	}
	return text
}

// commentBlocks returns the blocks of code in the doc comments of the public
// packages, and the paths of the packages that blocks may use, by name: these
// packages and their imports.
func commentBlocks(t *testing.T) (blocks []block, packages map[string]string) {
	t.Helper()
	packages = make(map[string]string)
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if private(at, d) {
				return filepath.SkipDir
			}
			return nil
		case !strings.HasSuffix(at, ".go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), at, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, im := range f.Imports {
			if p, _ := strconv.Unquote(im.Path.Value); im.Name == nil && !strings.Contains(p, "/internal/") {
				packages[path.Base(p)] = p
			}
		}
		if strings.HasSuffix(at, "_test.go") {
			return nil
		}
		rel, err := filepath.Rel(root, at)
		if err != nil {
			return err
		}
		packages[f.Name.Name] = path.Join(module, filepath.ToSlash(filepath.Dir(rel)))
		for _, group := range f.Comments {
			for _, part := range new(comment.Parser).Parse(group.Text()).Content {
				if code, ok := part.(*comment.Code); ok {
					blocks = append(blocks, block{fmt.Sprintf("%s: %.60q", filepath.ToSlash(rel), code.Text), code.Text})
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	packages["sdktrace"] = "go.opentelemetry.io/otel/sdk/trace"
	return blocks, packages
}
