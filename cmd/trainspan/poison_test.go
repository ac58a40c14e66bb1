package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/testkit/pyrun"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// poison has the characters that no name may bring to a terminal: titles,
// colours and other escape sequences, C1 with and without UTF-8, text
// direction, zero width, line breaks. If it could begin a line, the line would
// have FORGED.
const poison = "\x1b]0;t\x07\x1b[35m\x1b[2J\u009b2J\u202e\u2066\u200b\u061c\ufeff\u2028\u2029\u0085\r\nFORGED\n\tFORGED\x7f"

// poisonName is a shorter poison, because file names have at most 255 bytes.
const poisonName = "\x1b]0;t\x07\u009b2J\u202e\u200b\r\nFORGED\xff"

// inJSON is poison as the contents of a JSON string: escaped, or unescaped where
// JSON allows it.
var inJSON = func() string {
	text, err := json.Marshal(poison)
	if err != nil {
		panic(err)
	}
	return strings.Trim(string(text), `"`)
}()

var (
	anyName  = regexp.MustCompile(`"name":"([^"]*)"`)
	anyCat   = regexp.MustCompile(`"cat":"([^"]*)"`)
	aName    = regexp.MustCompile(`("args":\{.*"name":")([^"]*)`)
	aValue   = regexp.MustCompile(`("args":\{.*"value":")([^"]*)`)
	anyWords = regexp.MustCompile(`"(job_id|session_tag|date|version|pg|application_name|node_name|exec|cmd)":"([^"]*)"`)
	anyKey   = regexp.MustCompile(`"args":\{`)
)

// poisoned returns a trace with a text in each of its strings. It changes hosts,
// programs, file names and ids in place, and the names in a copy of each tenth
// span, so that spans with known names are still found.
func poisoned(trace, text string, ranks bool) string {
	var b strings.Builder
	for i, line := range strings.SplitAfter(trace, "\n") {
		line = anyWords.ReplaceAllString(line, `"$1":"$2`+text+`"`)
		switch {
		case strings.Contains(line, `"name":"HH"`), strings.Contains(line, `"name":"FH"`), strings.Contains(line, `"name":"SH"`):
			line = aName.ReplaceAllString(line, `${1}${2}`+text)
		case strings.Contains(line, `"name":"PR"`) && ranks:
			line = aValue.ReplaceAllString(line, `${1}${2}`+text)
		case i%10 == 0 && strings.Contains(line, `"dur"`) && !strings.Contains(line, `"cat":"dftracer"`):
			b.WriteString(line)
			line = anyCat.ReplaceAllString(anyName.ReplaceAllString(line, `"name":"$1`+text+`"`), `"cat":"$1`+text+`"`)
			line = anyKey.ReplaceAllString(line, `"args":{"`+text+`":"`+text+`",`)
		}
		b.WriteString(line)
	}
	return b.String()
}

const poisonedProfile = `{"schemaVersion":1,"hostname":"hostPOISON","distributedInfo":{"backend":"POISON","rank":3,"world_size":4},"traceEvents":[
{"ph":"X","cat":"user_annotation","name":"ProfilerStep#7","pid":100,"tid":100,"ts":1778000000000000,"dur":1000,"args":{"External id":1}},
{"ph":"X","cat":"user_annotation","name":"POISON","pid":100,"tid":100,"ts":1778000000000010,"dur":10,"args":{"POISON":"POISON"}},
{"ph":"X","cat":"newPOISON","name":"POISON","pid":"POISON","tid":"POISON","ts":1778000000000200,"dur":10,"args":{"POISON":"POISON"}},
{"ph":"M","name":"process_name","pid":100,"tid":0,"args":{"name":"POISON"}},
{"ph":"M","name":"thread_name","pid":100,"tid":100,"args":{"name":"POISON"}},
{"ph":"X","cat":"cpu_op","name":"aten::POISON","pid":100,"tid":100,"ts":1778000000000100,"dur":10,"args":{"External id":2,"Input type":["POISON"]}}
],"traceName":"POISON"}`

