package config

import "reflect"

// layered is implemented by types that overlay takes or leaves as a whole.
type layered interface{ IsSet() bool }

// overlay copies into dst every field of src that is set: fields of structs one
// by one, entries of metadata and headers key by key, everything else when it
// is not zero. dst and src are pointers to the same struct type, and share
// nothing afterwards.
func overlay(dst, src any) {
	overlayValue(reflect.ValueOf(dst).Elem(), reflect.ValueOf(src).Elem())
}

func overlayValue(dst, src reflect.Value) {
	switch v := src.Interface().(type) {
	case layered:
		if v.IsSet() {
			dst.Set(src)
		}
		return
	case Metadata:
		merged := dst.Interface().(Metadata)
		for _, e := range v {
			merged = merged.With(e.Key, e.Value)
		}
		dst.Set(reflect.ValueOf(merged))
		return
	}
	switch src.Kind() {
	case reflect.Struct:
		for i := range src.NumField() {
			overlayValue(dst.Field(i), src.Field(i))
		}
		settleAlternatives(dst, src)
	case reflect.Pointer:
		if src.IsNil() {
			return
		}
		fresh := reflect.New(src.Type().Elem())
		if !dst.IsNil() {
			overlayValue(fresh.Elem(), dst.Elem())
		}
		overlayValue(fresh.Elem(), src.Elem())
		dst.Set(fresh)
	case reflect.Map:
		if src.Len() == 0 {
			return
		}
		fresh := reflect.MakeMap(src.Type())
		for _, m := range []reflect.Value{dst, src} {
			for it := m.MapRange(); it.Next(); {
				fresh.SetMapIndex(it.Key(), it.Value())
			}
		}
		dst.Set(fresh)
	case reflect.Slice:
		if !src.IsNil() {
			fresh := reflect.MakeSlice(src.Type(), src.Len(), src.Len())
			reflect.Copy(fresh, src)
			dst.Set(fresh)
		}
	default:
		if !src.IsZero() {
			dst.Set(src)
		}
	}
}

// settleAlternatives keeps of two fields that exclude each other only the one
// that the stronger source set.
func settleAlternatives(dst, src reflect.Value) {
	switch s := src.Addr().Interface().(type) {
	case *Training:
		d := dst.Addr().Interface().(*Training)
		switch {
		case s.PerfTag.IsSet() && !s.PerfTags.IsSet():
			d.PerfTags = Var[[]string]{}
		case s.PerfTags.IsSet() && !s.PerfTag.IsSet():
			d.PerfTag = Var[string]{}
		}
	case *OTLP:
		d := dst.Addr().Interface().(*OTLP)
		if s.Endpoint != "" && s.TracesEndpoint == "" {
			d.TracesEndpoint = ""
		}
	}
}
