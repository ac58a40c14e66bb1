package dftracerexporter

import (
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// What follows the program on a command line can hold secrets.
func TestNoArgumentsReachTheTrace(t *testing.T) {
	attrs := pcommon.NewMap()
	attrs.PutStr("process.executable.path", "/usr/bin/python3")
	attrs.PutStr("process.command_line", "python3 train.py --pwd S3CRET")
	args := attrs.PutEmptySlice("process.command_args")
	for _, arg := range []string{"python3", "train.py", "--pwd", "S3CRET"} {
		args.AppendEmpty().SetStr(arg)
	}
	var id identity
	if got := id.process(attrs); got.Command != "python3" || got.Exec != "python3" {
		t.Errorf("%+v", got)
	}
	attrs.PutStr("process.command", "/usr/bin/python3")
	if got := id.process(attrs); got.Command != "/usr/bin/python3" {
		t.Errorf("%+v", got)
	}
}
