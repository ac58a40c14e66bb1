// Package arch checks that the packages import each other in the direction
// that docs/architecture.md draws.
package arch

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/trainspan/trainspan/"

// anybody is the folder that every package may import.
const anybody = "internal/see"

// row says what the packages at and below a folder may import: folders of
// this module, and modules outside the standard library. "*" is anything.
type row struct {
	folder  string
	own     []string
	outside []string
}

// plan reads the table of docs/architecture.md, the longest folders first.
func plan(t *testing.T) (rows []row) {
	t.Helper()
	text, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## The packages\n")
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 3 || !strings.HasPrefix(line, "| ") || strings.HasPrefix(cells[0], "| ---") || strings.HasPrefix(cells[0], "| package") {
			if len(rows) > 0 {
				break
			}
			continue
		}
		r := row{folder: strings.Trim(strings.TrimPrefix(cells[0], "| "), "`")}
		if r.folder == "the root" {
			r.folder = strings.TrimSuffix(module, "/")
		}
		own, outside, _ := strings.Cut(strings.TrimSuffix(cells[2], " |"), "; ")
		switch own {
		case "anything":
			r.own, r.outside = []string{"*"}, []string{"*"}
		case "nothing":
		default:
			r.own = strings.Split(own, ", ")
		}
		for module := range strings.SplitSeq(outside, ", ") {
			if rest, ok := strings.CutPrefix(module, "otel"); ok {
				module = "go.opentelemetry.io/otel" + rest
			}
			r.outside = append(r.outside, module)
		}
		rows = append(rows, r)
	}
	if len(rows) < 20 {
		t.Fatalf("the table has %d rows", len(rows))
	}
	slices.SortStableFunc(rows, func(a, b row) int { return len(b.folder) - len(a.folder) })
	return rows
}

type listed struct {
	ImportPath string
	Dir        string
	Imports    []string
	GoFiles    []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	work, err := filepath.Abs("../../go.work")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,GoFiles", module+"...")
	cmd.Env = append(os.Environ(), "GOWORK="+work) // library and command
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func below(path string, folders []string) bool {
	for _, f := range folders {
		if f == "*" || path == f || strings.HasPrefix(path, f+"/") {
			return true
		}
	}
	return false
}

func TestImportsFollowThePlan(t *testing.T) {
	all := packages(t)
	if len(all) < 8 {
		t.Fatalf("only %d packages were listed", len(all))
	}
	rows, used := plan(t), map[string]bool{}
	for _, p := range all {
		path := strings.TrimPrefix(p.ImportPath, module)
		var in *row
		for i := range rows {
			if below(path, []string{rows[i].folder}) {
				in = &rows[i]
				break
			}
		}
		if in != nil {
			used[in.folder] = true
		} else {
			t.Errorf("%s has no row in the table of docs/architecture.md", path)
			continue
		}
		for _, i := range p.Imports {
			first, _, _ := strings.Cut(i, "/")
			switch own, ours := strings.CutPrefix(i, module); {
			case ours:
				if own != anybody && !below(own, in.own) && !below(own, []string{path}) {
					t.Errorf("%s imports %s, which the plan does not allow", path, own)
				}
			case strings.Contains(first, "."):
				if !below(i, in.outside) {
					t.Errorf("%s imports %s, which the plan does not allow", path, i)
				}
			}
		}
	}
	for _, r := range rows {
		if !used[r.folder] {
			t.Errorf("no package is in the row %s of docs/architecture.md", r.folder)
		}
	}
}

// TestOnlyProgramsEndTheProcess checks that no library package reads the
// command line or ends the process.
func TestOnlyProgramsEndTheProcess(t *testing.T) {
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, module)
		if below(path, []string{"cmd", "examples"}) {
			continue
		}
		for _, name := range p.GoFiles {
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					if x, ok := s.X.(*ast.Ident); ok && x.Name == "os" && (s.Sel.Name == "Exit" || s.Sel.Name == "Args") {
						t.Errorf("%s uses os.%s", fset.Position(s.Pos()), s.Sel.Name)
					}
				}
				if d, ok := n.(*ast.FuncDecl); ok && d.Recv == nil && d.Name.Name == "init" {
					t.Errorf("%s has an init function", fset.Position(d.Pos()))
				}
				return true
			})
		}
	}
}
