// Command messages lists the texts in the sources that users can see, as "file:line  text", for reading:
// errors, log records, help, screens and the page. Run it with
//
//	go -C tools run ./messages [PATH...]    all of the repository, or what is below these paths
//	go -C tools run ./messages -tests       the texts of failing tests
//
// In Go these are all string literals of two words or more, single words in calls that print or make an error,
// and fields named Use, Short, Long or Example. Fragments that "+" joins are one text. In Python,
// shell and JavaScript they are strings of two words or more; in HTML, the text between tags.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// skipped matches files whose texts no user sees: test data, test helpers and tools of maintainers.
var skipped = regexp.MustCompile(`(^|/)(testdata|third_party|testkit|\.ci)/|^(test|tools|examples)/|/(bench|tests)/`)

// printing matches functions whose arguments are shown even if they are a single word.
var printing = regexp.MustCompile(`^(New|Errorf|Print|Printf|Println|Fprint|Fprintf|Fprintln|Warn|Info|Error|line|row|table|heading)$`)

// failing matches the methods of testing.T that report a failure.
var failing = regexp.MustCompile(`^(Error|Errorf|Fatal|Fatalf)$`)

var (
	words   = regexp.MustCompile(`[\pL%][\pL\pN%'’.,:;()-]* +[\pL%(]`) // two words
	letters = regexp.MustCompile(`\pL\pL`)
	verbs   = regexp.MustCompile(`%[-+# 0-9.*\[\]]*\pL`) // of fmt
	unseen  = regexp.MustCompile(`[\x00-\x08\x0b-\x1f]`)
	quoted  = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|` + "`([^`]*)`")                           // a string in a line of a script
	tags    = regexp.MustCompile(`(?s)<(style|script)\b.*?</(style|script)>|\{\{.*?\}\}|</?(b|i|code|a|em)\b[^>]*>`) // markup inside of a text
	shown   = regexp.MustCompile(`(?:title|aria-label|placeholder)="([^"]*)"|>([^<>]+)<`)
)

func main() {
	tests := flag.Bool("tests", false, "list the failures of tests instead")
	flag.Parse()
	if err := run(*tests, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "messages:", err)
		os.Exit(1)
	}
}

func run(tests bool, paths []string) error {
	root, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return fmt.Errorf("find the repository: %w", err)
	}
	if err := os.Chdir(strings.TrimSpace(string(root))); err != nil {
		return err
	}
	files, err := exec.Command("git", append([]string{"ls-files", "--"}, paths...)...).Output()
	if err != nil {
		return fmt.Errorf("list the files of the repository: %w", err)
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for _, name := range strings.Fields(string(files)) {
		if tests != strings.HasSuffix(name, "_test.go") || !tests && skipped.MatchString(name) {
			continue
		}
		print := func(line int, text string) {
			text = strings.TrimSpace(unseen.ReplaceAllString(text, "·"))
			if letters.MatchString(verbs.ReplaceAllString(text, "")) {
				fmt.Fprintf(out, "%s:%d  %s\n", name, line, strings.ReplaceAll(text, "\n", "\n\t"))
			}
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		switch filepath.Ext(name) {
		case ".go":
			err = listGo(name, data, tests, print)
		case ".py", ".sh", ".js":
			listScript(string(data), print)
		case ".tmpl", ".html":
			listHTML(string(data), print)
		}
		if err != nil {
			return err
		}
		if name == "action.yml" {
			listScript(string(data), print)
		}
	}
	return nil
}

// listGo prints the string literals of a Go file, each with the function that it is an argument of.
func listGo(name string, data []byte, tests bool, print func(int, string)) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, data, 0)
	if err != nil {
		return err
	}
	var visit func(n ast.Node, call string)
	visit = func(n ast.Node, call string) {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ImportSpec:
				return false
			case *ast.CallExpr:
				visit(n.Fun, call)
				for _, arg := range n.Args {
					visit(arg, callee(n.Fun))
				}
				return false
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok {
					visit(n.Value, key.Name)
					return false
				}
			case *ast.FuncLit:
				visit(n.Body, "")
				return false
			case *ast.BinaryExpr, *ast.BasicLit:
				text, ok := literal(n.(ast.Expr))
				if !ok {
					return true
				}
				if tests && failing.MatchString(call) || !tests && (words.MatchString(text) || printing.MatchString(call)) {
					print(files.Position(n.Pos()).Line, text)
				}
				return false
			}
			return true
		})
	}
	for _, d := range file.Decls {
		visit(d, "")
	}
	return nil
}

// callee is the name of a called function, without its package or receiver.
func callee(fun ast.Expr) string {
	switch f := fun.(type) {
	case *ast.SelectorExpr:
		return f.Sel.Name
	case *ast.Ident:
		return f.Name
	}
	return ""
}

// literal joins string literals with "+"; an operand that is no literal becomes "…".
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, e.Kind == token.STRING && err == nil
	case *ast.BinaryExpr:
		left, okLeft := literal(e.X)
		right, okRight := literal(e.Y)
		if e.Op != token.ADD || !okLeft && !okRight {
			return "…", false
		}
		return left + right, true
	}
	return "…", false
}

// listScript prints the strings of two words or more in lines of Python, shell, JavaScript or YAML.
func listScript(data string, print func(int, string)) {
	for i, line := range strings.Split(data, "\n") {
		if t := strings.TrimSpace(line); strings.HasPrefix(t, "#") || strings.HasPrefix(t, "//") || strings.HasPrefix(t, `"""`) {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(line, -1) {
			if text := m[1] + m[2] + m[3]; words.MatchString(text) {
				print(i+1, text)
			}
		}
	}
}

// listHTML prints the text between the tags of a page, and attributes that browsers show.
func listHTML(data string, print func(int, string)) {
	data = tags.ReplaceAllStringFunc(data, func(s string) string { return strings.Repeat("\n", strings.Count(s, "\n")) })
	for _, m := range shown.FindAllStringSubmatchIndex(data, -1) {
		for g := 2; g < len(m); g += 2 {
			if m[g] >= 0 {
				print(1+strings.Count(data[:m[g]], "\n"), html.UnescapeString(data[m[g]:m[g+1]]))
			}
		}
	}
}
