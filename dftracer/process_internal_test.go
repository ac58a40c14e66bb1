package dftracer

import (
	"testing"

	"github.com/trainspan/trainspan/internal/dft"
)

func TestAProcessIsNamedWithoutItsArguments(t *testing.T) {
	if got := (Process{}).withDefaults(); got.Command != dft.Arguments()[0] || got.Exec == "" {
		t.Errorf("%+v", got)
	}
}
