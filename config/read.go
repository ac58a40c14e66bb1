package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agnivade/levenshtein"

	"github.com/trainspan/trainspan/internal/document"
	"github.com/trainspan/trainspan/internal/identity"
)

// setting is one field of a configuration, or a section of it.
type setting struct {
	section string // the key of the section that it is in
	key     string // with that of the section, such as "training.seq_length"
	alias   string // one-logger's last part of the key
	index   []int  // of the field, from the root
	field   reflect.StructField
	env     []string // its variables, the strongest first
	as      string   // how their text is written, if the type does not show it
	inner   bool     // it is a section
}

// settingsOf lists the settings of a struct in their order, each section before what it has.
func settingsOf(t reflect.Type, section string) (all []setting) {
	for _, f := range reflect.VisibleFields(t) {
		if f.Tag.Get("key") == "" {
			continue
		}
		names, as, _ := strings.Cut(f.Tag.Get("env"), ":")
		s := setting{section, join(section, f.Tag.Get("key")), f.Tag.Get("alias"), f.Index, f, document.List(names, ","), as, names == ""}
		if as == "launcher" {
			s.env = identity.WorldSizes()
		}
		if all = append(all, s); !s.inner {
			continue
		}
		below := f.Type
		if below.Kind() == reflect.Pointer {
			below = below.Elem()
		}
		for _, b := range settingsOf(below, s.key) {
			b.index = slices.Concat(s.index, b.index)
			all = append(all, b)
		}
	}
	return all
}

// settingsIn lists the settings of each type that can be read, by types.
var settingsIn = sync.OnceValue(func() map[reflect.Type][]setting {
	all := map[reflect.Type][]setting{}
	for _, t := range []reflect.Type{reflect.TypeFor[Config](), reflect.TypeFor[Base](), reflect.TypeFor[Training]()} {
		all[t] = settingsOf(t, "")
	}
	return all
})

func allSettings() []setting { return settingsIn()[reflect.TypeFor[Config]()] }

// in returns the field of a setting, and makes the sections before it.
func (s *setting) in(root reflect.Value) reflect.Value {
	for _, i := range s.index {
		if root.Kind() == reflect.Pointer {
			if root.IsNil() {
				root.Set(reflect.New(root.Type().Elem()))
			}
			root = root.Elem()
		}
		root = root.Field(i)
	}
	return root
}

// is reports whether a source may call the setting so.
func (s *setting) is(name string) bool {
	return name != "" && (join(s.section, name) == s.key || name == s.alias)
}

func join(path, key string) string { return strings.TrimPrefix(path+"."+key, ".") }

// Decode reads a [Config], a [Base] or a [Training] from src: YAML or JSON as []byte, or an object as encoding/json makes it or as Metadata,
// whose values may be a func() any where the field takes a function. One-logger's names of keys are understood too. name is what places are
// called in problems, usually a file's path.
//
// A key that no field has is in unknown, and does not fail. The error is a [*ValidationError] with every value that does not fit its field, or
// the reason why src cannot be read. The result is not validated.
func Decode[T Config | Base | Training](src any, name string) (out T, unknown []Problem, err error) {
	root := fromGo(src)
	if text, ok := src.([]byte); ok {
		if root, err = document.Read(text, name); err != nil {
			return out, nil, fmt.Errorf("config: %w", err)
		}
	}
	r := newReader(&out)
	r.section(root, "", name)
	return out, r.unknown, r.found.err()
}

// fromGo makes mappings of the objects in a Go value.
func fromGo(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := document.Mapping{}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			m = append(m, document.Entry{Key: key, Value: fromGo(v[key])})
		}
		return m
	case Metadata:
		m := document.Mapping{}
		for _, e := range v {
			m = append(m, document.Entry{Key: e.Key, Value: fromGo(e.Value)})
		}
		return m
	}
	return v
}

// toGo makes Metadata of the mappings in a value.
func toGo(v any) any {
	switch v := v.(type) {
	case document.Mapping:
		m := make(Metadata, len(v))
		for i, e := range v {
			m[i].Key, m[i].Value = e.Key, toGo(e.Value)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = toGo(v[i])
		}
		return list
	}
	return v
}

// reader puts what one source has into fields, and collects what does not fit.
type reader struct {
	root    reflect.Value
	all     []setting
	found   problems
	unknown []Problem
	places  map[string]string // where each setting and section was given
}

func newReader[T Config | Base | Training](root *T) *reader {
	v := reflect.ValueOf(root).Elem()
	return &reader{root: v, all: settingsIn()[v.Type()], places: map[string]string{}}
}

