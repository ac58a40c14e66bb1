package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Decode reads a [Config], a [Base] or a [Training] from src: YAML or JSON as
// []byte, json.RawMessage or string, or a map[string]any, [Override] or
// [Metadata]. A map's values may be functions without arguments where the field
// takes one. The reference's spellings of keys are understood too. A key that no
// field has is a problem that names the right one or the nearest.
//
// The result is not validated; the error is a [*ValidationError] with every
// problem, or says why src cannot be read. name is what places are called in
// it, usually a file's path.
func Decode[T Config | Base | Training](src any, name string) (T, error) {
	return decode[T](src, name, false)
}

// DecodeLax is [Decode] for what was written for the reference, which ignores
// keys that no field has.
func DecodeLax[T Config | Base | Training](src any) (T, error) {
	return decode[T](src, "config", true)
}

func decode[T any](src any, name string, lax bool) (out T, err error) {
	n, err := sourceNode(src, name)
	if err != nil {
		return out, err
	}
	d := decoder{allowUnknown: lax}
	d.root(n, &out)
	return out, d.found.err()
}

func sourceNode(src any, name string) (*node, error) {
	switch s := src.(type) {
	case []byte:
		return readDocument(s, name)
	case json.RawMessage:
		return readDocument(s, name)
	case string:
		return readDocument([]byte(s), name)
	}
	return goNode(src), nil
}

// decoder puts nodes into fields and collects what does not fit. What is in a
// field already stays where the source says nothing.
type decoder struct {
	allowUnknown bool
	found        problems
	places       map[string]string // where each field was given
}

func (d *decoder) root(n *node, dst any) {
	if n.kind != nullNode {
		d.structure(n, reflect.ValueOf(dst).Elem(), "")
	}
}

func (d *decoder) problem(path, where string, value any, format string, args ...any) {
	d.found.add(path, value, format, args...)
	d.found.list[len(d.found.list)-1].Where = where
}

func (d *decoder) structure(n *node, dst reflect.Value, path string) {
	if n.kind == scalarNode && reflect.TypeOf(n.value) == dst.Type() {
		dst.Set(reflect.ValueOf(n.value))
		return
	}
	if n.kind != mappingNode {
		if path == "" {
			path = "configuration"
		}
		// A list may hold a secret; only a scalar is worth showing.
		d.problem(path, n.where, n.value, "must be a mapping of keys to values")
		return
	}
	keys := keysOf(dst.Type())
	given := map[string]string{} // the spelling used for each key
	for _, f := range n.fields {
		k, ok := keys.find(f.key)
		if !ok {
			if !d.allowUnknown {
				d.unknown(f, dst.Type(), path)
			}
			continue
		}
		at := join(path, k.name)
		if before, twice := given[k.name]; twice {
			d.problem(at, f.where, nil, "given twice, as %q and %q", before, f.key)
			continue
		}
		given[k.name] = f.key
		if other := exclusive[k.name]; other != "" && given[other] != "" {
			d.problem(at, f.where, nil, "%s and %s exclude each other", given[other], f.key)
			continue
		}
		if d.places != nil && f.value.where != "" {
			d.places[at] = f.value.where
		}
		if !d.alternative(f.value, dst, k.name, at) {
			d.value(f.value, dst.FieldByIndex(k.index), at)
		}
	}
}

// exclusive names the keys of which one mapping holds at most one.
var exclusive = map[string]string{"perf_tag": "perf_tags", "perf_tags": "perf_tag"}

// alternative handles the performance tags, which are one or several: either
// shape takes the place of the other.
func (d *decoder) alternative(n *node, dst reflect.Value, key, path string) bool {
	t, ok := dst.Addr().Interface().(*Training)
	switch {
	case !ok:
	case key == "perf_tags" && n.kind != nullNode:
		t.PerfTag = Var[string]{}
	case key == "perf_tag":
		t.PerfTags = Var[[]string]{}
		if isListOfTags(n) {
			t.PerfTag = Var[string]{}
			d.value(n, reflect.ValueOf(&t.PerfTags).Elem(), path)
			return true
		}
	}
	return false
}

// isListOfTags calls a function of unknown result once to learn its shape.
func isListOfTags(n *node) bool {
	if _, ok := n.value.(Var[[]string]); ok {
		return true
	}
	if f, ok := asFunc(n.value); ok {
		_, err := toTexts(f())
		return err == nil
	}
	return n.kind == listNode
}

