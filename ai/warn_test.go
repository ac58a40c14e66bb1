package ai_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/ai"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/telemetry"
)

// programs run in separate processes, because a warning is logged once per
// process.
var programs = map[string]func(*testing.T){
	"library without telemetry": func(*testing.T) {},
	"library first, then telemetry": func(t *testing.T) {
		useLibrary()
		_, tel, _ := newTree(t, "trace.pfw", nil)
		telemetry.SetDefault(tel)
	},
	"provider that is not the default": func(t *testing.T) { newTree(t, "trace.pfw", nil) },
	"provider that was shut down": func(t *testing.T) {
		_, tel, _ := newTree(t, "trace.pfw", nil)
		_ = tel.Shutdown(context.Background())
	},
	"provider that is off": func(t *testing.T) {
		tel := newProvider(t, func(b *telemetry.TrainingTelemetryBuilder) {
			b.WithConfigOverride(func(b *config.Base) { b.EnableForCurrentRank = config.Value(false) })
		})
		telemetry.SetDefault(tel)
	},
	"provider without a trace": func(t *testing.T) {
		telemetry.SetDefault(newProvider(t, func(b *telemetry.TrainingTelemetryBuilder) { b.WithExporter(&kept{}) }))
	},
	"environment": func(*testing.T) {},
}

// useLibrary acts like a library in a program without telemetry.
func useLibrary() {
	ctx := context.Background()
	for range 3 {
		ai.Compute.Forward.Start(ctx).End()
		for range ai.DataLoader.Fetch.Range(ctx, 2) {
			ai.Comm.AllReduce.Begin(ctx)
			ai.Comm.AllReduce.Stop(ctx)
		}
	}
}

func TestWarnings(t *testing.T) {
	const variable = "TRAINSPAN_TEST_PROGRAM"
	if name := os.Getenv(variable); name != "" {
		programs[name](t)
		useLibrary()
		return
	}
	for name, want := range map[string]string{
		"library without telemetry":        "",
		"library first, then telemetry":    "",
		"provider that is not the default": "no default telemetry provider is set",
		"provider that was shut down":      "",
		"provider that is off":             "",
		"provider without a trace":         "the provider has no trace file",
		"environment":                      "the environment enables tracing",
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestWarnings$") //nolint:gosec // the test itself
			cmd.Env = append(os.Environ(), variable+"="+name, "DFTRACER_ENABLE=0")
			if name == "environment" {
				cmd.Env = append(cmd.Env, "DFTRACER_ENABLE=1")
			}
			var output bytes.Buffer
			cmd.Stdout, cmd.Stderr = &output, &output
			if err := cmd.Run(); err != nil {
				t.Fatalf("child: %v\n%s", err, output.String())
			}
			warnings := strings.Count(output.String(), "WARN ai scopes")
			if want == "" && warnings != 0 || want != "" && (warnings != 1 || !strings.Contains(output.String(), want)) {
				t.Errorf("%d warnings, want %q:\n%s", warnings, want, output.String())
			}
		})
	}
}
