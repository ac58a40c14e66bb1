package file_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/file"
	"github.com/trainspan/trainspan/telemetry"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

func TestPath(t *testing.T) {
	dir := t.TempDir()
	pattern := filepath.Join(dir, "deep", "{host}", "r{rank}.p{pid}.jsonl")
	e := file.New(pattern, nil)
	if e.Path() != pattern {
		t.Errorf("before the start: %s, want %s", e.Path(), pattern)
	}
	if err := attach(e, identity); err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(dir, "deep", "node_1", "r3.p4242.jsonl")
	if e.Path() != want {
		t.Errorf("Path() = %s, want %s", e.Path(), want)
	}
	export(t, e, dataError("x"))
	shutdown(t, e)
	if e.Path() != want {
		t.Errorf("after the shutdown: %s, want %s", e.Path(), want)
	}
	info, err := os.Stat(want)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode&^0o644 != 0 || mode&0o600 != 0o600 {
		t.Errorf("mode of the file is %o, want readable and writable by the owner, at most 644", mode)
	}
}

func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"no path":             "",
		"unknown placeholder": filepath.Join(dir, "t-{rankk}.jsonl"),
		"a folder":            dir,
		"a file for a folder": filepath.Join(plain, "t.jsonl"),
	} {
		e := file.New(path, nil)
		if err := attach(e, identity); err == nil || !strings.HasPrefix(err.Error(), "file: ") {
			t.Errorf(`%s: attach() = %v, want an error that begins with "file: "`, name, err)
		}
		if err := e.Write([]outputs.Record{*dataError("x")}); err == nil {
			t.Errorf("%s: Write after a failed start: no error, want one", name)
		}
		shutdown(t, e)
	}
}

func TestStartTwice(t *testing.T) {
	path := temporary(t)
	e := started(t, path, nil)
	if err := attach(e, identity); err == nil {
		t.Error("a second start succeeds, want an error")
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("after the refused start: files %v, %v; want one file", entries, err)
	}
	export(t, e, dataError("still works"))
}

// TestAnEarlierFileIsKept runs a job several times.
func TestAnEarlierFileIsKept(t *testing.T) {
	for _, options := range []file.Options{{}, {Compat: true}, {Append: true}} {
		path := temporary(t)
		var other []string
		options.OnPath = func(path string) { other = append(other, filepath.Base(path)) }
		for range 3 {
			e := started(t, path, &options)
			export(t, e, dataError("x"))
			shutdown(t, e)
		}
		want, first := []string{"t.run2.jsonl", "t.run3.jsonl"}, 1
		if options.Append {
			want, first = nil, 3
		}
		if !slices.Equal(other, want) {
			t.Errorf("%+v: reports %v, want %v", options, other, want)
		}
		if got := decode(t, contents(t, path)); len(got) != first || got[0].Count != 1 {
			t.Errorf("%+v: %d records, want %d", options, len(got), first)
		}
		for _, name := range want {
			counted(t, decode(t, contents(t, filepath.Join(filepath.Dir(path), name))), 1)
		}
	}
}

func TestTornLastLine(t *testing.T) {
	const whole = `{"type":"stop","count":1}`
	for _, c := range []struct{ name, before, kept string }{
		{"whole lines", whole + "\n", whole + "\n"},
		{"torn line", whole + "\n" + whole[:15], whole + "\n"},
		{"torn at its beginning", whole + "\n{\"ty", whole + "\n"},
		{"torn first line", whole[:20], ""},
		{"a line without its end", whole, whole + "\n"},
		{"something that is not ours", "text", "text\n"},
		{"a long torn line", whole + "\n" + `{"type":"` + strings.Repeat("x", 1<<20), whole + "\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := temporary(t)
			if err := os.WriteFile(path, []byte(c.before), 0o644); err != nil {
				t.Fatal(err)
			}
			e := started(t, path, &file.Options{Append: true})
			export(t, e, dataError("after"))
			shutdown(t, e)
			rest, ok := strings.CutPrefix(contents(t, path), c.kept)
			if !ok {
				t.Fatal("complete records were lost, want them kept")
			}
			counted(t, decode(t, rest), 1)
		})
	}
}

