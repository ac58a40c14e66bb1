package setup_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/record/setup"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// TestFilesAreMeasured checks the metrics about what the files of a job contain and what
// they lack.
func TestFilesAreMeasured(t *testing.T) {
	dir := t.TempDir()
	cfg := job()
	cfg.Export = config.Export{Mode: config.ExportAll}
	cfg.Outputs = config.Outputs{
		File:  config.File{Path: filepath.Join(dir, "t.jsonl")},
		Trace: config.Trace{Path: filepath.Join(dir, "t.pfw")},
	}
	b, outputs, err := setup.NewBuilder(t.Context(), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	reader := sdkmetric.NewManualReader()
	tel, err := b.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))).ConfigureProvider(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tel.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	for range 1000 {
		_, s := tel.StartSpan(t.Context(), "x")
		s.End()
	}
	if err := outputs.File.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := outputs.Trace.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	size := func(path string) int64 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	for name, want := range map[string]map[string]int64{
		"trainspan.file.records": {"trace": int64(outputs.Trace.Writer().Stats().Lines), "records": 2000},
		"trainspan.file.written": {"trace": size(outputs.Paths()["trace"]), "records": size(outputs.Paths()["file"])},
		"trainspan.file.lost":    {"trace": 0, "records": 0},
		"trainspan.file.errors":  {"trace": 0, "records": 0},
	} {
		got := byOutput(t, reader, name)
		for output, n := range want {
			if v, ok := got[output]; !ok || v != n {
				t.Errorf("%s of %s is %d (there: %v), want %d", name, output, v, ok, n)
			}
		}
	}
	if n := byOutput(t, reader, "trainspan.file.records")["trace"]; n < 1000 {
		t.Errorf("%d lines in the trace, want at least 1000", n)
	}
}

// byOutput returns the values of a counter by its attribute output.
func byOutput(t *testing.T, reader *sdkmetric.ManualReader, name string) map[string]int64 {
	t.Helper()
	var rm metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &rm); err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	for _, sm := range rm.ScopeMetrics {
		for _, m := range sm.Metrics {
			if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == name {
				for _, p := range sum.DataPoints {
					output, _ := p.Attributes.Value("output")
					out[output.AsString()] = p.Value
				}
			}
		}
	}
	return out
}
