package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
)

// statusCases has a command line for each row of the table in
// docs/reference/cli.md.
var statusCases = map[string][]string{
	"0 no problem":           {"trace summary GOOD", "trace validate GOOD", "trace info GOOD", "trace merge GOOD -o OUT.pfw.gz"},
	"1 a trace is not valid": {"trace validate LOOSE", "trace validate GOOD LOOSE", "trace validate TEXT"},
	"1 a trace is damaged or cut off; what can be read was used": {"trace summary TORN", "trace info TORN", "trace validate TORN", "trace events TORN", "report TORN", "trace digest TORN -o OUT8.digest", "trace convert TORN --to v2 -o OUT3.pfw.gz"},
	"1 lines had to be skipped":                                  {"trace summary LINES", "trace info LINES", "trace steps LINES", "trace merge LINES -o OUT4.pfw.gz"},
	"1 one of several files cannot be used; the others were":     {"trace summary GOOD TEXT", "trace info GOOD EMPTY", "trace merge GOOD TEXT -o OUT5.pfw.gz", "trace events TEXT GOOD --sort duration"},
	"1 a file was refused by `import`":                           {"trace import PROFILE TEXTJSON -o OUT6.pfw.gz"},
	"1 spans are left to replay":                                 {"trace replay SPANS --endpoint http://127.0.0.1:1 --retry 0s"},
	"2 the command was used wrongly":                             {"summary", "nonsense", "trace events GOOD --limit x", "trace split GOOD TORN -o DIR", "trace replay GOOD", "trace summary GOOD --sort size"},
	"2 no such file exists, or none that the command reads":      {"trace summary NONE", "trace info NONE", "trace validate NONE", "trace replay NONE --endpoint http://127.0.0.1:1", "trace recover NONE", "trace summary TEXT", "trace info TEXT", "trace events EMPTY", "trace recover TEXT", "trace merge TEXT -o OUT2.pfw.gz"},
	"2 an output exists already, or cannot be written":           {"trace merge GOOD -o TORN", "trace convert GOOD --to v1 -o NONE/x.pfw.gz", "trace split GOOD -o TEXT"},
	"2 the command was interrupted":                              {"interrupted trace summary GOOD", "interrupted trace merge GOOD -o OUT7.pfw.gz"},
}

var statusRow = regexp.MustCompile(`(?m)^\| ([012]) \| (.*) \|$`)

// TestExitStatusOfEachRow checks the exit status in each row of that table.
func TestExitStatusOfEachRow(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := filepath.Join(dir, "good.pfw.gz")
	if err := makeTrace([]string{good}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	const line = `{"id":1,"name":"forward","cat":"compute","pid":1,"tid":1,"ts":5,"dur":2,"ph":"X","args":{"hhash":"ab"}}` + "\n"
	spans := filepath.Join(dir, "x.otlp.jsonl")
	want(t, "trace", "convert", good, "--to", "otlp", "-o", spans)
	names := strings.NewReplacer("TEXTJSON", file("text.json", "no profile"), "GOOD", good, "TEXT", file("text.pfw", "Dear diary\n"), "EMPTY", file("empty.pfw", ""),
		"TORN", file("torn.pfw.gz", string(data[:len(data)-30])), "LINES", file("lines.pfw", line+"nonsense\n"), "LOOSE", file("loose.pfw", line),
		"PROFILE", file("profile.json", profile), "SPANS", spans, "OUT", filepath.Join(dir, "out"), "NONE", filepath.Join(dir, "none"), "DIR", filepath.Join(dir, "pieces"))
	rows := statusRow.FindAllStringSubmatch(string(page), -1)
	if len(rows) != len(statusCases) {
		t.Errorf("page has %d rows of exit statuses, want %d as in this test's cases", len(rows), len(statusCases))
	}
	for _, row := range rows {
		cases := statusCases[row[1]+" "+row[2]]
		if len(cases) == 0 {
			t.Errorf("no case for the row %q of the page", row[2])
		}
		for _, c := range cases {
			ctx, cancel := context.WithCancel(context.Background())
			c, interrupted := strings.CutPrefix(c, "interrupted ")
			if interrupted {
				cancel()
			}
			var stdout, stderr bytes.Buffer
			status := run(ctx, strings.Fields(names.Replace(c)), ui.Streams{Out: &stdout, Err: &stderr})
			cancel()
			if got := string(rune('0' + status)); got != row[1] {
				t.Errorf("%s: status %s, want %s as on the page: %s%s", c, got, row[1], stdout.String(), stderr.String())
			}
		}
	}
}
