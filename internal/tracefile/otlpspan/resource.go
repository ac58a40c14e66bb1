package otlpspan

import (
	"math"
	"strconv"

	"github.com/trainspan/trainspan/internal/platform/identity"
)

// Resource holds attributes, those of a resource.
type Resource []Attribute

// Text returns the text of a string or number attribute, or "".
func (r Resource) Text(key string) string {
	for i := range r {
		if r[i].Key != key {
			continue
		}
		switch v := &r[i].Value; v.kind {
		case kindText:
			return v.text
		case kindInt:
			return strconv.FormatInt(int64(v.num), 10) //nolint:gosec // as protobuf does
		case kindFloat:
			return strconv.FormatFloat(math.Float64frombits(v.num), 'f', -1, 64)
		}
	}
	return ""
}

// Identity returns the identity of the process of a resource's spans.
func (r Resource) Identity() identity.Identity { return identity.FromResource(r.Text) }
