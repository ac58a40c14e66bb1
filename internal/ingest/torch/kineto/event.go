package kineto

import (
	"bytes"
	"unicode/utf8"
)

// Event is one element of traceEvents. Its slices point into the reader's
// window and are valid until the next call of Reader.Next.
type Event struct {
	// Offset is the position of the event's opening brace in the decompressed
	// stream.
	Offset int64
	// Phase is the Chrome phase: X, i, M, s, f, C, B or E; zero if absent.
	Phase byte
	// Cat is the raw category, nil if absent.
	Cat []byte
	// PID and TID are the process and thread columns.
	PID, TID ID
	// TS and Dur are nanoseconds. TS is as written: the base of a relative file is
	// in Info and may only be known after the last event.
	TS, Dur int64
	// HasTS is false if there is no time.
	HasTS bool
	// Flow is the raw id of a flow event, nil for other events.
	Flow []byte
	// Args holds the raw bytes of the args object, nil if absent.
	Args Args

	rawName           []byte
	scratch           []byte
	scanned           int // in a damaged event: how far it was read
	inexact, fraction bool
}

func (ev *Event) reset(offset int64) {
	*ev = Event{Offset: offset, scratch: ev.scratch[:0]}
}

// RawName returns the raw name, including escapes.
func (ev *Event) RawName() []byte { return ev.rawName }

// Name returns the name with its escapes resolved. Invalid UTF-8 and raw
// control characters are kept; see Clean.
func (ev *Event) Name() []byte {
	if bytes.IndexByte(ev.rawName, '\\') < 0 {
		return ev.rawName
	}
	ev.scratch = appendUnescaped(ev.scratch[:0], ev.rawName)
	return ev.scratch
}

// End returns TS plus Dur.
func (ev *Event) End() int64 { return ev.TS + ev.Dur }

// Clone returns a copy that stays valid.
func (ev *Event) Clone() *Event {
	c := *ev
	c.Cat, c.Flow, c.Args, c.rawName, c.scratch = bytes.Clone(ev.Cat), bytes.Clone(ev.Flow), bytes.Clone(ev.Args), bytes.Clone(ev.rawName), nil
	c.PID.Text, c.TID.Text = bytes.Clone(ev.PID.Text), bytes.Clone(ev.TID.Text)
	return &c
}

// Clean returns b as valid UTF-8 text without control characters, and whether
// anything had to be replaced by U+FFFD or a space.
func Clean(b []byte) (string, bool) {
	ok := true
	for _, c := range b {
		if c < 0x20 || c >= 0x80 {
			ok = false
			break
		}
	}
	if ok {
		return string(b), false
	}
	out := make([]byte, 0, len(b)+8)
	changed := false
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && n <= 1:
			out = append(out, "\uFFFD"...)
			changed = true
		case r < 0x20 || r == 0x7f:
			out = append(out, ' ')
			changed = true
		default:
			out = append(out, b[:n]...)
		}
		b = b[n:]
	}
	return string(out), changed
}

// ID is a pid or tid column: an integer, an integer in quotes (torch 1.9), or
// a word such as "stream 7", "Spans" or "CPU functions".
type ID struct {
	// Num is the integer value; for "stream 7" it is 7.
	Num int64
	// IsNum is true if the column was an integer, quoted or not.
	IsNum bool
	// Stream is true for the form "stream N" of torch 1.9 device rows.
	Stream bool
	// Text is the column without its quotes.
	Text []byte
}

func makeID(v []byte) ID {
	text := unquote(v)
	if n, ok := parseInt(text); ok {
		return ID{Num: n, IsNum: true, Text: text}
	}
	if rest, ok := bytes.CutPrefix(text, []byte("stream ")); ok {
		if n, ok := parseInt(rest); ok {
			return ID{Num: n, Stream: true, Text: text}
		}
	}
	return ID{Text: text}
}
