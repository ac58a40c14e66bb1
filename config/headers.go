package config

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
)

// redacted stands for every header value in print.
const redacted = "REDACTED"

// Headers are the request headers of an output, by name. They often carry
// secrets, so printing, logging or marshalling a Headers shows the names and
// hides the values. Read the values through the map.
type Headers map[string]string

// String lists the names.
func (h Headers) String() string {
	parts := make([]string, 0, len(h))
	for _, name := range slices.Sorted(maps.Keys(h)) {
		parts = append(parts, name+"="+redacted)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// GoString lists the names.
func (h Headers) GoString() string { return "config.Headers" + h.String() }

// Format lists the names, whatever the verb.
func (h Headers) Format(f fmt.State, verb rune) {
	s := h.String()
	if verb == 'v' && f.Flag('#') {
		s = h.GoString()
	}
	// A fmt.State reports write errors to nobody.
	_, _ = io.WriteString(f, s)
}

// LogValue lists the names.
func (h Headers) LogValue() slog.Value { return slog.StringValue(h.String()) }

// MarshalJSON writes the names, each with a placeholder for its value.
func (h Headers) MarshalJSON() ([]byte, error) { return json.Marshal(h.hidden()) }

// MarshalYAML writes the names, each with a placeholder for its value.
func (h Headers) MarshalYAML() (any, error) { return h.hidden(), nil }

func (h Headers) hidden() map[string]string {
	if h == nil {
		return nil
	}
	out := make(map[string]string, len(h))
	for name := range h {
		out[name] = redacted
	}
	return out
}
