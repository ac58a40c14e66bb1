package otlp

import (
	"maps"
	"testing"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/platform/environ"
)

// The token for the receiver of spans is only sent with spans.
func TestTokenGoesWithSpansAlone(t *testing.T) {
	for name, c := range map[string]struct {
		s    signal
		want map[string]string
	}{
		"spans":   {traces, map[string]string{"x-key": "a", environ.TokenHeader: "b"}},
		"logs":    {logs, map[string]string{"x-key": "a"}},
		"metrics": {metrics, map[string]string{"x-key": "a"}},
	} {
		cfg := Config{OTLP: config.OTLP{Endpoint: "http://localhost:4318", Headers: config.Headers{"x-key": "a", environ.TokenHeader: "b"}}}
		if _, err := prepare(&cfg, c.s); err != nil || !maps.Equal(map[string]string(cfg.Headers), c.want) {
			t.Errorf("%s: prepare = %v with headers %v, want %v", name, err, map[string]string(cfg.Headers), c.want)
		}
	}
}
