package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// page is one document, with its name below the root.
type page struct {
	name, text string
}

// pages returns the README files and all pages of docs.
func pages(t *testing.T) []page {
	t.Helper()
	var all []page
	for _, pattern := range []string{"README.md", "CONTRIBUTING.md", "docs/*/*.md", "*/README.md", "*/*/README.md", "*/*/*/README.md", "SECURITY.md", "CHANGELOG.md"} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			rel, err := filepath.Rel(root, name)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, page{filepath.ToSlash(rel), string(text)})
		}
	}
	if len(all) < 10 {
		t.Fatalf("only %d pages, want at least 10", len(all))
	}
	return all
}

var (
	fence   = regexp.MustCompile("(?s)```(\\w*)\n(.*?)```")
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	linkTo  = regexp.MustCompile(`\]\(([^)\s:#]*)(#[^)\s]*)?\)`)
	makes   = regexp.MustCompile(`(?m)^(?:.*&& )?make ((?:[a-z][a-z0-9-]* ?)+)`)
	script  = regexp.MustCompile(`\btools/[a-z][a-z0-9/-]*`)
	quoted  = regexp.MustCompile("`([^`\n]+)`")
)

// prose returns a page without its blocks of code.
func (p page) prose() string { return fence.ReplaceAllString(p.text, "") }

// commands returns the lines of the shell blocks, without prompts and comments.
func (p page) commands() (lines []string) {
	for _, block := range fence.FindAllStringSubmatch(p.text, -1) {
		if block[1] != "sh" && block[1] != "bash" && block[1] != "" {
			continue
		}
		for line := range strings.Lines(strings.ReplaceAll(block[2], "\\\n", " ")) {
			line = strings.TrimPrefix(strings.TrimSpace(line), "$ ")
			line, _, _ = strings.Cut(line, " #")
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// anchor returns GitHub's anchor of a heading.
func anchor(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(text))
}

// TestLinks checks that the targets of links exist, headings included.
func TestLinks(t *testing.T) {
	for _, p := range pages(t) {
		for _, m := range linkTo.FindAllStringSubmatch(p.prose(), -1) {
			target := filepath.Join(root, filepath.Dir(p.name), m[1])
			if m[1] == "" && m[2] == "" {
				t.Errorf("%s has an empty link", p.name)
			}
			if m[1] == "" {
				target = filepath.Join(root, p.name)
			}
			info, err := os.Stat(target)
			if err != nil {
				t.Errorf("%s has a link to %s, which does not exist", p.name, m[1])
				continue
			}
			if m[2] == "" || info.IsDir() || !strings.HasSuffix(target, ".md") {
				continue
			}
			text, err := os.ReadFile(target)
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, h := range heading.FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
				found = found || "#"+anchor(h[1]) == m[2]
			}
			if !found {
				t.Errorf("%s points at %s%s, which has no such heading", p.name, m[1], m[2])
			}
		}
	}
}

var (
	image   = regexp.MustCompile(`(?:src|srcset)="([^"]*)"|!\[[^\]]*\]\(([^)\s]+)\)`)
	unnamed = regexp.MustCompile(`<img( [^>a][^>]*)?>|!\[\]\([^)]*\)`)
)

// TestPictures checks that the pictures of the documents exist, are small, are
// all used, and have a description.
func TestPictures(t *testing.T) {
	shown := make(map[string]bool)
	for _, p := range pages(t) {
		for _, m := range unnamed.FindAllString(p.prose(), -1) {
			t.Errorf("%s: %s has no alternative text", p.name, m)
		}
		for _, m := range image.FindAllStringSubmatch(p.prose(), -1) {
			shown[filepath.Join(root, filepath.Dir(p.name), m[1]+m[2])] = true
		}
	}
	files, err := filepath.Glob(filepath.Join(root, "docs/pictures/*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("files %v, %v; want one or more", files, err)
	}
	total := int64(0)
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		if total += info.Size(); !shown[f] {
			t.Errorf("no page shows %s", f)
		}
		delete(shown, f)
	}
	for f := range shown {
		if _, err := os.Stat(f); err != nil {
			t.Errorf("picture %s does not exist", f)
		}
	}
	if total > 300<<10 {
		t.Errorf("the pictures have %d bytes, want at most 307200: tools/pictures writes them", total)
	}
}

// TestMakeTargets checks that the targets and the scripts of tools that the
// pages name exist.
func TestMakeTargets(t *testing.T) {
	targets := makeTargets(t)
	n := 0
	for _, p := range pages(t) {
		mentions := strings.Join(p.commands(), "\n")
		for _, m := range quoted.FindAllStringSubmatch(p.prose(), -1) {
			mentions += "\n" + m[1]
		}
		for _, m := range makes.FindAllStringSubmatch(mentions, -1) {
			n++
			for name := range strings.FieldsSeq(m[1]) {
				if !slices.Contains(targets, name) {
					t.Errorf("%s: %s: target %s is not in %v", p.name, m[0], name, targets)
				}
			}
		}
		for _, name := range script.FindAllString(mentions, -1) {
			if strings.HasPrefix(name, "tools/packaging/") {
				continue // files of a release, which TestFilesAndFolders checks
			}
			n++
			if info, err := os.Stat(filepath.Join(root, name)); err != nil || !info.IsDir() && info.Mode()&0o100 == 0 {
				t.Errorf("%s: %s: no such script", p.name, name)
			}
		}
	}
	if n < 20 {
		t.Errorf("found %d targets and scripts, want at least 20", n)
	}
}

// makeTargets returns the phony targets of the Makefile.
func makeTargets(t *testing.T) []string {
	t.Helper()
	_, list, _ := strings.Cut(textOf(t, filepath.Join(root, "Makefile")), "\n.PHONY: ")
	list, _, _ = strings.Cut(list, "\n")
	return strings.Fields(list)
}

// TestMakeStartsNothing checks that make lists the targets with a description
// each, and that make -n starts no program except make itself.
func TestMakeStartsNothing(t *testing.T) {
	program, err := exec.LookPath("make")
	if err != nil {
		t.Skip(err)
	}
	targets := makeTargets(t)
	if len(targets) != 12 {
		t.Errorf("the targets are %v, want 12", targets)
	}
	help := exec.Command(program)
	help.Dir = root
	out, err := help.Output()
	if err != nil {
		t.Fatal(err)
	}
	listed := regexp.MustCompile(`(?m)^  (\S+) +\S`).FindAllStringSubmatch(string(out), -1)
	for i, name := range targets {
		if len(listed) != len(targets) || listed[i][1] != name {
			t.Fatalf("make lists\n%swant a line for each of %v", out, targets)
		}
	}
	// Each program that a recipe or $(shell) could start leaves a file here.
	bin, marks := t.TempDir(), t.TempDir()
	for _, name := range []string{"awk", "bash", "cat", "env", "git", "go", "id", "python3", "rm", "uname"} {
		text := "#!/bin/sh\necho >" + filepath.Join(marks, name) + "\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o700); err != nil { //nolint:gosec // it is run
			t.Fatal(err)
		}
	}
	for _, name := range targets {
		dry := exec.Command(program, "-n", "GO=go", name)
		dry.Dir, dry.Env = root, []string{"PATH=" + bin}
		if out, err := dry.CombinedOutput(); err != nil || len(out) == 0 {
			t.Errorf("make -n %s: %v, want its commands\n%s", name, err, out)
		}
		started, err := os.ReadDir(marks)
		if err != nil || len(started) != 0 {
			t.Errorf("make -n %s started %v, %v; want nothing started", name, started, err)
		}
	}
}

