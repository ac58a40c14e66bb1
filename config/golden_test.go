package config_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/record/settings"
)

// refused is a configuration that must be refused, and the reason.
type refused struct {
	Name, Field, Message string
	Config               json.RawMessage
}

func TestRefusedConfigs(t *testing.T) {
	data, err := os.ReadFile("testdata/refused.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []refused
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			_, err := load(c.Config)
			var invalid *config.ValidationError
			if !errors.As(err, &invalid) {
				t.Fatalf("error = %v, want a *ValidationError", err)
			}
			if len(invalid.Problems) != 1 {
				t.Errorf("problems = %q, want one", invalid.Problems)
			}
			p := invalid.Problems[0]
			if p.Field != c.Field || !strings.Contains(p.Message, c.Message) {
				t.Errorf("problem = %+v, want field %q and message %q", p, c.Field, c.Message)
			}
			if !strings.Contains(err.Error(), c.Field) {
				t.Errorf("error %q, want the field %s in it", err, c.Field)
			}
		})
	}
}

// load reads and validates one-logger's configurations like a caller.
func load(src any) (config.Base, error) {
	switch text := src.(type) {
	case string:
		src = []byte(text)
	case json.RawMessage:
		src = []byte(text)
	}
	b, _, err := config.Decode[config.Base](bytesOf(src), "config")
	if err != nil {
		return b, err
	}
	return b, b.Validate()
}

// required returns an error for fields that one-logger requires and that have a
// default here.
func required(b *config.Base) error {
	t := b.Training
	if !b.SessionTag.IsSet() || !b.WorldSize.IsSet() || t != nil && (!t.PerfTag.IsSet() && !t.PerfTags.IsSet() || !t.GlobalBatchSize.IsSet()) {
		return errors.New("required by the reference")
	}
	return nil
}

// builderStep is one call of a scenario; only calls of the builder matter here.
type builderStep struct {
	Call string
	Args struct {
		Config json.RawMessage
		Mode   string
		Filter []string `json:"span_name_filter"`
	}
}

type outcome struct{ Outcome string }

// replayBuilder checks every base configuration, and every combination of base,
// overrides and export filter, against one-logger's result.
func replayBuilder(t *testing.T, name string, steps []builderStep, results []outcome) (seen int) {
	var base, overrides map[string]any // with one-logger's keys
	var export *config.Export
	for i, step := range steps {
		var err error
		switch step.Call {
		case "provider.with_base_config":
			if base != nil {
				continue // refused because it is the second one
			}
			var b config.Base
			given := goValue(t, step.Args.Config)
			if b, err = load(given); err == nil {
				err = required(&b)
			}
			if err == nil {
				base = given.(map[string]any)
			}
		case "provider.with_config_override":
			overrides = merged(overrides, goValue(t, step.Args.Config).(map[string]any))
			continue
		case "provider.with_export_customization":
			if export == nil {
				export = &config.Export{Mode: step.Args.Mode, SpanNames: step.Args.Filter}
			}
			continue
		case "provider.configure_provider":
			if base == nil && overrides == nil {
				continue // refused because a configuration is missing
			}
			err = configure(merged(base, overrides), export)
		default:
			continue
		}
		seen++
		if accepted := results[i].Outcome == "ok"; (err == nil) != accepted {
			t.Errorf("%s step %d %s: error %v, want it accepted as by the reference: %v", name, i, step.Call, err, accepted)
		}
	}
	return seen
}

// merged applies overrides to a configuration as one-logger does: an object
// changes only the keys it has.
func merged(base, over map[string]any) map[string]any {
	out := maps.Clone(base)
	if out == nil {
		out = map[string]any{}
	}
	for key, value := range over {
		a, _ := out[key].(map[string]any)
		if b, ok := value.(map[string]any); ok {
			value = merged(a, b)
		}
		out[key] = value
	}
	return out
}

func configure(src map[string]any, export *config.Export) error {
	base, _, err := config.Decode[config.Base](src, "")
	if err != nil {
		return err
	}
	if export == nil {
		export = &config.Export{}
	}
	return errors.Join(base.Validate(), settings.Validate(&config.Config{Export: *export}, "export.", "export."), required(&base))
}

// TestReferenceScenarios replays the configurations of recorded scenarios.
func TestReferenceScenarios(t *testing.T) {
	paths, _ := filepath.Glob("../../shared/golden/one-logger/*/scenario.json")
	if len(paths) == 0 {
		t.Skip("no recorded scenarios in ../shared")
	}
	seen := 0
	for _, path := range paths {
		dir := filepath.Dir(path)
		var scenario struct {
			Provider struct {
				Config    json.RawMessage   `json:"base_config"`
				Overrides []json.RawMessage `json:"overrides"`
			}
			Steps []builderStep
		}
		var result struct{ Steps []outcome }
		if !readJSON(t, filepath.Join(dir, "scenario.json"), &scenario) || !readJSON(t, filepath.Join(dir, "result.json"), &result) {
			continue
		}
		name := filepath.Base(dir)
		if scenario.Provider.Config != nil {
			whole := goValue(t, scenario.Provider.Config).(map[string]any)
			for _, o := range scenario.Provider.Overrides {
				whole = merged(whole, goValue(t, o).(map[string]any))
			}
			if _, err := load(whole); err != nil {
				t.Errorf("%s: refused: %v", name, err)
			}
			seen++
		}
		seen += replayBuilder(t, filepath.Base(dir), scenario.Steps, result.Steps[len(result.Steps)-len(scenario.Steps):])
	}
	if seen < 16 {
		t.Errorf("only %d configurations seen, want at least 16", seen)
	}
}

func TestReferenceAcceptsLaxNumbers(t *testing.T) {
	b, err := load(`{"application_name": "a", "session_tag_or_fn": "s", "world_size_or_fn": 8, "telemetry_config": {
		"perf_tag_or_fn": "p", "global_batch_size_or_fn": 32, "world_size_or_fn": 9,
		"seq_length_or_fn": "512", "micro_batch_size_or_fn": 4.0, "custom_metadata": {}}}`)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.Training.SeqLength.Get(); got != 512 {
		t.Errorf("seq length = %d, want 512", got)
	}
	if got := b.Training.MicroBatchSize.Get(); got != 4 {
		t.Errorf("micro batch size = %d, want 4", got)
	}
}

func readJSON(t *testing.T, path string, v any) bool {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return false
	}
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		t.Errorf("%s: %v", path, err)
	}
	return err == nil
}

// goValue parses a scenario's value; {"$fn": v} becomes a function.
func goValue(t *testing.T, data []byte) any {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return withFunctions(v)
}

func withFunctions(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if result, ok := v["$fn"]; ok && len(v) == 1 {
			result = withFunctions(result)
			return func() any { return result }
		}
		for key := range v {
			v[key] = withFunctions(v[key])
		}
	case []any:
		return slices.Collect(func(yield func(any) bool) {
			for _, item := range v {
				if !yield(withFunctions(item)) {
					return
				}
			}
		})
	}
	return v
}
