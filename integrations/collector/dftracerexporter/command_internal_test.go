package dftracerexporter

import (
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile/place"
	"go.opentelemetry.io/collector/pdata/pcommon"
)

// The arguments of a command line can hold secrets.
func TestNoArgumentsReachTheTrace(t *testing.T) {
	attrs := pcommon.NewMap()
	attrs.PutStr("process.executable.path", "/usr/bin/python3")
	attrs.PutStr("process.command_line", "python3 train.py --pwd S3CRET")
	args := attrs.PutEmptySlice("process.command_args")
	for _, arg := range []string{"python3", "train.py", "--pwd", "S3CRET"} {
		args.AppendEmpty().SetStr(arg)
	}
	process := func() dftracer.Process {
		var opts dftracer.Options
		about(&opts, &place.Sender{PID: 7}, attrs)
		return opts.Process
	}
	if got := process(); got.Command != "python3" || got.Exec != "python3" {
		t.Errorf("process() = %+v, want python3 without arguments", got)
	}
	attrs.PutStr("process.command", "/usr/bin/python3")
	if got := process(); got.Command != "/usr/bin/python3" {
		t.Errorf("process() = %+v, want /usr/bin/python3", got)
	}
}
