package grammar

import (
	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/internal/attrvalue"
)

func appendInt(dst []attributes.Attr, key string, o attributes.Opt[int64]) []attributes.Attr {
	if o.IsSet() {
		dst = append(dst, attrvalue.Int(key, o.Get()))
	}
	return dst
}

func appendFloat(dst []attributes.Attr, key string, o attributes.Opt[float64]) []attributes.Attr {
	if o.IsSet() {
		dst = append(dst, attrvalue.Float(key, o.Get()))
	}
	return dst
}

func appendCount(dst []attributes.Attr, key string, o attributes.Opt[attrvalue.Count]) []attributes.Attr {
	if o.IsSet() {
		dst = append(dst, attrvalue.CountOf(key, o.Get()))
	}
	return dst
}

// appendExtra appends a field that the reference defines but never fills, or
// does not have at all.
func appendExtra(dst []attributes.Attr, key string, o attributes.Opt[float64]) []attributes.Attr {
	if o.IsSet() {
		a := attrvalue.Float(key, o.Get())
		a.Extension = true
		dst = append(dst, a)
	}
	return dst
}