func TestTwoExportersOnOnePath(t *testing.T) {
	for _, compat := range []bool{false, true} {
		path := temporary(t)
		options := &file.Options{Compat: compat}
		options.Append = true // the lock protects it
		first := started(t, path, options)
		second := started(t, path, options)
		if want := strings.TrimSuffix(path, ".jsonl") + ".run2.jsonl"; second.Path() != want {
			t.Fatalf("Path() of the second exporter = %s, want %s", second.Path(), want)
		}
		for range 100 {
			export(t, first, dataError("first"))
			export(t, second, dataError("second"))
		}
		shutdown(t, second)
		shutdown(t, first)
		for _, e := range []*file.Exporter{first, second} {
			counted(t, decode(t, contents(t, e.Path())), 100)
		}
		again := started(t, path, options) // the path is free again
		if again.Path() != path {
			t.Errorf("Path() = %s after the others are shut down, want %s", again.Path(), path)
		}
	}
}

func TestDevice(t *testing.T) {
	for _, compat := range []bool{false, true} {
		e := started(t, os.DevNull, &file.Options{Compat: compat})
		export(t, e, dataError("x"))
		shutdown(t, e)
	}
}

// failingExporter makes ConfigureProvider fail once.
type failingExporter struct {
	outputs.None
	failed bool
}

func (f *failingExporter) Open(context.Context, *outputs.Telemetry) (outputs.Traits, error) {
	if !f.failed {
		f.failed = true
		return outputs.Traits{}, errors.New("not yet")
	}
	return outputs.Traits{Ordered: true}, nil
}

func TestBuilderRetries(t *testing.T) {
	for _, compat := range []bool{false, true} {
		path := temporary(t)
		e := file.New(path, &file.Options{Compat: compat})
		b := telemetry.NewTrainingTelemetryBuilder().
			WithBaseConfig(config.Base{ApplicationName: "app", SessionTag: config.Value("s"), WorldSize: config.Value(1)}).
			WithExporter(e).
			WithExporter(&failingExporter{})
		if _, err := b.ConfigureProvider(context.Background()); err == nil {
			t.Fatal("the first ConfigureProvider succeeds, want an error")
		}
		p, err := b.ConfigureProvider(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if e.Path() != path {
			t.Errorf("the retry writes %s, want %s", e.Path(), path)
		}
		if err := p.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(filepath.Dir(path))
		if err != nil || len(entries) != 0 { // there was no record
			t.Errorf("files after the retries: %v, %v; want none", entries, err)
		}
	}
}

func TestLifecycle(t *testing.T) {
	e := file.New(temporary(t), nil)
	if err := e.Write([]outputs.Record{*dataError("x")}); err == nil {
		t.Error("Write before the start succeeds, want an error")
	}
	if err := e.Flush(); err != nil {
		t.Errorf("Flush before the start: %v", err)
	}
	shutdown(t, e)
	if err := attach(e, identity); err != nil {
		t.Fatal(err)
	}
	if err := e.Write([]outputs.Record{{Kind: outputs.KindStop}}); err == nil {
		t.Error("Export accepted a stop without a span, want an error")
	}
	export(t, e, dataError("x"))
	done := make(chan error)
	for range 4 {
		go func() { done <- e.Shutdown(context.Background()) }()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Errorf("concurrent shutdown: %v", err)
		}
	}
	if err := e.Write([]outputs.Record{*dataError("x")}); err == nil || !strings.Contains(err.Error(), "shut down") {
		t.Errorf(`Write after the shutdown: %v, want an error with "shut down"`, err)
	}
	counted(t, decode(t, contents(t, e.Path())), 1)
}
