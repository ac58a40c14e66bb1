package helptopic_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

const (
	root     = "../../.."
	document = "docs/guide/troubleshooting.md"
)

// general are sections that belong to no message.
var general = []string{"the-last-seconds-are-missing", "files-have-other-names-than-asked-for"}

// sections returns the text below each heading of the third level of the
// document, by its anchor.
func sections(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, document))
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, part := range regexp.MustCompile(`(?m)^#{1,3} `).Split(string(text), -1)[2:] {
		title, body, _ := strings.Cut(part, "\n")
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-':
				return unicode.ToLower(r)
			}
			return -1
		}, title)
		if !strings.Contains(string(text), "\n## "+title+"\n") {
			all[anchor] = body
		}
	}
	return all
}

// names reads the constants of the package.
func names(t *testing.T) map[string]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "helptopic.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && v.Names[0].IsExported() {
			anchor, err := strconv.Unquote(v.Values[0].(*ast.BinaryExpr).Y.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			all[v.Names[0].Name] = anchor
		}
		return true
	})
	if len(all) < 20 {
		t.Fatalf("only %d names were found, want at least 20", len(all))
	}
	return all
}

// message is a call that logs or prints a text.
type message struct {
	place    string
	sections []string // constants of package helptopic in the call, or in its file if arguments are spread
}

// sources calls fn with each Go file of the library, the command and the
// Collector's exporter.
func sources(t *testing.T, fn func(path string, f *ast.File)) {
	t.Helper()
	skip := []string{"testdata", "out", "bin", "benchmarks", "e2e", "examples"}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (slices.Contains(skip, d.Name()) || strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err == nil {
			fn(path, f)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// messages returns what is logged as a warning or an error, and the command's
// messages about files: calls of Warn and Error with a text, and in the command
// calls of Problem and BadData. Calls that only pass on the text of an error
// are left out.
func messages(t *testing.T) (all []message) {
	t.Helper()
	sources(t, func(path string, f *ast.File) {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if !reports(call, strings.HasPrefix(path, root+"/cmd/")) {
					return true
				}
				m := message{place: path + ": " + fn.Name.Name, sections: used(call)}
				if call.Ellipsis.IsValid() {
					m.sections = append(m.sections, used(f)...)
				}
				if hasText(call.Args[0]) && fn.Name.Name != "warn" { // the caller gives such a function the text and its section
					all = append(all, m)
				}
				return true
			})
		}
	})
	if len(all) < 60 {
		t.Fatalf("only %d messages were found, want at least 60", len(all))
	}
	return all
}

// reports reports whether the first argument of a call is the text of a
// message.
func reports(call *ast.CallExpr, command bool) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return false
	}
	if x, ok := f.X.(*ast.Ident); ok && x.Name == "http" {
		return false
	}
	switch f.Sel.Name {
	case "Warn", "Error":
		return true
	case "Problem", "BadData":
		return command
	}
	return false
}

// used returns the constants of package helptopic in a part of the source.
func used(n ast.Node) (out []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "helptopic" {
				out = append(out, s.Sel.Name)
			}
		}
		return true
	})
	return out
}

// hasText reports whether an argument has fixed text. Without fixed text it
// only passes on an error.
func hasText(arg ast.Expr) (found bool) {
	ast.Inspect(arg, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			return false
		case *ast.BasicLit:
			text, _ := strconv.Unquote(n.Value)
			text, _, _ = strings.Cut(text, "; see ")
			found = found || strings.Trim(verb.ReplaceAllString(text, ""), " :,;()") != ""
		}
		return true
	})
	return found
}

var verb = regexp.MustCompile(`%[+]?[a-z]`)

// TestEveryMessageNamesItsSection checks that each message names an existing
// section.
func TestEveryMessageNamesItsSection(t *testing.T) {
	known, texts := names(t), sections(t)
	for _, m := range messages(t) {
		if len(m.sections) == 0 {
			t.Errorf("%s: the message names no section of %s: add one of the constants of internal/platform/helptopic", m.place, document)
		}
		for _, name := range m.sections {
			if _, ok := known[name]; !ok {
				t.Errorf("%s: helptopic.%s: no such constant in %v", m.place, name, slices.Sorted(maps.Keys(known)))
			}
		}
	}
	if len(texts) < 20 {
		t.Errorf("%s has %d sections, want at least 20", document, len(texts))
	}
}

// TestSections checks that every name has its heading, and that every heading
// is named by a message or is general.
func TestSections(t *testing.T) {
	known, texts := names(t), sections(t)
	linked := make(map[string]bool)
	sources(t, func(_ string, f *ast.File) {
		for _, name := range used(f) {
			linked[known[name]] = true
		}
	})
	for name, anchor := range known {
		if pages, err := filepath.Glob(filepath.Join(root, "docs", "*", anchor+".md")); texts[anchor] == "" && (err != nil || len(pages) == 0) {
			t.Errorf("helptopic.%s: %s has no section %s", name, document, anchor)
		}
		if !linked[anchor] {
			t.Errorf("helptopic.%s: nothing uses it", name)
		}
	}
	for anchor := range texts {
		if !linked[anchor] && !slices.Contains(general, anchor) {
			t.Errorf("%s: no message names the section %s", document, anchor)
		}
	}
}

// TestNamesInOtherLanguages checks the names in code that is not Go.
func TestNamesInOtherLanguages(t *testing.T) {
	texts := sections(t)
	link := regexp.MustCompile(`trainspan help ([a-z0-9-]+)`)
	err := filepath.WalkDir(filepath.Join(root, "integrations"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".py" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range link.FindAllSubmatch(text, -1) {
			if texts[string(m[1])] == "" {
				t.Errorf("%s names %s, which is not a section", path, m[1])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestReasons checks that each reason for a report's doubt has its row.
func TestReasons(t *testing.T) {
	texts := sections(t)
	for _, c := range []struct{ file, pattern, section string }{
		{"internal/report/screen.go", `account\.\w+: +"([^"]+)",`, "remarks-on-the-data"},
		{"internal/analyze/account/flags.go", `FlagKind = "(\w+)"`, "remarks-on-the-data"},
		{"internal/analyze/straggler/verdict.go", `[rR]eason\w+ += "(\w+)"`, "which-rank-is-slow-is-not-known"},
	} {
		src, err := os.ReadFile(filepath.Join(root, c.file))
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(c.pattern).FindAllSubmatch(src, -1)
		if len(found) < 6 {
			t.Errorf("%d reasons found in %s, want 6 or more", len(found), c.file)
		}
		for _, m := range found {
			if !strings.Contains(texts[c.section], string(m[1])) {
				t.Errorf("%s: %q has no row in %s#%s", c.file, m[1], document, c.section)
			}
		}
	}
}
