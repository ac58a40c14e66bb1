package telemetry

import (
	"context"

	"github.com/trainspan/trainspan/internal/direct"
)

// FileLog returns what records calls on files, which package integrations/iofs
// makes of what a program reads and writes. It is nil when no output wants
// them: a trace file does unless its options switch them off.
func (p *Provider) FileLog() direct.FileLog {
	if p == nil || p.hub == nil {
		return nil
	}
	switch logs := fileLogs(p.hub.FileLogs()); len(logs) {
	case 0:
		return nil
	case 1:
		return logs[0]
	default:
		return logs
	}
}

// fileLogs record calls in several outputs.
type fileLogs []direct.FileLog

// Now implements direct.FileLog.
func (l fileLogs) Now() int64 { return l[0].Now() }

// File implements direct.FileLog.
func (l fileLogs) File(path string) direct.File {
	var files fileList
	for _, one := range l {
		if f := one.File(path); f != nil {
			files = append(files, f)
		}
	}
	if len(files) == 0 {
		return nil
	}
	return files
}

// fileList is one file in several outputs.
type fileList []direct.File

// Record implements direct.File.
func (l fileList) Record(ctx context.Context, call direct.FileCall) {
	for _, f := range l {
		f.Record(ctx, call)
	}
}
