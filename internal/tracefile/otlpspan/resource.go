package otlpspan

import (
	"strconv"

	"github.com/trainspan/trainspan/internal/platform/identity"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
)

// Resource holds the attributes of a resource.
type Resource []*commonpb.KeyValue

// Text returns the text of a string or number attribute, or "".
func (r Resource) Text(key string) string {
	for _, kv := range r {
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

// Identity returns the identity of the process of a resource's spans.
func (r Resource) Identity() identity.Identity { return identity.FromResource(r.Text) }
