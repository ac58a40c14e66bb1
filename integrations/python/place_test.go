package python_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/platform/identity"
)

var update = flag.Bool("update", false, "write the list of variables in trainspan/_ring.py")

// TestVariablesOfThePlace checks that the client has the environment variables
// of launchers that the Go table has: the client's list is generated from the
// table. Run it with -update to write the list again.
func TestVariablesOfThePlace(t *testing.T) {
	const file, begin, end = "trainspan/_ring.py", "_PLACE = \"\"\"", "\"\"\".split()"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), begin)
	have, after, ok := strings.Cut(rest, end)
	if !ok {
		t.Fatalf("%s has no list _PLACE", file)
	}
	var want strings.Builder
	width := len(begin)
	for _, name := range append(identity.Variables(), "DFTRACER_INC_METADATA", "DFTRACER_TRACE_COMPRESSION") {
		switch {
		case want.Len() == 0:
		case width+1+len(name) > 120:
			want.WriteByte('\n')
			width = 0
		default:
			want.WriteByte(' ')
			width++
		}
		want.WriteString(name)
		width += len(name)
	}
	if have == want.String() {
		return
	}
	if !*update {
		t.Fatalf("_PLACE of %s differs from internal/platform/identity; run go test ./integrations/python -run %s -update:\n%s", file, t.Name(), want.String())
	}
	if err := os.WriteFile(file, []byte(before+begin+want.String()+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
