// Package goldentrace compares the lines of a trace file with those of a golden
// file, without values that differ between two runs.
package goldentrace

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/testkit/dftest"
)

// Check fails the test unless the trace is valid and its lines equal those of
// the golden file, which it writes if update is set.
func Check(t testing.TB, trace, golden string, update bool) {
	t.Helper()
	dftest.Check(t, trace)
	data, err := os.ReadFile(trace) //nolint:gosec // a file of the test
	if err != nil {
		t.Fatal(err)
	}
	got := Normalize(data)
	if update {
		if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil { //nolint:gosec // of the repository
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, got, 0o644); err != nil { //nolint:gosec // of the repository
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden) //nolint:gosec // a file of the test
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(got, want) {
		return
	}
	gots, wants := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range max(len(gots), len(wants)) {
		if g, w := lineAt(gots, i), lineAt(wants, i); g != w {
			t.Fatalf("%s: line %d of %d is\n%s\nwant line of %d\n%s", golden, i+1, len(gots), g, len(wants), w)
		}
	}
}

func lineAt(lines [][]byte, i int) string {
	if i >= len(lines) {
		return "nothing"
	}
	return string(lines[i])
}

var (
	rules = []struct {
		find *regexp.Regexp
		put  string
	}{
		{regexp.MustCompile(`"(pid|tid)":\d+`), `"$1":1`},
		{regexp.MustCompile(`"(ts|dur)":\d+`), `"$1":0`},
		{regexp.MustCompile(`"(hhash|cwd|exec_hash|cmd_hash)":"[0-9a-f]{16}"`), `"$1":"-"`},
		{regexp.MustCompile(`"(date|version)":"[^"]*"`), `"$1":"-"`},
		{regexp.MustCompile(`"ppid":\d+`), `"ppid":0`},
		{regexp.MustCompile(`("name":"[HFS]H",.*"args":\{.*)"name":"(?:[^"\\]|\\.)*","value":"[0-9a-f]{16}"`), `$1"name":"-","value":"-"`},
		{regexp.MustCompile(`("name":"thread_name",.*"args":\{.*)"name":"\d+"`), `$1"name":"-"`},
		{regexp.MustCompile(`"value":"\d{16}"`), `"value":"0"`},
	}
)

var idOf = regexp.MustCompile(`"id":(\d+)`)

// Normalize sorts the records by their ids, which are assigned at the starts,
// because the order of lines in the file depends on the number of cores. It
// replaces times by 0, processes and lanes by 1 (the lane of an event depends
// on whether it took a microsecond), and values of the machine and the build by
// a dash.
func Normalize(lines []byte) []byte {
	for _, r := range rules {
		lines = r.find.ReplaceAll(lines, []byte(r.put))
	}
	all := strings.Split(strings.TrimSuffix(string(lines), "\n]"), "\n")
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(id(a), id(b)) })
	return []byte(strings.Join(all, "\n") + "\n]\n")
}

// id returns the id of a record, 0 for the opening bracket.
func id(line string) int {
	m := idOf.FindStringSubmatch(line)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}
