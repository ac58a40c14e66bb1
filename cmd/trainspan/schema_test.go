package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/trainspan/trainspan/docs"
	"github.com/trainspan/trainspan/internal/analyze/compare"
	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

var rewrite = flag.Bool("update", false, "write docs/reference/schema from the types")

// schemas has the types of --json output; for runs, the type of each line.
// That of starts is the output of report if nothing trains.
var schemas = map[string]any{"report": report.Report{}, "compare": compare.Result{}, "runs": runRow{}, "runs-sum": runsSum{}, "starts": untrained{}}

// commented are the packages with the types of the JSON, for their doc
// comments.
var commented = []string{"internal/report", "internal/analyze/compare", "internal/analyze/account", "internal/analyze/straggler", "internal/job", "internal/job/rundir", "internal/analyze/profile"}

// schemaOf returns the schema of a type from its fields, their tags and their
// comments. A strict one allows no other fields; readers should expect more.
func schemaOf(t *testing.T, v any, strict bool) []byte {
	t.Helper()
	types := make(map[string]reflect.Type)
	r := &jsonschema.Reflector{Anonymous: true, AllowAdditionalProperties: !strict, ExpandedStruct: true}
	r.Namer = func(t reflect.Type) string {
		name := t.Name()
		if pkg := filepath.Base(t.PkgPath()); pkg != "report" && name != "" { // two packages have a Verdict
			name = strings.ToUpper(pkg[:1]) + pkg[1:] + name
		}
		types[name] = t
		return name
	}
	r.Mapper = func(t reflect.Type) *jsonschema.Schema {
		if t == reflect.TypeFor[report.Numbers]() { // null if the numbers are unknown
			return &jsonschema.Schema{Type: "array", Items: orNull(&jsonschema.Schema{Type: "number"})}
		}
		return nil
	}
	if !strict {
		for _, pkg := range commented {
			// The two paths are joined to that of the package.
			if err := r.AddGoComments("github.com/trainspan/trainspan/cmd/trainspan", filepath.Join("../..", pkg)); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := r.Reflect(v)
	mayBeNull(s, reflect.TypeOf(v))
	for name, def := range s.Definitions {
		mayBeNull(def, types[name])
	}
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

func orNull(s *jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{s, {Type: "null"}}}
}

// mayBeNull adds null to the fields of a struct that encoding/json may write as
// null, and to those of [report.Steps] that its MarshalJSON does.
func mayBeNull(s *jsonschema.Schema, t reflect.Type) {
	if t == nil || t.Kind() != reflect.Struct || s.Properties == nil {
		return
	}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		p, ok := s.Properties.Get(name)
		if !ok || strings.Contains(options, "omit") {
			continue
		}
		switch kind := f.Type.Kind(); {
		case kind == reflect.Pointer, kind == reflect.Slice, kind == reflect.Map,
			t == reflect.TypeFor[report.Steps]() && strings.Contains("median_ms p99_ms max_ms max_step trend", name):
			text := p.Description
			p.Description = ""
			p = orNull(p)
			p.Description = text
			s.Properties.Set(name, p)
		}
	}
}

func compile(t *testing.T, text []byte) *validator.Schema {
	t.Helper()
	doc, err := validator.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := validator.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSchemaFiles checks that the schemas of the documentation are those of the
// types, and that the help prints them.
func TestSchemaFiles(t *testing.T) {
	for name, v := range schemas {
		want := schemaOf(t, v, false)
		path := filepath.Join("../../docs/reference/schema", name+".json")
		if *rewrite {
			if err := os.WriteFile(path, want, 0o644); err != nil { //nolint:gosec // for everybody
				t.Fatal(err)
			}
			continue // the test compares the files of the build
		}
		got, err := docs.Pages.ReadFile("reference/schema/" + name + ".json")
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("docs/reference/schema/%s.json differs from the schema of the type (%v): run go test . -run Schema -update", name, err)
		}
		if status, out, _ := cli(t, "help", name+".json"); status != 0 || out != string(want) {
			t.Errorf("help %s.json: status %d, want 0 and the schema: %.80s", name, status, out)
		}
		compile(t, want)
	}
}

// TestSchema checks that the output of the commands has the fields of the
// schemas and no others.
func TestSchema(t *testing.T) {
	dir := t.TempDir()
	job := func(name string, a simjob.Attempt) string { return makeJob(t, filepath.Join(dir, name), a) }
	slow := job("slow", simjob.Attempt{Ranks: 4, Steps: 80, Slow: 2, Extra: [4]float64{12}, Save: 20})
	base, fresh := job("base", simjob.Attempt{Ranks: 2, Steps: 60}), job("new", simjob.Attempt{Ranks: 2, Steps: 60, Scale: 1.2})
	killed := job("killed", simjob.Attempt{Ranks: 4, Steps: 60, Killed: true, Save: 10})
	job("killed", simjob.Attempt{Ranks: 4, Steps: 90, Number: 1, First: 50, Async: true})
	few := job("few", simjob.Attempt{Ranks: 1, Steps: 2})
	trace := filepath.Join(dir, "small.pfw.gz")
	check(makeTrace([]string{trace}))
	starts := t.TempDir()
	recordStarts(t, starts)
	profile := "../../internal/ingest/torch/testdata/overlap.json"
	for name, calls := range map[string][][]string{
		"report":  {{slow}, {killed}, {base, "--flops-per-step", "1e12", "--peak", "1e14"}, {few}, {trace}, {profile}, {slow, fresh, "--all"}},
		"compare": {{base, fresh}, {base, base}, {few, slow}, {profile, profile}},
		"runs":    {{dir}, {slow}},
		"starts":  {{starts}},
	} {
		strict, open := compile(t, schemaOf(t, schemas[name], true)), compile(t, schemaOf(t, schemas[name], false))
		for _, args := range calls {
			command := name
			if name == "starts" {
				command = "report"
			}
			_, out, said := cli(t, append([]string{command, "--json"}, args...)...)
			n := 0
			for dec := json.NewDecoder(strings.NewReader(out)); dec.More(); n++ {
				var v any
				if err := dec.Decode(&v); err != nil {
					t.Fatal(err)
				}
				for kind, s := range map[string]*validator.Schema{"strict": strict, "open": open} {
					if err := s.Validate(v); err != nil {
						t.Errorf("%s %s, %s does not follow the schema: %v", name, args, kind, err)
					}
				}
			}
			if n == 0 {
				t.Errorf("%s %s prints nothing, want JSON: %s", name, args, said)
			}
		}
		// The schema rejects output of another form.
		var v any
		if err := json.Unmarshal(fmt.Appendf(nil, `{"version": "one", "id": 5}`), &v); err != nil {
			t.Fatal(err)
		}
		if open.Validate(v) == nil {
			t.Errorf("%s: the schema accepts an unknown value, want an error", name)
		}
	}
}
