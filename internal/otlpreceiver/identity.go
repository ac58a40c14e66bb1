package otlpreceiver

import (
	"strconv"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"

	"github.com/trainspan/trainspan/internal/assemble"
	"github.com/trainspan/trainspan/internal/identity"
)

// attrs are the attributes of a resource.
type attrs []*commonpb.KeyValue

// text is the text of an attribute that is one, or a number.
func (a attrs) text(key string) string {
	for _, kv := range a {
		if kv.GetKey() != key {
			continue
		}
		switch v := kv.GetValue().GetValue().(type) {
		case *commonpb.AnyValue_StringValue:
			return v.StringValue
		case *commonpb.AnyValue_IntValue:
			return strconv.FormatInt(v.IntValue, 10)
		case *commonpb.AnyValue_DoubleValue:
			return strconv.FormatFloat(v.DoubleValue, 'f', -1, 64)
		}
	}
	return ""
}

// identity is who the spans of the resource are of.
func (a attrs) identity() identity.Identity {
	return identity.FromResource(func(key string) string { return a.text(key) })
}

// fileName is the file of a process.
func fileName(s assemble.Sender) string {
	return "otlp-" + assemble.SafeName(s.Host) + "-" + strconv.Itoa(s.PID) + ".pfw.gz"
}
