package attributes

// Opt is an optional field of an attribute set. The zero value is "not set"
// and leaves the attribute out.
type Opt[T any] struct {
	value T
	set   bool
}

// Some is a field that is set to v.
func Some[T any](v T) Opt[T] { return Opt[T]{v, true} }

// Get gives the value and whether it is set.
func (o Opt[T]) Get() (T, bool) { return o.value, o.set }

// Or gives the value, or def when it is not set.
func (o Opt[T]) Or(def T) T {
	if o.set {
		return o.value
	}
	return def
}

func appendInt(dst []Attr, key string, o Opt[int64]) []Attr {
	if o.set {
		dst = append(dst, Int(key, o.value))
	}
	return dst
}

func appendFloat(dst []Attr, key string, o Opt[float64]) []Attr {
	if o.set {
		dst = append(dst, Float(key, o.value))
	}
	return dst
}

func appendCount(dst []Attr, key string, o Opt[Count]) []Attr {
	if o.set {
		dst = append(dst, CountOf(key, o.value))
	}
	return dst
}

// appendExtra appends a field that the reference defines but never fills, or
// does not have at all.
func appendExtra(dst []Attr, key string, o Opt[float64]) []Attr {
	if o.set {
		a := Float(key, o.value)
		a.Extension = true
		dst = append(dst, a)
	}
	return dst
}
