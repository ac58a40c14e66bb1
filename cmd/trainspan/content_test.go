package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
)

// byContent has, for each command, command lines for files of each kind that it
// reads. Words in capitals are files; OUT is a new name.
var byContent = map[string][]string{
	"trace summary":  {"TRACE", "RECORDS", "TRACE RECORDS"},
	"trace info":     {"TRACE", "RECORDS"},
	"trace steps":    {"TRACE", "RECORDS"},
	"trace events":   {"TRACE", "RECORDS", "TRACE --rank 0", "TRACE --sort duration", "RECORDS --sort duration"},
	"trace validate": {"TRACE", "RECORDS"},
	"open":           {"TRACE"},
	"trace import":   {"PROFILE -o OUT.pfw", "PROFILES -o OUT.pfw", "LOG -o OUT.pfw", "LOGS -o OUT.pfw"},
	"trace watch":    {"PROFILES --once --interval 1ms -o OUT.pfw"},
	"trace merge":    {"TRACE -o OUT.pfw"},
	"trace split":    {"TRACE -o OUT"},
	"trace recover":  {"TRACE -o OUT.pfw"},
	"trace convert":  {"TRACE --to chrome -o -", "TRACE --to otlp -o -", "TRACES --to parquet -o OUT", "RECORDS TRACE --to parquet -o OUT"},
	"trace replay":   {"SPANS --endpoint http://127.0.0.1:1 --retry 1ns"},
	"report":         {"TRACE", "RECORDS", "DIGEST", "TRACES"},
	"runs":           {"TRACE", "RECORDS", "DIGEST", "TRACES"},
	"top":            {"TRACE", "RECORDS", "DIGEST"},
	"alert":          {"TRACE", "RECORDS", "DIGEST"},
	"trace digest":   {"TRACE -o OUT.digest", "RECORDS -o OUT.digest", "DIGEST -o OUT.digest"},
	"compare":        {"TRACE TRACE", "RECORDS RECORDS", "DIGEST DIGEST"},
}

// ends has the statuses of commands that fail in this test: there is no receiver
// of spans, and the steps are too few to compare.
var ends = map[string]int{"trace replay": 1, "compare": 4}

// TestVerbsReadByContent checks that commands identify files by content, not by
// name. It covers all commands of the command tree.
func TestVerbsReadByContent(t *testing.T) {
	golden, err := os.ReadFile(filepath.Join("..", "..", "telemetry", "testdata", "golden", "01_sync_full", "golden.norm.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	named, strange := t.TempDir(), t.TempDir()
	t.Chdir(named)
	trace := "traces/a.pfw.gz"
	for _, dir := range []string{"traces", "profiles", "logs", "spill"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := makeTrace([]string{trace}); err != nil {
		t.Fatal(err)
	}
	const log = "V0822 14:00:48.902000 1543231 torch/_dynamo/utils.py:1288] {\"chromium_event\": {}, \"has_payload\": \"x\"}\n" +
		"\t{\"name\": \"compile\", \"ph\": \"B\", \"ts\": 1778000000000000.0, \"pid\": 0}\n" +
		"V0822 14:00:49.902000 1543231 torch/_dynamo/utils.py:1288] {\"chromium_event\": {}, \"has_payload\": \"x\"}\n" +
		"\t{\"name\": \"compile\", \"ph\": \"E\", \"ts\": 1778000000000900.0, \"pid\": 0}\n"
	want(t, "trace", "digest", "traces", "-o", "d.digest")
	want(t, "trace", "convert", trace, "--to", "otlp", "-o", "spill/e.otlp.jsonl")
	// The names have the same length, so that tables have the same width.
	files := map[string][2]string{
		"TRACES": {"traces", "traces"}, "TRACE": {trace, "traces/a.x.gzip"}, "RECORDS": {"b.jsonl", "b.notes"}, "PROFILES": {"profiles", "profiles"},
		"PROFILE": {"profiles/c.json", "profiles/c.data"}, "LOGS": {"logs", "logs"}, "LOG": {"logs/dedicated_log_torch_trace_x.log", "logs/the_strangest_of_names_ever_seen.z"},
		"DIGEST": {"d.digest", "d.person"}, "SPANS": {"spill/e.otlp.jsonl", "spill/e.spans.text"},
	}
	for path, text := range map[string]string{"b.jsonl": string(golden), "profiles/c.json": profile, "logs/dedicated_log_torch_trace_x.log": log} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, names := range files {
		text, err := os.ReadFile(names[0])
		if err != nil {
			continue // a folder
		}
		to := filepath.Join(strange, names[1])
		if err := cmp.Or(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, text, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	read := func(at int, verb, line string) (status int, text string) {
		t.Chdir([]string{named, strange}[at])
		var args []string
		for word := range strings.FieldsSeq(verb + " " + line) {
			if names, ok := files[word]; ok {
				word = names[at]
			}
			args = append(args, strings.Replace(word, "OUT", t.TempDir()+"/out", 1))
		}
		if verb == "open" {
			args = append(args, "--no-browser", "--port", "0")
		}
		if verb == "top" || verb == "alert" { // top draws only on terminals, alert reports changes
			r := (&topReader{paths: args[1:], now: time.Now}).read(t.Context(), true)
			if r.report == nil {
				return 1, fmt.Sprint(r.waiting, r.err)
			}
			return 0, r.report.Verdict.Sentence
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out, errs := endsAt{cancel: cancel}, endsAt{cancel: cancel}
		status = run(ctx, args, ui.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		text = out.String() + errs.String()
		for _, names := range files {
			text = strings.ReplaceAll(text, filepath.Base(names[at]), "FILE")
		}
		return status, changing.ReplaceAllString(text, "…")
	}
	for _, cmd := range verbs(newRoot(&ui.App{})) {
		verb := calledAs(cmd)
		lines, ok := byContent[verb]
		if !ok && !slices.Contains([]string{"run", "demo", "version", "trace"}, verb) { // these read no file
			t.Errorf("%s: the table does not say which kinds of files it reads", verb)
		}
		for _, line := range lines {
			wantStatus, text := read(0, verb, line)
			status, got := read(1, verb, line)
			if status != wantStatus || got != text || status != ends[verb] {
				t.Errorf("%s %s: status %d with the usual name, %d with a strange one, want %d for both\n%.900s\n%.900s", verb, line, wantStatus, status, ends[verb], text, got)
			}
		}
	}
}

// changing matches output that differs between two runs: times, ports, paths.
var changing = regexp.MustCompile(`\S*/TestVerbsReadByContent\S*|:\d{4,5}(/[\w-]{43})?|\d+(\.\d+)? (ms|s|µs) (to|ago)\S*|\d\d:\d\d:\d\d`)
