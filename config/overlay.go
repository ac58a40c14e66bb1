package config

import (
	"maps"
	"reflect"
	"slices"
)

// overlay copies into dst every field of src that is set: fields of structs one
// by one, entries of metadata and headers key by key, everything else when it
// is not zero. dst and src are pointers to the same struct type and share no
// slice, map or pointer afterwards.
func overlay(dst, src any) {
	(&overlayer{}).structOf(dst, src)
}

// overlayer can report the key of every field that it sets.
type overlayer struct {
	onSet func(path string)
}

func (o *overlayer) structOf(dst, src any) {
	o.value(reflect.ValueOf(dst).Elem(), reflect.ValueOf(src).Elem(), "")
}

func (o *overlayer) value(dst, src reflect.Value, path string) {
	switch v := src.Interface().(type) {
	case Var[[]string]:
		if v.IsSet() && !v.IsFunc() {
			dst.Set(reflect.ValueOf(Value(slices.Clone(v.Get()))))
			o.set(path)
			return
		}
	}
	switch v := src.Interface().(type) {
	case interface{ IsSet() bool }:
		if v.IsSet() {
			dst.Set(src)
			o.set(path)
		}
		return
	case Metadata:
		o.metadata(dst.Addr().Interface().(*Metadata), v, path)
		return
	case Headers:
		if len(v) > 0 {
			merged := maps.Clone(dst.Interface().(Headers))
			if merged == nil {
				merged = Headers{}
			}
			maps.Copy(merged, v)
			dst.Set(reflect.ValueOf(merged))
			o.set(path)
		}
		return
	case []string:
		if v != nil {
			dst.Set(reflect.ValueOf(slices.Clone(v)))
			o.set(path)
		}
		return
	}
	switch src.Kind() {
	case reflect.Struct:
		o.structure(dst, src, path)
	case reflect.Pointer:
		if src.IsNil() {
			return
		}
		fresh := reflect.New(src.Type().Elem())
		if !dst.IsNil() {
			// The weaker source's own struct stays as it was.
			(&overlayer{}).value(fresh.Elem(), dst.Elem(), path)
		}
		o.value(fresh.Elem(), src.Elem(), path)
		dst.Set(fresh)
	default:
		if !src.IsZero() {
			dst.Set(src)
			o.set(path)
		}
	}
}

func (o *overlayer) structure(dst, src reflect.Value, path string) {
	for i := range src.NumField() {
		at := path
		if f := src.Type().Field(i); !f.Anonymous {
			at = join(path, f.Tag.Get("key"))
		}
		o.value(dst.Field(i), src.Field(i), at)
	}
	settleAlternatives(dst, src)
}

func (o *overlayer) metadata(dst *Metadata, src Metadata, path string) {
	if src == nil {
		return
	}
	merged := slices.Clone(*dst)
	if merged == nil {
		merged = Metadata{}
	}
	for _, e := range src {
		// Two entries with one key in the same source are for validation to
		// find, so they must survive.
		if _, known := (*dst).Get(e.Key); known {
			merged = merged.With(e.Key, e.Value)
		} else {
			merged = append(merged, e)
		}
	}
	*dst = merged
	o.set(path)
}

func (o *overlayer) set(path string) {
	if o.onSet != nil {
		o.onSet(path)
	}
}

// settleAlternatives keeps of two fields that exclude each other only the one
// that the stronger source set.
func settleAlternatives(dst, src reflect.Value) {
	switch d := dst.Addr().Interface().(type) {
	case *Training:
		s := src.Interface().(Training)
		switch {
		case s.PerfTag.IsSet() && !s.PerfTags.IsSet():
			d.PerfTags = Var[[]string]{}
		case s.PerfTags.IsSet() && !s.PerfTag.IsSet():
			d.PerfTag = Var[string]{}
		}
	case *OTLP:
		s := src.Interface().(OTLP)
		if s.Endpoint == "" {
			return
		}
		d.TracesEndpoint, d.LogsEndpoint, d.MetricsEndpoint = s.TracesEndpoint, s.LogsEndpoint, s.MetricsEndpoint
	}
}

// Clone returns a copy that shares no slice, map or pointer with c. Functions are
// shared.
func Clone[T Config | Base | Training](c *T) T {
	var out T
	overlay(&out, c)
	return out
}
