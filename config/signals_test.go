package config_test

import (
	"maps"
	"testing"
	"time"

	"github.com/trainspan/trainspan/config"
)

// A variable for one signal has no effect on another, unless both go to the receiver of the
// spans. Code is for all signals.
func TestVariablesOfOneSignal(t *testing.T) {
	const p = "OTEL_EXPORTER_OTLP_"
	type headers = map[string]string
	for _, tc := range []struct {
		name              string
		env               []string
		code              config.OTLP
		later             func(*config.OTLP)
		traces, logs      headers
		tracesBy, logsBy  string
		tracesFor, logFor time.Duration
	}{
		{
			name:   "traces",
			env:    []string{p + "TRACES_ENDPOINT=https://v/v1/traces", p + "TRACES_HEADERS=api-key=S", p + "TRACES_PROTOCOL=grpc", p + "ENDPOINT=http://agent:4318"},
			traces: headers{"api-key": "S"}, logs: headers{}, tracesBy: "grpc",
		},
		{
			name:   "logs",
			env:    []string{p + "ENDPOINT=http://h", p + "HEADERS=a=1", p + "LOGS_HEADERS=b=2", p + "LOGS_TIMEOUT=100", p + "LOGS_PROTOCOL=grpc", p + "TIMEOUT=200"},
			traces: headers{"a": "1"}, logs: headers{"b": "2"}, logsBy: "grpc", tracesFor: 200 * time.Millisecond, logFor: 100 * time.Millisecond,
		},
		{
			name:   "the receiver of the spans",
			env:    []string{p + "TRACES_ENDPOINT=https://v/v1/traces", p + "TRACES_HEADERS=api-key=S"},
			traces: headers{"api-key": "S"}, logs: headers{"api-key": "S"},
		},
		{
			name:   "an endpoint for logs",
			env:    []string{p + "TRACES_ENDPOINT=https://v/v1/traces", p + "TRACES_HEADERS=api-key=S", p + "LOGS_ENDPOINT=http://agent"},
			traces: headers{"api-key": "S"}, logs: headers{},
		},
		{
			name:   "code",
			env:    []string{p + "ENDPOINT=http://h", p + "TRACES_HEADERS=api-key=S,x=1", p + "TRACES_PROTOCOL=http/protobuf"},
			code:   config.OTLP{Protocol: "grpc", Headers: config.Headers{"x": "2"}},
			traces: headers{"api-key": "S", "x": "2"}, logs: headers{"x": "2"}, tracesBy: "grpc", logsBy: "grpc",
		},
		{
			name: "code after Load",
			env:  []string{p + "ENDPOINT=http://h", p + "TRACES_HEADERS=api-key=S,x=1", p + "TRACES_PROTOCOL=grpc"},
			later: func(o *config.OTLP) {
				o.Headers["x"], o.Headers["y"] = "2", "3"
				o.Timeout = time.Second
			},
			traces: headers{"api-key": "S", "x": "2", "y": "3"}, logs: headers{"x": "2", "y": "3"}, tracesBy: "grpc", tracesFor: time.Second, logFor: time.Second,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg, err := config.Load(config.LoadOptions{
				Partial: true, LookupEnv: config.Environ(tc.env), Code: config.Config{Outputs: config.Outputs{OTLP: tc.code}},
			})
			if err != nil {
				t.Fatal(err)
			}
			if tc.later != nil {
				tc.later(&cfg.Outputs.OTLP)
			}
			cfg = config.Clone(&cfg)
			o := &cfg.Outputs.OTLP
			logs := o.ForLogs()
			if !maps.Equal(o.Headers, tc.traces) || o.Protocol != tc.tracesBy || o.Timeout != tc.tracesFor {
				t.Errorf("traces have %v, %q, %v; want %v, %q, %v", headers(o.Headers), o.Protocol, o.Timeout, tc.traces, tc.tracesBy, tc.tracesFor)
			}
			if !maps.Equal(logs.Headers, tc.logs) || logs.Protocol != tc.logsBy || logs.Timeout != tc.logFor {
				t.Errorf("logs have %v, %q, %v; want %v, %q, %v", headers(logs.Headers), logs.Protocol, logs.Timeout, tc.logs, tc.logsBy, tc.logFor)
			}
		})
	}
}
