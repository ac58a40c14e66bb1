package dft

import (
	"bytes"
	"fmt"
)

// LineError says why a line of a trace was skipped.
type LineError struct {
	Line int // counted from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns the reason.
func (e *LineError) Unwrap() error { return e.Err }

// TrimLine removes what may surround a record: blanks, commas of writers
// that separate records, and the framing brackets.
func TrimLine(line []byte) []byte {
	if n := len(line); n > 1 && line[0] == '{' && line[n-1] == '}' {
		return line
	}
	line = bytes.TrimSpace(line)
	line = bytes.TrimSuffix(line, []byte(","))
	switch string(line) {
	case "[", "]", "][", "{", "}":
		return nil
	}
	return line
}

// GuessDialect returns the dialect of a line that was parsed into ev; before is that of the lines before it.
func GuessDialect(line []byte, ev *Event, before Dialect) Dialect {
	if bytes.Contains(line, []byte(`"ph":"`)) {
		if ev.HostHash != "" && bytes.Contains(line, []byte(`"hhash":"`)) {
			return V2
		}
		if ev.HostHash != "" {
			return V1
		}
		return before
	}
	if bytes.Contains(line, []byte(`"ph":`+string(rune('0'+ev.Phase)))) {
		return V22
	}
	return before
}