func (d *decoder) value(n *node, dst reflect.Value, path string) {
	if n.kind == nullNode {
		dst.SetZero()
		return
	}
	switch p := dst.Addr().Interface().(type) {
	case *Var[string]:
		decodeVar(d, n, p, path, toText)
	case *Var[int]:
		decodeVar(d, n, p, path, toInt)
	case *Var[bool]:
		decodeVar(d, n, p, path, toBool)
	case *Var[[]string]:
		decodeVar(d, n, p, path, toTexts)
	case *[]string:
		decodePlain(d, n, p, path, toTexts)
	case *int:
		decodePlain(d, n, p, path, toInt)
	case *time.Duration:
		decodePlain(d, n, p, path, toDuration)
	case *Metadata:
		d.metadata(n, p, path)
	case *Headers:
		d.headers(n, p, path)
	default:
		d.reflected(n, dst, path)
	}
}

func (d *decoder) reflected(n *node, dst reflect.Value, path string) {
	switch dst.Kind() {
	case reflect.String:
		if s, err := toText(n.plain()); err != nil {
			d.problem(path, n.where, n.plain(), "%s", err)
		} else {
			dst.SetString(s)
		}
	case reflect.Struct:
		d.structure(n, dst, path)
	case reflect.Pointer:
		if n.kind == scalarNode && reflect.TypeOf(n.value) == dst.Type() {
			dst.Set(reflect.ValueOf(n.value))
			return
		}
		if dst.IsNil() {
			dst.Set(reflect.New(dst.Type().Elem()))
		}
		d.structure(n, dst.Elem(), path)
	default:
		d.problem(path, n.where, nil, "cannot hold a %s", dst.Type())
	}
}

func decodePlain[T any](d *decoder, n *node, dst *T, path string, convert func(any) (T, error)) {
	v, err := convert(n.plain())
	if err != nil {
		d.problem(path, n.where, n.plain(), "%s", err)
		return
	}
	*dst = v
}

func decodeVar[T any](d *decoder, n *node, dst *Var[T], path string, convert func(any) (T, error)) {
	switch v := n.value.(type) {
	case Var[T]:
		*dst = v
		return
	case func() T:
		*dst = Func(v)
		return
	}
	if f, ok := asFunc(n.value); ok {
		// A result that does not fit counts as zero, which validation refuses
		// where it matters: a function may change its mind between two calls.
		*dst = Func(func() T {
			v, _ := convert(f())
			return v
		})
		return
	}
	var v T
	decodePlain(d, n, &v, path, func(raw any) (T, error) {
		t, err := convert(raw)
		if err == nil {
			*dst = Value(t)
		}
		return t, err
	})
}

// asFunc takes any function without arguments and with one result.
func asFunc(v any) (func() any, bool) {
	rv := reflect.ValueOf(v)
	if rv.Kind() != reflect.Func || rv.Type().NumIn() != 0 || rv.Type().NumOut() != 1 {
		return nil, false
	}
	return func() any { return goNode(rv.Call(nil)[0].Interface()).plain() }, true
}

// metadata lays the entries of n over those in dst.
func (d *decoder) metadata(n *node, dst *Metadata, path string) {
	if n.kind != mappingNode {
		d.problem(path, n.where, n.plain(), "must be a mapping of keys to values")
		return
	}
	if *dst == nil {
		*dst = Metadata{}
	}
	for _, f := range n.fields {
		*dst = dst.With(f.key, f.value.plain())
	}
}

// headers never shows a value, right or wrong.
func (d *decoder) headers(n *node, dst *Headers, path string) {
	if n.kind != mappingNode {
		d.problem(path, n.where, nil, "must be a mapping of names to values")
		return
	}
	merged := Headers{}
	for name, value := range *dst {
		merged[name] = value
	}
	for _, f := range n.fields {
		s, err := toText(f.value.plain())
		if err != nil {
			d.problem(join(path, f.key), f.value.where, nil, "%s", err)
			continue
		}
		merged[f.key] = s
	}
	*dst = merged
}

func join(path, key string) string {
	return strings.TrimPrefix(fmt.Sprintf("%s.%s", path, key), ".")
}
