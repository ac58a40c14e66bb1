package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// write makes a small house: a door, a sibling, the command, an example.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

var small = map[string]string{
	"go.mod": "module github.com/trainspan/trainspan\n\ngo 1.26.0\n",
	"go.work": `go 1.26.0

use (
	.
	./examples
)
`,
	"door/door.go": `package door

// Thing is met.
type Thing struct{ Colour Colour }

type Colour int

const Red Colour = 1

func New() *Thing { return &Thing{} }

func (t *Thing) Paint() {}

func (t *Thing) Close() error { return nil }

func (t *Thing) Shown() {}

func Sibling() int { return Own }

func Tested() int { return 0 }

const Own = 2

var Nobody = 3
`,
	"door/door_test.go": `package door_test

import (
	"testing"

	"github.com/trainspan/trainspan/door"
)

func TestIt(t *testing.T) { _ = door.Tested() + door.Sibling() }

func ExampleThing() { door.New().Paint() }
`,
	"internal/room/room.go":      "package room\n\nimport \"github.com/trainspan/trainspan/door\"\n\nvar Size = door.Sibling()\n",
	"internal/helper/helper.go":  "// Package helper is for tests.\npackage helper\n",
	"cmd/trainspan/main.go":      "package main\n\nimport \"github.com/trainspan/trainspan/internal/room\"\n\nfunc main() { println(room.Size) }\n",
	"examples/go.mod":            "module github.com/trainspan/trainspan/examples\n\ngo 1.26.0\n",
	"examples/first/main.go":     "package main\n\nimport \"github.com/trainspan/trainspan/door\"\n\nfunc main() { door.New() }\n",
	"README.md":                  "```go\nx := door.New()\nx.Shown()\n```\n",
	"docs/a.md":                  "",
	"cmd/trainspan/part/part.go": "package part\n\nimport \"io\"\n\nvar Out io.Closer\n",
}

func TestWhoUsesNames(t *testing.T) {
	root := write(t, small)
	h, err := count(root)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, f := range h.packages {
		paths = append(paths, f.path)
	}
	slices.Sort(paths)
	if got, want := strings.Join(paths, " "), "cmd/trainspan cmd/trainspan/part door internal/room"; got != want {
		t.Errorf("the product is %s, want %s", got, want)
	}
	door := h.find("./door")
	if door == nil {
		t.Fatal("no door")
	}
	got := make(map[string]string)
	for _, n := range door.names {
		got[n.key] = useNames[n.use]
	}
	want := map[string]string{
		"Thing": "by signature", "Colour": "by signature", "Red": "by signature", "New": "users", "Thing.Paint": "users", "Thing.Close": "interfaces",
		"Thing.Shown": "users", "Sibling": "siblings only", "Tested": "tests", "Own": "own package", "Nobody": "nobody",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestOneClearsTheOrder(t *testing.T) {
	root := write(t, map[string]string{
		"go.mod": "module github.com/trainspan/trainspan\n\ngo 1.26.0\n",
		"p/a.go": "package p\n\ntype a struct{ x, y int }\n\nfunc (q *a) up() { top() }\n",
		"p/b.go": "package p\n\n// more\n\nfunc middle(q *a) int { return q.x }\n",
		"p/c.go": "package p\n\nfunc top() { middle(&a{}) }\n\nvar text = `one\ntwo`\n",
	})
	ps, err := loadOne(root, "./p")
	if err != nil {
		t.Fatal(err)
	}
	f := measure(root, ps[0])
	if f.arcs != 4 || len(f.back) != 1 || f.back[0].from != "a.go" || f.back[0].to != "c.go" || f.back[0].names[0] != "top" {
		t.Errorf("got %d arcs, backward %v", f.arcs, f.back)
	}
	if lines, code := f.lines(); lines != 16 || code != 9 {
		t.Errorf("got %d lines, %d of code", lines, code)
	}
	if len(f.types) != 1 || f.types[0] != (typ{name: "a", fields: 2, methods: 1, files: 1}) {
		t.Errorf("got %v", f.types)
	}
}

// In a ring of pairs the fewest backward arcs are known.
func TestBestOrder(t *testing.T) {
	const n = 30
	g := &graph{uses: make([][]map[string]bool, n)}
	for i := range n {
		g.files = append(g.files, fmt.Sprint(i))
		g.uses[i] = make([]map[string]bool, n)
		for _, j := range []int{i - 1, i - 7} {
			if j >= 0 {
				g.uses[i][j] = map[string]bool{"x": true}
			}
		}
	}
	for i := 0; i < n; i += 3 {
		g.uses[i][(i+11)%n] = map[string]bool{"back": true}
	}
	got := len(g.backward())
	if got > 7 {
		t.Errorf("%d of %d arcs run backwards", got, g.arcs())
	}
	if again := len(g.backward()); again != got {
		t.Errorf("the second search finds %d, the first %d", again, got)
	}
}

func TestLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("loads all modules")
	}
	h, err := count("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range h.exceeded() {
		t.Error(line)
	}
	for _, f := range h.siblings(10) {
		t.Logf("%s: %d names that only siblings use", f.path, f.byUse[bySibling])
	}
	for _, line := range h.slack() {
		t.Log(line)
	}
}
