// Package otlpform implements forms of OTLP that the OTLP clients do not have:
// JSON, and messages repaired to valid UTF-8.
package otlpform

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// OTLP's JSON is protobuf's, with numbers for enums and with trace and span ids
// in hexadecimal instead of base64. The ids are found by these names. No string
// value can contain them, because quotes are escaped there.
var idNames = [][]byte{[]byte(`"traceId"`), []byte(`"spanId"`), []byte(`"parentSpanId"`)}

// AppendJSON appends spans as one line of OTLP JSON, without a line feed.
func AppendJSON(dst []byte, spans []*tracepb.ResourceSpans) ([]byte, error) {
	raw, err := protojson.MarshalOptions{UseEnumNumbers: true}.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return dst, err
	}
	var line bytes.Buffer // protojson adds blanks unpredictably
	if err := json.Compact(&line, raw); err != nil {
		return dst, err
	}
	return appendIDs(dst, line.Bytes(), func(dst, id []byte) ([]byte, error) {
		raw, err := base64.StdEncoding.AppendDecode(nil, id)
		return hex.AppendEncode(dst, raw), err
	})
}

// ReadJSON reads the spans of one OTLP request in JSON. Unknown members are
// ignored, as the protocol requires.
func ReadJSON(line []byte) ([]*tracepb.ResourceSpans, error) {
	raw, err := appendIDs(make([]byte, 0, len(line)), line, func(dst, id []byte) ([]byte, error) {
		raw, err := hex.AppendDecode(nil, id)
		return base64.StdEncoding.AppendEncode(dst, raw), err
	})
	if err != nil {
		return nil, err
	}
	var data tracepb.TracesData
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, &data); err != nil {
		return nil, err
	}
	return data.GetResourceSpans(), nil
}

// ProtobufOfJSON converts an OTLP request from JSON to protobuf.
func ProtobufOfJSON(line []byte) ([]byte, error) {
	spans, err := ReadJSON(line)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
}

// appendIDs copies JSON and rewrites every id in it.
func appendIDs(dst, src []byte, rewrite func(dst, id []byte) ([]byte, error)) ([]byte, error) {
	for {
		at := nextID(src)
		if at < 0 {
			return append(dst, src...), nil
		}
		dst = append(dst, src[:at]...)
		src = src[at:]
		end := bytes.IndexByte(src, '"')
		if end < 0 {
			return dst, fmt.Errorf("an id is not terminated")
		}
		var err error
		if dst, err = rewrite(dst, src[:end]); err != nil {
			return dst, fmt.Errorf("read an id: %w", err)
		}
		src = src[end:]
	}
}

// nextID returns where the first id of src begins, or -1.
func nextID(src []byte) int {
	for from := 0; ; {
		i := bytes.Index(src[from:], []byte(`Id"`))
		if i < 0 {
			return -1
		}
		from += i + len(`Id"`)
		if !slices.ContainsFunc(idNames, func(name []byte) bool { return bytes.HasSuffix(src[:from], name) }) {
			continue
		}
		value, ok := bytes.CutPrefix(bytes.TrimLeft(src[from:], blanks), []byte(":"))
		if value = bytes.TrimLeft(value, blanks); ok && bytes.HasPrefix(value, []byte(`"`)) {
			return len(src) - len(value) + 1
		}
	}
}

const blanks = " \t\r\n"
