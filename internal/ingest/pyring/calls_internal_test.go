package pyring

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// TestConfigurationOfPython reads the configuration of a Python program: an
// unknown key is logged, a value that does not fit is logged and left out, and
// the rest is used.
func TestConfigurationOfPython(t *testing.T) {
	var out bytes.Buffer
	c := calls{log: slog.New(slog.NewTextHandler(&out, nil)), given: values{"base_config": map[string]any{
		"application_name": "app", "session_tagg": "x", "world_size_or_fn": "many", "session_tag_or_fn": "before",
		"functions":        []any{"session_tag_or_fn"},
		"telemetry_config": map[string]any{"seq_lengt": 1.0, "global_batch_size_or_fn": 32.0, "functions": []any{"global_batch_size_or_fn"}},
	}}}
	base := c.base()
	c.answer.Store("session_tag_or_fn", "after")
	if base.ApplicationName != "app" || base.WorldSize.IsSet() || base.SessionTag.Get() != "after" || base.Training.GlobalBatchSize.Get() != 32 {
		t.Errorf("base %+v, training %+v; want application app, tag after, no world size, batch size 32", base, base.Training)
	}
	got := out.String()
	for _, want := range []string{
		`setting="session_tagg: unknown key \"session_tagg\"; did you mean \"session_tag\"?"`,
		`setting="training.seq_lengt: unknown key \"seq_lengt\"; did you mean \"training.seq_length\"?"`,
		`error="config: world_size: must be an integer (got \"many\")"`,
	} {
		if strings.Count(got, want) != 1 {
			t.Errorf("want %s once in\n%s", want, got)
		}
	}
	if n := strings.Count(got, "\n"); n != 3 {
		t.Errorf("%d messages, want 3:\n%s", n, got)
	}
}
