package telemetry

import "testing"

// The OpenTelemetry that this module requires looks for a span under one key: without it
// each span needs another context.
func TestSpanKey(t *testing.T) {
	if spanKey == nil {
		t.Error("spanKey = nil, want the key of OpenTelemetry")
	}
}
