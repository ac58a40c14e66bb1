package otlp

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/see"
	"github.com/trainspan/trainspan/internal/settings"
)

// Defaults of the spill directory.
const (
	defaultSpillBytes     = 256 << 20
	defaultSpillFileBytes = 16 << 20
)

// Config says where spans, logs and metrics go and how. The zero Config sends
// spans by http/protobuf to http://localhost:4318/v1/traces.
type Config struct {
	// OTLP holds the settings that a file or the environment can make:
	// protocol, endpoint, headers, compression, timeout, certificates, the size
	// of queue and batches, and the spill directory. Enabled is not looked at.
	config.OTLP

	// TLS is the base of the TLS settings; nil is the system's authorities and
	// no client certificate. Certificates named in OTLP are added to a copy of
	// it. It cannot be combined with an http:// endpoint.
	TLS *tls.Config

	// RetryFor bounds the time in which a batch is tried again; zero is one
	// minute, negative means one attempt only. RetryFirst and RetryMost are the
	// first and the longest pause; zero is 500 ms and 10 s.
	RetryFor, RetryFirst, RetryMost time.Duration

	// QueueBytes bounds the estimated size of the spans that wait. Zero is 64
	// MiB.
	QueueBytes int

	// SpillFileBytes is the size at which the next file of OTLP.SpillDir is
	// begun; zero is 16 MiB. See [Replay].
	SpillFileBytes int64
}

// FromEnv reads the standard OTEL_* variables, and our own TRAINSPAN_OTLP_*
// beside them, through lookup, such as os.LookupEnv. on reports whether they ask for OTLP at all: an endpoint is given
// or OTEL_TRACES_EXPORTER names otlp, and neither that variable nor
// OTEL_SDK_DISABLED forbids it. The error names every variable that cannot be
// used; it shows no header value. Exporters that are unknown go to slog.Default.
func FromEnv(lookup func(string) (string, bool)) (cfg Config, on bool, err error) {
	if lookup == nil {
		lookup = os.LookupEnv
	}
	all, err := config.Load(config.LoadOptions{
		Partial: true,
		LookupEnv: func(name string) (string, bool) {
			if !strings.HasPrefix(name, "OTEL_") && !strings.HasPrefix(name, "TRAINSPAN_OTLP_") {
				return "", false
			}
			return lookup(name)
		},
	})
	if err != nil {
		return Config{}, false, fmt.Errorf("otlp: %w", err)
	}
	for _, w := range all.Warnings {
		slog.Default().Warn("telemetry configuration: "+w.String(), "see", see.Variable)
	}
	if !settings.OTLPActive(&all) {
		return Config{}, false, nil
	}
	cfg = Config{OTLP: all.Outputs.OTLP}
	if err := cfg.validate(); err != nil {
		return Config{}, false, fmt.Errorf("otlp: %w", err)
	}
	return cfg, true, nil
}

// validate names every field that cannot be used.
func (c *Config) validate() error {
	return settings.Validate(&config.Config{Outputs: config.Outputs{OTLP: c.OTLP}}, "outputs.otlp.", "outputs.")
}