// poisonedFiles makes files of each kind in a folder with a poisoned name.
func poisonedFiles(t *testing.T) map[string]string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "dir"+poisonName)
	plain := t.TempDir()
	makeJob(t, plain, simjob.Attempt{Ranks: 2, Steps: 40, Slow: 1, Extra: [4]float64{12}, Save: 10, Plain: true, Tag: "tag"})
	makeJob(t, plain, simjob.Attempt{Ranks: 2, Steps: 40, First: 30, Number: 1, Plain: true, Tag: "tag"})
	if err := makeTrace([]string{filepath.Join(plain, "calls.pfw")}); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"JOB": "job" + poisonName, "TRACE": "trace" + poisonName + ".pfw", "TORN": "torn" + poisonName + ".pfw", "RANKS": "ranks" + poisonName + ".pfw", "BYTES": "bytes" + poisonName + ".pfw",
		"RECORDS": "records" + poisonName + ".jsonl", "PROFILE": "profile" + poisonName + ".json", "WORDS": "words" + poisonName + ".json", "NONE": "none" + poisonName,
	}
	for key, name := range files {
		files[key] = filepath.Join(dir, name)
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	list, err := os.ReadDir(plain)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		text, err := os.ReadFile(filepath.Join(plain, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if e.Name() != "calls.pfw" {
			write(filepath.Join(files["JOB"], poisonName+e.Name()), poisoned(string(text), inJSON, false))
			continue
		}
		write(files["TRACE"], poisoned(string(text), inJSON, false))
		write(files["TORN"], strings.TrimSuffix(poisoned(string(text), inJSON, false), "]\n"))
		write(files["RANKS"], poisoned(string(text), inJSON, true))
		// Invalid JSON, which readers may accept or refuse.
		write(files["BYTES"], poisoned(string(text), strings.ReplaceAll(poison, "\n", "")+"\xff\x9b31m", true)+"\x1b[35m no record\n")
	}
	golden, err := os.ReadFile(filepath.Join("..", "..", "telemetry", "testdata", "golden", "01_sync_full", "golden.norm.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	records := anyWords.ReplaceAllString(string(golden), `"$1":"$2`+inJSON+`"`)
	lines := strings.SplitAfter(records, "\n")
	for i, line := range lines {
		if strings.Contains(line, `"type":"complete"`) && i%3 == 0 {
			lines[i] = line + strings.Replace(line, `"name":"`, `"name":"`+inJSON, 1)
		}
	}
	write(files["RECORDS"], strings.Join(lines, "")+"\x1b[35m no record\n")
	write(files["PROFILE"], strings.ReplaceAll(poisonedProfile, "POISON", inJSON))
	write(files["WORDS"], poison)
	return files
}

// hiddenIn returns a part of a text that must not be printed, or "".
func hiddenIn(text string) string {
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\ufffd"):
			return "a byte that is no UTF-8"
		case r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp):
			return fmt.Sprintf("%U", r)
		}
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimLeft(line, " \t"), "FORGED") {
			return "a line of its own"
		}
	}
	return ""
}

// endsAt cancels a command that waits for input.
type endsAt struct {
	bytes.Buffer
	cancel context.CancelFunc
}

func (e *endsAt) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("#!/?url=")) || bytes.Contains(p, []byte("press Ctrl-C to stop")) {
		e.cancel()
	}
	return e.Buffer.Write(p)
}

