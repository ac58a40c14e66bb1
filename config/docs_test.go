package config_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/record/settings"
)

var update = flag.Bool("update", false, "write the generated tables of the documents and the golden errors")

const reference = "../docs/reference/configuration.md"

// TestReference compares the tables of docs/reference/configuration.md with the
// structs, their tags and their comments. -update writes them.
func TestReference(t *testing.T) {
	compare(t, reference, "settings", referenceTables(t))
}

// compare compares the text between two marks of a document, or writes it.
func compare(t *testing.T, path, mark, want string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	between := regexp.MustCompile(`(?s)(<!-- ` + mark + `: [^\n]*\n)(.*?)(<!-- end of ` + mark + ` -->)`)
	m := between.FindSubmatch(text)
	if m == nil {
		t.Fatalf("%s has no markers for %s", path, mark)
	}
	if string(m[2]) == want {
		return
	}
	if !*update {
		t.Errorf("%s differs from the structs: run go test ./config -update", path)
		return
	}
	text = between.ReplaceAllLiteral(text, []byte(string(m[1])+want+string(m[3])))
	if err := os.WriteFile(path, text, 0o644); err != nil { //nolint:gosec // a document
		t.Fatal(err)
	}
}

func referenceTables(t *testing.T) string {
	docs := comments(t)
	var out strings.Builder
	for _, s := range []struct {
		title, prefix, alias string
		section              any
	}{
		{"The job", "", "", config.Base{}},
		{"The library's own messages", "logger.", "logger_config", config.Logger{}},
		{"Training", "training.", "telemetry_config", config.Training{}},
		{"Which spans are exported", "export.", "", config.Export{}},
		{"The JSON-lines file", "outputs.file.", "", config.File{}},
		{"The trace", "outputs.trace.", "", config.Trace{}},
		{"OTLP", "outputs.otlp.", "", config.OTLP{}},
		{"Prometheus", "outputs.prometheus.", "", config.Prometheus{}},
		{"OpenTelemetry as a whole", "otel.", "", config.OTel{}},
	} {
		typ := reflect.TypeOf(s.section)
		fmt.Fprintf(&out, "\n### %s\n\n", s.title)
		if s.alias != "" {
			fmt.Fprintf(&out, "The section's name in one-logger is `%s`; it is accepted too.\n\n", s.alias)
		}
		out.WriteString("| key | environment | type; default | meaning |\n| --- | --- | --- | --- |\n")
		for i := range typ.NumField() {
			f := typ.Field(i)
			if docs[typ.Name()+"."+f.Name] == "" {
				t.Errorf("%s.%s has no comment", typ.Name(), f.Name)
			}
			if k := f.Type.Kind(); k == reflect.Struct && f.Tag.Get("env") == "" || k == reflect.Pointer {
				continue // it has its own section
			}
			fmt.Fprintf(&out, "| `%s%s`%s | %s | %s%s | %s |\n", s.prefix, f.Tag.Get("key"), accepted(f), variables(f), kind(f), defaultOf(f), meaning(typ, f, docs[typ.Name()+"."+f.Name]))
		}
	}
	return strings.TrimPrefix(out.String(), "\n")
}

// comments returns the comments of the fields of package config, by Type.Field.
func comments(t *testing.T) map[string]string {
	out := map[string]string{}
	for _, name := range []string{"config.go", "outputs.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if s, ok := spec.Type.(*ast.StructType); ok {
					for _, f := range s.Fields.List {
						for _, id := range f.Names {
							out[spec.Name.Name+"."+id.Name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
						}
					}
				}
			}
			return true
		})
	}
	return out
}

