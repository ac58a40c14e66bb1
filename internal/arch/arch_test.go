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
	"strings"
	"testing"
)

const module = "github.com/trainspan/trainspan/"

// room says what the packages at and below a folder may import: folders of
// this module, and modules outside the standard library. "*" is anything.
type room struct {
	folder  string
	own     []string
	outside []string
}

const otel = "go.opentelemetry.io/otel"

// The first room that fits a package counts, so the deeper ones come first.
var rooms = []room{
	{"github.com/trainspan/trainspan", []string{"config", "exporters", "telemetry"}, []string{otel}}, // the package at the root
	{"internal/active", nil, nil},
	{"internal/pytext", nil, nil},
	{"internal/robust", nil, nil},
	{"internal/spill", nil, nil},
	{"internal/outfile", nil, nil},
	{"internal/delivery", []string{"attributes", "spans"}, []string{otel, "go.opentelemetry.io/proto/otlp", "google.golang.org/protobuf", "github.com/cenkalti/backoff"}},
	{"internal", []string{"*"}, []string{"*"}},
	{"attributes", nil, []string{otel + "/attribute"}},
	{"spans", []string{"attributes"}, []string{otel + "/attribute"}},
	{"config", []string{"attributes", "spans", "internal/pytext"}, []string{"github.com/goccy/go-yaml", "github.com/caarlos0/env", "github.com/agnivade/levenshtein"}},
	{"dftracer", []string{"dftracer", "internal/spill", "internal/outfile"}, []string{"github.com/klauspost/compress", "golang.org/x/sys"}},
	{"telemetry/outputs", []string{"attributes", "spans", "config"}, []string{otel}},
	{"telemetry/internal/dispatch", []string{"attributes", "spans", "config", "telemetry/outputs"}, []string{otel}},
	{"telemetry/internal/segment", []string{"attributes", "spans", "config", "telemetry/outputs", "internal/delivery"}, []string{otel}},
	{"telemetry/recorder", []string{"attributes", "spans", "config", "telemetry/outputs"}, []string{otel}},
	{"telemetry", []string{"attributes", "spans", "config", "internal/active", "telemetry"}, []string{otel}},
	{"callbacks", []string{"attributes", "spans", "telemetry"}, nil},
	{"ai", []string{"attributes", "spans", "config", "internal/active", "telemetry"}, []string{otel}},
	{"exporters/file", []string{"attributes", "spans", "telemetry/outputs", "internal/pytext", "internal/outfile"}, []string{otel}},
	{"exporters/pfw", []string{"dftracer", "spans", "attributes", "telemetry/outputs"}, []string{otel}},
	{"exporters/otlp", []string{"config", "attributes", "spans", "telemetry", "internal/delivery", "internal/outfile"}, []string{otel, "go.opentelemetry.io/proto/otlp", "google.golang.org/grpc", "google.golang.org/genproto/googleapis/rpc", "google.golang.org/protobuf", "github.com/cenkalti/backoff"}},
	{"exporters", []string{"attributes", "spans", "config", "telemetry", "dftracer", "exporters", "internal/outfile"}, []string{otel, "golang.org/x/sys", "github.com/prometheus/client_golang"}},
	{"integrations/pytorch", []string{"dftracer", "spans", "attributes", "integrations/pytorch", "internal/spill"}, []string{otel, "github.com/klauspost/compress"}},
	{"analysis/run", []string{"dftracer", "spans", "attributes", "internal/spill"}, []string{"github.com/klauspost/compress"}},
	{"analysis/goodput", []string{"analysis/run", "spans", "internal/spill"}, nil},
	{"analysis/straggler/fromrun", []string{"analysis/run", "analysis/straggler", "spans"}, nil},
	{"analysis/straggler", []string{"internal/robust"}, []string{"gonum.org/v1/gonum"}},
	{"analysis/compare", []string{"internal/robust"}, []string{"gonum.org/v1/gonum"}},
	{"report", []string{"analysis", "spans"}, nil},
	{"cmd", []string{"*"}, []string{"*"}},
	{"examples", []string{"*"}, []string{"*"}},
}

type listed struct {
	ImportPath string
	Dir        string
	Imports    []string
	GoFiles    []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,GoFiles", module+"...")
	cmd.Env = append(os.Environ(), "GOWORK=off")
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
	for _, p := range all {
		path := strings.TrimPrefix(p.ImportPath, module)
		var in *room
		for i := range rooms {
			if below(path, []string{rooms[i].folder}) {
				in = &rooms[i]
				break
			}
		}
		if in == nil {
			t.Errorf("%s has no room in the plan: give it one here and in docs/architecture.md", path)
			continue
		}
		for _, i := range p.Imports {
			first, _, _ := strings.Cut(i, "/")
			switch own, ours := strings.CutPrefix(i, module); {
			case ours:
				if !below(own, in.own) && !below(own, []string{path}) {
					t.Errorf("%s imports %s, which the plan does not allow", path, own)
				}
			case strings.Contains(first, "."):
				if !below(i, in.outside) {
					t.Errorf("%s imports %s, which the plan does not allow", path, i)
				}
			}
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
