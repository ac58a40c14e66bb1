package telemetry_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/telemetry"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// File calls reach all outputs that want them, also through decorators.
func TestFileLog(t *testing.T) {
	dir := t.TempDir()
	first, second, data := filepath.Join(dir, "first.pfw"), filepath.Join(dir, "second.pfw"), filepath.Join(dir, "data.pfw")
	tel, err := telemetry.NewTrainingTelemetryBuilder().WithBaseConfig(base()).WithLogger(quietLog()).
		WithExporter(&memory{}).
		WithExporter(struct{ outputs.Output }{pfw.New(first, nil)}).
		WithSpanExporter(pfw.New(second, nil)).
		WithExporter(pfw.New(data, &pfw.Options{Files: pfw.FileOptions{Dirs: []string{"/data"}}})).
		WithExporter(pfw.New(filepath.Join(dir, "off.pfw"), &pfw.Options{Files: pfw.FileOptions{Off: true}})).
		ConfigureProvider(context.Background())
	check(t, err)
	log := dispatch.SourceOf(tel.TracerProvider()).FileLog()
	for _, path := range []string{"/data/a", "/tmp/b"} {
		log.File(path).Record(context.Background(), dispatch.FileCall{Op: dispatch.FileRead, Start: log.Now(), Ret: 1, Size: 1, Offset: -1})
	}
	check(t, tel.Shutdown(context.Background()))
	for path, want := range map[string]int{first: 2, second: 2, data: 1} {
		n := 0
		for _, e := range dftest.Events(t, path) {
			if e.Cat == "POSIX" {
				n++
			}
		}
		if n != want {
			t.Errorf("%s has %d calls, want %d", filepath.Base(path), n, want)
		}
	}
}

// Without an output that wants them there is no log.
func TestNoFileLog(t *testing.T) {
	var none *telemetry.Provider
	tel, err := telemetry.NewTrainingTelemetryBuilder().WithBaseConfig(base()).WithLogger(quietLog()).
		WithExporter(&memory{}).WithExporter(pfw.New(filepath.Join(t.TempDir(), "t.pfw"), &pfw.Options{Files: pfw.FileOptions{Off: true}})).
		ConfigureProvider(context.Background())
	check(t, err)
	defer tel.Shutdown(context.Background())
	for _, p := range []*telemetry.Provider{none, tel} {
		if l := dispatch.SourceOf(p.TracerProvider()).FileLog(); l != nil {
			t.Errorf("FileLog() = %T, want nil", l)
		}
	}
}
