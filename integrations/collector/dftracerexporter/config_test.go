package dftracerexporter

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"
)

func load(t *testing.T, name string) *Config {
	t.Helper()
	all, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	sub, err := all.Sub(name)
	if err != nil {
		t.Fatal(err)
	}
	cfg := NewFactory().CreateDefaultConfig()
	if err := sub.Unmarshal(cfg); err != nil {
		t.Fatal(err)
	}
	return cfg.(*Config)
}

func TestDefaultConfig(t *testing.T) {
	cfg := NewFactory().CreateDefaultConfig()
	if err := componenttest.CheckConfigStruct(cfg); err != nil {
		t.Error(err)
	}
	if err := confmap.Validate(cfg); err == nil || !strings.Contains(err.Error(), "directory is required") {
		t.Errorf(`Validate of the default configuration = %v, want "directory is required"`, err)
	}
	cfg = load(t, "dftracer")
	if err := confmap.Validate(cfg); err != nil {
		t.Error(err)
	}
	got := cfg.(*Config).options()
	if got.Dialect != dftracer.V2 || got.Compression != dftracer.CompressAuto || got.FlushInterval != time.Second {
		t.Errorf("options %+v, want dialect 2, compression auto, a flush each second", got)
	}
}

func TestFullConfig(t *testing.T) {
	cfg := load(t, "dftracer/full")
	if err := confmap.Validate(cfg); err != nil {
		t.Fatal(err)
	}
	got := cfg.options()
	want := dftracer.Options{
		Dialect: dftracer.V22, Compression: dftracer.CompressSingle, Level: 6, MemberSize: 4 << 20,
		FlushInterval: 5 * time.Second, Sync: dftracer.SyncOnClose, RotateSize: 1 << 30, Existing: dftracer.ExistingFail,
	}
	if got.Dialect != want.Dialect || got.Compression != want.Compression || got.Level != want.Level ||
		got.MemberSize != want.MemberSize || got.FlushInterval != want.FlushInterval || got.Sync != want.Sync ||
		got.RotateSize != want.RotateSize || got.Existing != want.Existing {
		t.Errorf("options are\n%+v, want\n%+v", got, want)
	}
	if cfg.MaxOpenFiles != 16 || cfg.IdleTimeout != time.Hour || cfg.OrderWindow != 10*time.Second ||
		cfg.MaxWaitingSpans != 100 || cfg.MaxParents != 200 || !cfg.TraceIDs || cfg.Retry.Enabled || !cfg.Queue.HasValue() {
		t.Errorf("configuration %+v is not the one of testdata", cfg)
	}
	if plain := load(t, "dftracer/plain"); plain.Validate() != nil || plain.options().Compression != dftracer.CompressNone {
		t.Errorf("Validate of plain text = %v, want no error and no compression", plain.Validate())
	}
}

func TestEveryMistakeIsNamed(t *testing.T) {
	err := component.Config(load(t, "dftracer/bad")).(confmap.Validator).Validate()
	if err == nil {
		t.Fatal("Validate of a wrong configuration: no error, want one")
	}
	for _, part := range []string{
		"directory is required", "{gpu}", `dialect "v3" is not one of V1, V2, V22`, `compression "zip"`, "compression_level is 12",
		"member_size is -1", "flush_interval is -1s", `sync "sometimes"`, "rotate_size is -1", "max_open_files is 0",
		"idle_timeout 1s is shorter than order_window 2s", "max_waiting_spans is 0", "max_parents is 0",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("want %s in the error %v", part, err)
		}
	}
}

func TestFileNames(t *testing.T) {
	for name, part := range map[string]string{
		"":                        "empty",
		"../trace.pfw.gz":         "outside of the directory",
		"/abs/trace.pfw":          "outside of the directory",
		"trace.json":              "must end in",
		".pfw.gz":                 "must end in",
		"trace-{rank.pfw":         "brace",
		"trace-{job}.pfw":         "{job}",
		"trace-{rank}.pfw.gz":     "",
		"{host}/trace-{pid}.pfw":  "",
		"{service}{rank}.pfw.gz":  "",
		"a/../trace-{rank}.pfw":   "",
		"a/../../trace-{pid}.pfw": "outside of the directory",
	} {
		cfg := Config{FileName: name}
		err := cfg.validateFileName()
		switch {
		case part == "" && err != nil:
			t.Errorf("file name %q: %v, want no error", name, err)
		case part != "" && (err == nil || !strings.Contains(err.Error(), part)):
			t.Errorf("%q: %v, want a word of %q", name, err, part)
		}
	}
	for _, c := range []Config{{FileName: "t.pfw.gz", Compression: "none"}, {FileName: "t.pfw", Compression: "members"}} {
		if err := c.validateFileName(); err == nil {
			t.Errorf("file name %s with compression %s is accepted, want an error", c.FileName, c.Compression)
		}
	}
}

func TestPlainTextDoesNotRotate(t *testing.T) {
	cfg := load(t, "dftracer/plain")
	cfg.RotateSize = 1 << 20
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "rotate_size needs compression") {
		t.Errorf(`Validate() = %v, want "rotate_size needs compression"`, err)
	}
}
