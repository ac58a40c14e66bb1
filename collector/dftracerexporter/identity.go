package dftracerexporter

import (
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/trainspan/trainspan/internal/identity"
)

// identify reads who the spans of a resource are of.
func identify(attrs pcommon.Map) identity.Identity {
	return identity.FromResource(func(key string) string { return text(attrs, key) })
}

// text is the text of an attribute, empty where it is not there.
func text(attrs pcommon.Map, key string) string {
	v, ok := attrs.Get(key)
	if !ok {
		return ""
	}
	return v.AsString()
}
