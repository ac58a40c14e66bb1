package dftracer

import (
	"testing"

	"github.com/trainspan/trainspan/internal/tracefile"
)

func TestAProcessIsNamedWithoutItsArguments(t *testing.T) {
	if got := (Process{}).withDefaults(); got.Command != tracefile.Arguments()[0] || got.Exec == "" {
		t.Errorf("process is %+v, want the command without its arguments", got)
	}
}
