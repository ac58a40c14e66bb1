package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/trainspan/trainspan/spans"
)

var row = regexp.MustCompile(`(?m)^\| (\w+) \| (\w+) \| ([\w.]+) \|$`)

// TestTableOfNames compares the table of docs/explain/goodput.md with package spans.
func TestTableOfNames(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "explain", "goodput.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := row.FindAllStringSubmatch(string(text), -1)
	if len(rows) != spans.Count {
		t.Fatalf("%d rows, want %d as in package spans", len(rows), spans.Count)
	}
	for i, info := range spans.All() {
		if got := rows[i]; got[1] != info.Name || got[2] != info.Category || got[3] != info.Event {
			t.Errorf("row %v, want %s %s %s", got[1:], info.Name, info.Category, info.Event)
		}
	}
}