// meaning returns the comment of a field without the field's name, in the words
// of files.
func meaning(section reflect.Type, f reflect.StructField, doc string) string {
	text := strings.TrimPrefix(doc, f.Name+" ")
	for _, verb := range []string{"is ", "are "} {
		text = strings.TrimPrefix(text, verb)
	}
	for i := range section.NumField() {
		other := section.Field(i)
		text = regexp.MustCompile(`([a-z] )`+other.Name+`\b`).ReplaceAllString(text, "$1`"+other.Tag.Get("key")+"`")
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

func kind(f reflect.StructField) string {
	words := map[reflect.Type]string{
		reflect.TypeFor[config.Var[string]]():   "text or func",
		reflect.TypeFor[config.Var[int]]():      "integer or func",
		reflect.TypeFor[config.Var[bool]]():     "bool or func",
		reflect.TypeFor[config.Var[[]string]](): "list or func",
		reflect.TypeFor[[]string]():             "list",
		reflect.TypeFor[config.Metadata]():      "mapping",
		reflect.TypeFor[config.Headers]():       "mapping of texts",
		reflect.TypeFor[time.Duration]():        "duration",
		reflect.TypeFor[int]():                  "integer",
	}
	word := words[f.Type]
	if word == "" {
		word = "text"
	}
	for rule := range strings.SplitSeq(f.Tag.Get("rule"), ",") {
		switch name, arg, _ := strings.Cut(rule, "="); name {
		case "min":
			base, fn := strings.CutSuffix(word, " or func")
			if word = base + " ≥ " + arg; fn {
				word += " or func"
			}
		case "oneof":
			word = "`" + strings.ReplaceAll(arg, "|", "`, `") + "`"
		case "keys":
			word += " without blank keys"
		case "path":
			word = "path"
		}
	}
	return word
}

// defaultOf returns the default after a semicolon, empty if there is none.
func defaultOf(f reflect.StructField) string {
	if text := f.Tag.Get("default"); text != "" {
		return "; " + text
	}
	return ""
}

// accepted returns the other names of a key. The page has a rule for those of one-logger that
// only end in _or_fn.
func accepted(f reflect.StructField) string {
	words := ""
	if alias := f.Tag.Get("alias"); alias != "" && alias != f.Tag.Get("key")+"_or_fn" {
		words += ", `" + alias + "`"
	}
	if theirs := f.Tag.Get("dftracer"); theirs != "" {
		words += "; DFTracer: `" + strings.ReplaceAll(theirs, ",", "`, `") + "`"
	}
	return words
}

func variables(f reflect.StructField) string {
	names, as, _ := strings.Cut(f.Tag.Get("env"), ":")
	if as == "launcher" {
		names = strings.Join(identity.WorldSizes(), ",")
	}
	note := map[string]string{"ms": " (ms)", "not": " (inverted)", "dirs": " (separated by `:`)"}[as]
	switch f.Type {
	case reflect.TypeFor[config.Metadata](), reflect.TypeFor[config.Headers]():
		note = " (pairs)"
	case reflect.TypeFor[[]string](), reflect.TypeFor[config.Var[[]string]]():
		if note == "" {
			note = " (list)"
		}
	}
	return "`" + strings.ReplaceAll(names, ",", "`, `") + "`" + note
}

// TestDefaultsAreAsDocumented sets each field to its documented default in a
// file, and compares the result with no configuration at all.
func TestDefaultsAreAsDocumented(t *testing.T) {
	cfg := config.Config{Base: config.Base{ApplicationName: "a", Training: &config.Training{}}}
	cfg.Base = cfg.WithDefaults(config.Ranks{})
	cfg.Outputs.Trace, cfg.Outputs.OTLP = settings.Trace(cfg.Outputs.Trace), settings.OTLP(cfg.Outputs.OTLP)
	holds, compared := flatten(&cfg), 0
	for key, text := range config.DefaultTexts() {
		got := holds[key]
		if got == "" || got == "unset" || got == "0" || got == "[]" || strings.Contains(text, " ") && !strings.Contains(text, "%") {
			continue // applied at use, or described in words
		}
		sections := strings.Split(key, ".")
		last := len(sections) - 1
		src := map[string]any{sections[last]: text}
		for i := last - 1; i >= 0; i-- {
			src = map[string]any{sections[i]: src}
		}
		documented, unknown, err := config.Decode[config.Config](src, "")
		if err != nil || len(unknown) > 0 {
			t.Errorf("%s: the default %q cannot be read: %v, %v", key, text, unknown, err)
			continue
		}
		if want := flatten(&documented)[key]; got != want {
			t.Errorf("%s without any source is %q, want the documented default %q", key, got, want)
		}
		compared++
	}
	if compared < 10 {
		t.Errorf("only %d defaults are compared, want at least 10", compared)
	}
}

// TestDocumentedFileIsAccepted loads the example of the document.
func TestDocumentedFileIsAccepted(t *testing.T) {
	data, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "```yaml\n")
	text, _, _ := strings.Cut(rest, "```")
	cfg := mustLoad(t, config.LoadOptions{Path: write(t, "job.yaml", text), LookupEnv: config.Environ(nil)})
	if !settings.FileActive(&cfg) || !settings.TraceActive(&cfg) || !settings.OTLPActive(&cfg) {
		t.Errorf("outputs %+v, want all three on", cfg.Outputs)
	}
}
