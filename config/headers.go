package config

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/secret"
)

// Headers are the request headers of an output, by name. They often carry
// secrets, so printing, logging or marshalling a Headers shows the names and
// hides the values. Read the values through the map.
type Headers map[string]string

// Format writes the names, whatever the verb.
func (h Headers) Format(f fmt.State, _ rune) {
	// A fmt.State reports write errors to nobody.
	_, _ = io.WriteString(f, h.names())
}

// MarshalText writes the names, for encoding/json, YAML and log/slog.
func (h Headers) MarshalText() ([]byte, error) { return []byte(h.names()), nil }

func (h Headers) names() string {
	parts := make([]string, 0, len(h))
	for _, name := range slices.Sorted(maps.Keys(h)) {
		parts = append(parts, name+"="+secret.Hidden)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
