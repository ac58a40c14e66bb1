package settings

import (
	"errors"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/config"
)

// Validate checks one section of a configuration, such as "outputs.otlp.", of which
// the rest may be missing: it returns nil or a [*config.ValidationError] with the
// problems of that section, whose fields are named without the beginning cut.
func Validate(c *config.Config, section, cut string) error {
	var found *config.ValidationError
	if !errors.As(c.Validate(), &found) {
		return nil
	}
	ours := slices.DeleteFunc(found.Problems, func(p config.Problem) bool { return !strings.HasPrefix(p.Field, section) })
	if len(ours) == 0 {
		return nil
	}
	for i := range ours {
		ours[i].Field = strings.TrimPrefix(ours[i].Field, cut)
	}
	return &config.ValidationError{Problems: ours}
}
