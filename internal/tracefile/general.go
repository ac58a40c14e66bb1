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
		if clean := withoutCommas(line); clean != nil && json.Valid(clean) {
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

// withoutCommas returns a line without the commas before closing braces that
// the first versions of DFTracer wrote, or nil if there are none.
func withoutCommas(line []byte) []byte {
	if !bytes.Contains(line, []byte(",}")) {
		return nil
	}
	out := make([]byte, 0, len(line))
	inText := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case inText && c == '\\' && i+1 < len(line):
			out = append(out, c)
			i++
		case c == '"':
			inText = !inText
		case c == ',' && !inText && i+1 < len(line) && line[i+1] == '}':
			continue
		}
		out = append(out, line[i])
	}
	return out
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
