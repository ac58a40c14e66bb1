package tracefile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// general parses any JSON object, whatever its spacing, key order and number
// forms. It accepts the same type errors as known readers: numbers may be
// quoted or have a fraction.
func (p *Parser) general(line []byte, ev *Event) error {
	if trimmed := bytes.TrimSpace(line); len(trimmed) == 0 || trimmed[0] != '{' {
		return errNotObject
	}
	if !json.Valid(line) {
		if clean := Strict(line); clean != nil && json.Valid(clean) {
			return p.general(clean, ev)
		}
		var v any
		return fmt.Errorf("invalid JSON: %w", json.Unmarshal(line, &v))
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	err := p.members(dec, func(key string, raw json.RawMessage) error {
		a := generalValue(raw)
		switch key {
		case "id":
			ev.ID = Uint64(a)
		case "name":
			ev.Name = a.Text()
		case "cat":
			ev.Cat = a.Text()
		case "pid":
			ev.PID = max(a.Int64(), 0)
		case "tid":
			ev.TID = max(a.Int64(), 0)
		case "ts":
			ev.TS = max(a.Int64(), 0)
		case "dur":
			ev.Dur = a.Int64()
		case "type":
			ev.Type = Type(min(Uint64(a), math.MaxUint8))
		case "ph":
			return ev.setPhase(a)
		case "args":
			return p.generalArgs(raw, ev)
		}
		return nil
	})
	if err == nil && ev.Phase == PhaseUnknown {
		err = errNoPhase
	}
	return err
}

// notFinite has the strings of [Float] for numbers that are not finite, as C++ and
// Python print them.
var notFinite = [...]struct{ printed, text string }{
	{"nan", `"NaN"`}, {"-nan", `"NaN"`}, {"NaN", `"NaN"`},
	{"inf", `"Infinity"`}, {"Infinity", `"Infinity"`}, {"-inf", `"-Infinity"`}, {"-Infinity", `"-Infinity"`},
}

// Strict returns a line without what known producers write and JSON does not have, or
// nil if there is nothing of it: numbers that are not finite, and the commas before
// closing braces of the first versions of DFTracer.
func Strict(line []byte) []byte {
	var out []byte
	quoted, from := false, 0
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == ',' && i+1 < len(line) && line[i+1] == '}':
			out, from = append(out, line[from:i]...), i+1
		case c == '-' || c == 'n' || c == 'N' || c == 'i' || c == 'I':
			for _, w := range notFinite {
				if bytes.HasPrefix(line[i:], []byte(w.printed)) {
					out = append(append(out, line[from:i]...), w.text...)
					i += len(w.printed) - 1
					from = i + 1
					break
				}
			}
		}
	}
	if from == 0 {
		return nil
	}
	return append(out, line[from:]...)
}

func (ev *Event) setPhase(a Arg) error {
	ev.Phase = PhaseUnknown
	if s := Str(a); KindOf(a) == KindString && len(s) == 1 {
		ev.Phase = phaseOfLetter(s[0])
	}
	if n := a.Int64(); ev.Phase == PhaseUnknown && 1 <= n && n <= 4 {
		ev.Phase = Phase(n)
	}
	if ev.Phase == PhaseUnknown {
		return errBadPhase
	}
	return nil
}

func (p *Parser) generalArgs(raw json.RawMessage, ev *Event) error {
	if raw[0] != '{' {
		return nil // args may be null or another value without members
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	return p.members(dec, func(key string, raw json.RawMessage) error {
		a := generalValue(raw)
		switch key {
		case "hhash":
			ev.HostHash = a.Text()
		case "level":
			ev.Level = int(min(max(a.Int64(), 0), math.MaxInt32))
		case "p_idx":
			ev.Parent = max(a.Int64(), NoParent)
		default:
			a.Key = key
			ev.Args = append(ev.Args, a)
		}
		return nil
	})
}

// members calls f with each member of the next object of dec.
func (p *Parser) members(dec *json.Decoder, f func(key string, raw json.RawMessage) error) error {
	if _, err := dec.Token(); err != nil {
		return err
	}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return err
		}
		key, _ := tok.(string)
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return err
		}
		if err := f(key, raw); err != nil {
			return err
		}
	}
	return nil
}

// generalValue converts one valid JSON value.
func generalValue(raw json.RawMessage) Arg {
	switch c := raw[0]; {
	case c == '"':
		var s string
		_ = json.Unmarshal(raw, &s)
		return String("", s)
	case c == '-' || '0' <= c && c <= '9':
		if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
			return Int("", n)
		}
		if n, err := strconv.ParseUint(string(raw), 10, 64); err == nil {
			return Uint("", n)
		}
		if f, err := strconv.ParseFloat(string(raw), 64); err == nil {
			return Float("", f)
		}
	}
	var compact bytes.Buffer
	if json.Compact(&compact, raw) != nil {
		return Raw("", string(raw))
	}
	return Raw("", compact.String())
}