// cleanRun runs a command line, checks its output and returns it.
func cleanRun(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, errs := endsAt{cancel: cancel}, endsAt{cancel: cancel}
	status := run(ctx, args, ui.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
	for where, text := range map[string]string{"output": out.String(), "errors": errs.String()} {
		if found := hiddenIn(text); found != "" {
			t.Errorf("%q: status %d: the %s hold %s, want \"\":\n%.3000q", args, status, where, found, text)
		}
	}
	return out.String(), errs.String()
}

// calledAs returns the words of a command without the name of the program.
func calledAs(cmd *cobra.Command) string { return strings.TrimPrefix(cmd.CommandPath(), "trainspan ") }

// verbs returns all runnable commands, including those that cobra adds.
func verbs(cmd *cobra.Command) (list []*cobra.Command) {
	for _, c := range cmd.Commands() {
		if !c.Hidden { // the telemetry process is tested with trainspan run
			list = append(append(list, c), verbs(c)...)
		}
	}
	return list
}

// alike has command lines of commands that need more than a file. Words in
// capitals are files of poisonedFiles; each OUT is a new name.
var alike = []string{
	"trace summary JOB RECORDS", "trace info TRACE RECORDS BYTES", "trace steps JOB --csv", "trace steps RANKS --csv", "trace steps JOB --json", "trace steps RANKS", "trace events TRACE --csv", "trace events TRACE --json --metadata",
	"trace events TRACE --metadata", "trace events JOB --sort duration --all", "trace events JOB TRACE --sort duration --all", "trace validate TRACE TORN RANKS BYTES RECORDS", "trace validate --show 100 BYTES TRACE",
	"trace recover TORN", "trace recover BYTES -o OUT.pfw", "trace info JOB", "trace merge JOB -o OUT.pfw", "trace merge TRACE -o -", "trace split TRACE -o OUT", "trace split JOB -o OUT", "trace split RANKS -o OUT", "trace split TRACE -o OUT --by category",
	"trace convert TRACE --to v1 -o OUT.pfw.gz", "trace convert TRACE --to v22 -o -", "trace convert TRACE --to chrome -o -", "trace convert TRACE --to otlp -o -", "trace convert TRACE --to chrome -o OUT.json",
	"trace convert JOB --to parquet -o OUT", "trace convert TRACE --to parquet -o OUT --run POISON", "trace import PROFILE WORDS -v -o OUT.pfw", "trace import PROFILE -o OUT.pfw", "trace import PROFILE --json -o OUT.pfw",
	"trace import PROFILE -o - -v", "trace watch DIR -o OUT.pfw --once --interval 1ms", "trace watch DIR -o OUT.pfw", "report JOB --html OUT.html", "report JOB --json", "report TRACE", "report RECORDS --html OUT.html",
	"report JOB --html WORDS", "compare JOB JOB", "compare JOB JOB --markdown", "compare JOB JOB --json", "compare TRACE JOB --markdown", "compare JOB NONE", "trace digest JOB -o OUT.digest",
	"open TRACE --no-browser --port 0", "trace replay DIR --endpoint http://127.0.0.1:1", "top JOB", "POISON", "trace summary --POISON", "help POISON", "completion POISON",
	"run --attempt -5 -- POISON", "run --only POISON -- true", "run -- NONE", "run -- POISON",
	"__complete POISON", "__complete trace summary POISON", "__complete trace split --by POISON", "__complete trace convert --to v",
}

// waits has the flags without which a command does more than print.
var waits = map[string][]string{
	"open": {"--no-browser", "--port", "0"}, "trace watch": {"--once", "--interval", "1ms"}, "trace replay": {"--endpoint", "http://127.0.0.1:1"},
}

// TestPoison checks that no text of a trace, of other files or of their names
// has an effect on the terminal, whichever command prints it. The commands are
// taken from the command tree, so that a new one is tested with every kind of
// file and each of its flags.
func TestPoison(t *testing.T) {
	files := poisonedFiles(t)
	t.Chdir(t.TempDir())
	files["DIR"], files["POISON"] = filepath.Dir(files["TRACE"]), poison
	n := 0
	fill := func(line string) (args []string) {
		n++
		for word := range strings.FieldsSeq(line) {
			if rest, ok := strings.CutPrefix(word, "OUT"); ok {
				word = fmt.Sprintf("out%d%s%s", n, poisonName, rest)
			} else if path, ok := files[word]; ok {
				word = path
			} else if rest, ok := strings.CutPrefix(word, "--POISON"); ok {
				word = "--" + poison + rest
			}
			args = append(args, word)
		}
		return args
	}
	shown := 0
	for _, line := range alike {
		out, errs := cleanRun(t, fill(line)...)
		shown += strings.Count(out+errs, "FORGED")
	}
	if shown < 100 {
		t.Errorf("the poison was printed %d times, want at least 100", shown)
	}
	root := newRoot(&ui.App{})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	all := verbs(root)
	if len(all) < 20 {
		t.Fatalf("there are %d verbs, want at least 20", len(all))
	}
	for _, cmd := range all {
		words := strings.Fields(calledAs(cmd))
		cleanRun(t, append(words, "--help")...)
		if words[0] == "run" || words[0] == "demo" {
			continue // tested by TestRunPoison; the demo reads no file, and would start this test binary as its job
		}
		line := func(more ...string) []string { return slices.Concat(words, waits[calledAs(cmd)], more) }
		for _, what := range []string{"", "TRACE", "TORN", "RANKS", "BYTES", "RECORDS", "PROFILE", "WORDS", "NONE", "JOB", "JOB RECORDS", "DIR"} {
			cleanRun(t, line(fill(what)...)...)
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			value := "=" + poison
			if f.NoOptDefVal != "" {
				value = ""
			}
			cleanRun(t, line(files["TRACE"], "--"+f.Name+value)...)
			if !testing.Short() {
				cleanRun(t, line(files["JOB"], "--"+f.Name+value)...)
			}
		})
	}
	lookAtFiles(t, ".")
}