var fileName = regexp.MustCompile(`^[\w.-]+(/[\w.*-]+)+/?$`)

// TestFilesAndFolders checks the paths of this repository that the pages name.
func TestFilesAndFolders(t *testing.T) {
	folders := map[string]bool{}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		folders[e.Name()] = e.IsDir()
	}
	n := 0
	for _, p := range pages(t) {
		for _, m := range quoted.FindAllStringSubmatch(p.prose(), -1) {
			name := strings.TrimPrefix(m[1], "./")
			first, _, _ := strings.Cut(name, "/")
			// The output of a run does not exist yet.
			if !fileName.MatchString(name) || !folders[first] || first == "out" || first == "bin" {
				continue
			}
			n++
			found, err := filepath.Glob(filepath.Join(root, name))
			beside, _ := filepath.Glob(filepath.Join(root, filepath.Dir(p.name), name))
			if err != nil || len(found)+len(beside) == 0 {
				t.Errorf("%s names %s, which does not exist", p.name, m[1])
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d paths were found, want at least 20", n)
	}
}

var drawnFile = regexp.MustCompile(`[\w.]+(?:/[\w.]+)+\.go`)

// TestDrawnFiles checks the files that drawings of the code name, with their whole paths.
func TestDrawnFiles(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "maintain", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, drawing, found := strings.Cut(string(page), "## The path of a span\n\n```text\n")
	drawing, _, closed := strings.Cut(drawing, "```")
	names := drawnFile.FindAllString(drawing, -1)
	if !found || !closed || len(names) < 20 {
		t.Fatalf("the drawing names %d files, want at least 20", len(names))
	}
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(name))); err != nil {
			t.Errorf("the drawing names %s, which is not there", name)
		}
	}
}