func (r *reader) section(v any, section, at string) {
	m, ok := v.(document.Mapping)
	if !ok && v != nil {
		r.problem(cmp.Or(section, "configuration"), at, v, errors.New("must be a mapping of keys to values"))
	}
	r.places[section] = at
	given := map[string]string{} // the spelling used for each key
	for _, e := range m {
		i := slices.IndexFunc(r.all, func(s setting) bool { return s.section == section && s.is(e.Key) })
		if i < 0 {
			r.unknown = append(r.unknown, unknownKey(e, r.all, section))
			continue
		}
		if r.all[i].field.Name == "PerfTag" && isList(e.Value) {
			i++ // it is PerfTags, which is the next one
		}
		s := &r.all[i]
		if before, twice := given[s.key]; twice {
			r.problem(s.key, e.KeyAt, nil, fmt.Errorf("given twice, as %q and %q", before, e.Key))
			continue
		}
		given[s.key] = e.Key
		switch {
		case e.Value == nil:
		case s.inner:
			if f := s.in(r.root); f.Kind() == reflect.Pointer {
				f.Set(reflect.New(f.Type().Elem()))
			}
			r.section(e.Value, s.key, e.At)
		default:
			r.set(s, e.Value, e.At)
		}
	}
}

// isList calls a function once to learn what it gives.
func isList(v any) bool {
	if f, ok := v.(func() any); ok {
		v = f()
	}
	return reflect.ValueOf(v).Kind() == reflect.Slice
}

// set gives a setting its value.
func (r *reader) set(s *setting, v any, at string) {
	to := reflect.New(s.field.Type).Elem()
	if err := assign(to, v); err != nil {
		if s.field.Type == reflect.TypeFor[Headers]() {
			v = nil // it is never shown, right or wrong
		}
		r.problem(s.key, at, v, err)
		return
	}
	s.in(r.root).Set(to)
	r.places[s.key] = at
}

func (r *reader) problem(key, at string, v any, err error) {
	if isList(v) {
		v = nil // it may hold a secret; only a scalar is worth showing
	}
	r.found = append(r.found, Problem{key, v, err.Error(), at})
}

// unknownKey describes a key that its section lacks. A key of one other place is meant for that place; else the nearest key is named.
func unknownKey(e document.Entry, all []setting, section string) Problem {
	p := Problem{Field: join(section, e.Key), Where: e.KeyAt}
	var places, known []string
	for _, s := range allSettings() {
		if s.is(e.Key) {
			places = append(places, s.key)
		}
	}
	if len(places) == 1 {
		p.Message = fmt.Sprintf("%q does not belong here; its key is %q", e.Key, places[0])
		return p
	}
	for _, s := range all {
		if s.section == section {
			known = append(known, s.key, join(section, cmp.Or(s.alias, s.field.Tag.Get("key"))))
		}
	}
	p.Message = fmt.Sprintf("unknown key %q; the nearest known key is %q", e.Key, nearest(p.Field, known))
	return p
}

// nearest returns the candidate with the fewest edits from word.
func nearest(word string, candidates []string) string {
	word = word[:min(len(word), 128)] // a key can be as long as the file
	return slices.MinFunc(candidates, func(a, b string) int {
		return cmp.Compare(levenshtein.ComputeDistance(word, a), levenshtein.ComputeDistance(word, b))
	})
}

// assign puts a value into a field, or returns what is wanted instead.
func assign(dst reflect.Value, v any) error {
	switch p := dst.Addr().Interface().(type) {
	case *Var[string]:
		return assignVar(p, v, document.Text)
	case *Var[int]:
		return assignVar(p, v, document.Int)
	case *Var[bool]:
		return assignVar(p, v, document.Bool)
	case *Var[[]string]:
		return assignVar(p, v, document.Texts)
	case *[]string:
		return assignTo(p, v, document.Texts)
	case *int:
		return assignTo(p, v, document.Int)
	case *time.Duration:
		return assignTo(p, v, document.Duration)
	case *Metadata:
		return assignTo(p, v, toMetadata)
	case *Headers:
		return assignTo(p, v, toHeaders)
	}
	s, err := document.Text(v)
	dst.SetString(s) // of a type of its own, perhaps
	return err
}

func assignTo[T any](dst *T, v any, convert func(any) (T, error)) (err error) {
	*dst, err = convert(v)
	return err
}

// assignVar takes a function too. A result that does not fit counts as zero at each call, which validation refuses where it matters.
func assignVar[T any](dst *Var[T], v any, convert func(any) (T, error)) error {
	if f, ok := v.(func() any); ok {
		*dst = Func(func() T { t, _ := convert(f()); return t })
		return nil
	}
	t, err := convert(v)
	*dst = Value(t)
	return err
}

func toMetadata(v any) (Metadata, error) {
	m, ok := toGo(v).(Metadata)
	if !ok {
		return nil, errors.New("must be a mapping of keys to values")
	}
	return m, nil
}

func toHeaders(v any) (Headers, error) {
	m, ok := v.(document.Mapping)
	if !ok {
		return nil, errors.New("must be a mapping of names to values")
	}
	h := Headers{}
	for _, e := range m {
		s, err := document.Text(e.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Key, err)
		}
		h[e.Key] = s
	}
	return h, nil
}