// lookAtFiles checks all files below a folder that are written for people.
func lookAtFiles(t *testing.T, dir string) {
	t.Helper()
	pages := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !slices.Contains([]string{".html", ".md", ".csv", ".txt"}, filepath.Ext(path)) {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		pages++
		if found := hiddenIn(string(text)); found != "" && found != "a line of its own" { // line breaks have no meaning in HTML
			t.Errorf("%q contains %s, want no control characters", path, found)
		}
		if escape := regexp.MustCompile(`[^\\]\\u00[01]`).FindIndex(text); escape != nil && strings.HasSuffix(path, ".html") {
			t.Errorf("%q contains a control character in its data: %q", path, text[escape[0]:min(escape[1]+30, len(text))])
		}
		return nil
	})
	if err != nil || pages == 0 {
		t.Errorf("found %d pages, want one or more: %v", pages, err)
	}
}

// TestPoisonInJSON checks that JSON output keeps the text of the trace.
func TestPoisonInJSON(t *testing.T) {
	files := poisonedFiles(t)
	out, _ := cleanRun(t, "trace", "events", files["TRACE"], "--json")
	found := 0
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var ev struct {
			Cat, Name string
			Args      map[string]any
		}
		if err := d.Decode(&ev); err == io.EOF { //nolint:errorlint // the decoder returns it bare
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(ev.Cat, poison) && strings.HasSuffix(ev.Name, poison) && ev.Args[poison] == poison {
			found++
		}
	}
	if found == 0 {
		t.Errorf("no event has the name with control characters: %s", out)
	}
}

// TestPoisonInRings checks that an import, and the commands that read its
// output, sanitize the text of a process in its ring buffers.
func TestPoisonInRings(t *testing.T) {
	python := pyrun.Interpreter(t)
	dir := filepath.Join(t.TempDir(), "rings"+strings.ToValidUTF8(poisonName, ""))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	repo, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	const job = `
import os
from trainspan.dftracer.python import ai
ai.pipeline.train.start()
for step in range(3):
    with ai.compute.forward:
        ai.update(args={os.environ["POISON"]: os.environ["POISON"]})
`
	cmd := exec.Command(python, "-c", job)
	cmd.Env = append(os.Environ(), "TRAINSPAN_RING="+dir, "POISON="+poison, "PYTHONPATH="+filepath.Join(repo, "integrations", "python"), "PYTHONDONTWRITEBYTECODE=1", "TRAINSPAN_JOB="+poison, "TRAINSPAN_SESSION_TAG="+poison)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("Python: %v: %s", err, out)
	}
	out := filepath.Join(t.TempDir(), "out"+poisonName)
	text, _ := cleanRun(t, "trace", "import", dir, "-o", out)
	if !strings.Contains(text, "spans of 1 process") {
		t.Errorf("it says %q, want \"spans of 1 process\" in it", text)
	}
	for _, verb := range []string{"trace import", "trace info", "trace events", "trace summary", "trace steps", "trace validate", "report"} {
		cleanRun(t, append(strings.Fields(verb), out)...)
		cleanRun(t, append(strings.Fields(verb), out, "--json")...)
	}
}
