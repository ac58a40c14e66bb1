package otlpspan

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// Wire types, in the tags of fields. A tag has 32 bits: the number of a field has 29.
const (
	varintField  = uint32(protowire.VarintType)
	fixed64Field = uint32(protowire.Fixed64Type)
	bytesField   = uint32(protowire.BytesType)
	fixed32Field = uint32(protowire.Fixed32Type)
)

// field is a field of a message.
type field struct {
	tag  uint32 // eight times its number, plus the wire type
	n    uint64 // of a numeric field
	data []byte // of a field of bytes
}

// take reads the next field of b and returns the rest. For an invalid field ok
// is false, and the field and the rest are empty.
func take(b []byte) (f field, rest []byte, ok bool) {
	// Nearly all fields have a number below 16, and are short.
	if len(b) > 1 && b[0] > 7 && b[0] < 0x80 {
		switch tag := uint32(b[0]); {
		case tag&7 == bytesField && int(b[1]) < min(len(b)-1, 0x80):
			n := 2 + int(b[1])
			return field{tag: tag, data: b[2:n:n]}, b[n:], true
		case tag&7 == varintField && b[1] < 0x80:
			return field{tag: tag, n: uint64(b[1])}, b[2:], true
		case tag&7 == fixed64Field && len(b) > 8:
			return field{tag: tag, n: binary.LittleEndian.Uint64(b[1:])}, b[9:], true
		}
	}
	number, kind, n := protowire.ConsumeTag(b)
	if n < 0 || number > protowire.MaxValidNumber {
		return field{}, nil, false
	}
	b, f.tag = b[n:], uint32(number)<<3|uint32(kind) //nolint:gosec // 29 bits and 3
	switch kind {
	case protowire.VarintType:
		f.n, n = protowire.ConsumeVarint(b)
	case protowire.Fixed64Type:
		f.n, n = protowire.ConsumeFixed64(b)
	case protowire.Fixed32Type:
		var v uint32
		v, n = protowire.ConsumeFixed32(b)
		f.n = uint64(v)
	case protowire.BytesType:
		f.data, n = protowire.ConsumeBytes(b)
		f.data = f.data[:len(f.data):len(f.data)]
	default: // a group, which no message of OTLP has
		n = protowire.ConsumeFieldValue(number, kind, b)
	}
	if n < 0 {
		return field{}, nil, false
	}
	return f, b[n:], true
}

// splitPair splits an attribute in its usual form: a key, and a value, both of less
// than 128 bytes. For others ok is false.
func splitPair(b []byte) (key, value []byte, ok bool) {
	if len(b) < 4 || b[0] != 1<<3|byte(bytesField) {
		return nil, nil, false
	}
	at := 2 + int(b[1]) // of the value
	if at+2 > len(b) || b[1] >= 0x80 || b[at] != 2<<3|byte(bytesField) || b[at+1] >= 0x80 || at+2+int(b[at+1]) != len(b) {
		return nil, nil, false
	}
	return b[2:at], b[at+2:], true
}

// Limits of a request. Its parts are the messages in it, such as spans, attributes,
// values, events and links, which can be as short as two bytes. An attribute in its
// usual form counts once, with its value.
const (
	MaxParts   = 1 << 20
	MaxNesting = 64
)

// Errors of [Check] for requests above the limits.
var (
	ErrParts   = fmt.Errorf("the request contains more than %d spans, attributes, events and links", MaxParts)
	ErrNesting = fmt.Errorf("the request contains values nested deeper than %d levels", MaxNesting)
)

var (
	errEncoding = errors.New("invalid protobuf")
	errText     = errors.New("invalid protobuf: a text is not valid UTF-8")
)

// message describes the fields of a message that are checked, by their numbers.
type message struct {
	text uint16       // a bit for each field of text
	in   [16]*message // fields that are messages
}

var (
	valueMessage, pairMessage = valueMessages()

	scopeMessage    = &message{text: 1<<1 | 1<<2, in: [16]*message{3: pairMessage}}
	resourceMessage = &message{in: [16]*message{1: pairMessage, 3: {text: 1<<1 | 1<<2 | 1<<3 | 1<<4}}}
	eventMessage    = &message{text: 1 << 2, in: [16]*message{3: pairMessage}}
	linkMessage     = &message{text: 1 << 3, in: [16]*message{4: pairMessage}}
	spanMessage     = &message{text: 1<<3 | 1<<5, in: [16]*message{9: pairMessage, 11: eventMessage, 13: linkMessage, 15: {text: 1 << 2}}}
	scopeSpans      = &message{text: 1 << 3, in: [16]*message{1: scopeMessage, 2: spanMessage}}
	resourceSpans   = &message{text: 1 << 3, in: [16]*message{1: resourceMessage, 2: scopeSpans}}
	requestMessage  = &message{in: [16]*message{1: resourceSpans}}
)

// valueMessages returns the message of a value, which can contain values, and
// that of a key with a value.
func valueMessages() (value, pair *message) {
	value = &message{text: 1 << 1}
	pair = &message{text: 1 << 1, in: [16]*message{2: value}}
	value.in[5], value.in[6] = &message{in: [16]*message{1: value}}, &message{in: [16]*message{1: pair}}
	return value, pair
}

// Check returns an error for a request, an encoded ExportTraceServiceRequest, that
// is invalid or above the limits. What the other functions return for an invalid
// one is undefined. Unknown fields are allowed.
func Check(request []byte) error {
	left := MaxParts
	return requestMessage.check(request, 0, &left)
}

// check checks a message; left is how many parts it may contain.
func (m *message) check(b []byte, depth int, left *int) error {
	if depth > MaxNesting {
		return ErrNesting
	}
	for len(b) > 0 {
		f, rest, ok := take(b)
		if !ok {
			return errEncoding
		}
		b = rest
		n := f.tag >> 3
		if f.tag&7 != bytesField || n >= uint32(len(m.in)) {
			continue
		}
		if in := m.in[n]; in != nil {
			if *left--; *left < 0 {
				return ErrParts
			}
			if in == pairMessage {
				if key, value, ok := splitPair(f.data); ok {
					if !utf8.Valid(key) {
						return errText
					}
					in, f.data = valueMessage, value
				}
			}
			if err := in.check(f.data, depth+1, left); err != nil {
				return err
			}
		} else if m.text>>n&1 != 0 && !utf8.Valid(f.data) {
			return errText
		}
	}
	return nil
}

// Filter returns a request without the spans for which keep returns false.
func Filter(request []byte, keep func() bool) []byte {
	return rewrite(request, 1, func(rs []byte) ([]byte, bool) {
		return rewrite(rs, 2, func(ss []byte) ([]byte, bool) {
			return rewrite(ss, 2, func(s []byte) ([]byte, bool) { return s, keep() }), true
		}), true
	})
}

// rewrite returns a message in which fields with a number are changed, or left
// out if f returns false.
func rewrite(b []byte, number protowire.Number, f func([]byte) ([]byte, bool)) (dst []byte) {
	for len(b) > 0 {
		next, rest, _ := take(b)
		if next.tag != uint32(number)<<3|bytesField { //nolint:gosec // 1 or 2
			dst = append(dst, b[:len(b)-len(rest)]...)
		} else if data, ok := f(next.data); ok {
			dst = protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), data)
		}
		b = rest
	}
	return dst
}
