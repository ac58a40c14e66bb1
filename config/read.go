package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/trainspan/trainspan/internal/platform/document"
	"github.com/trainspan/trainspan/internal/platform/identity"
)

// setting is one field of a configuration, or a section of it.
type setting struct {
	section string // the key of its section
	key     string // with the section's key, such as "training.seq_length"
	alias   string // the last part of one-logger's key
	index   []int  // of the field, from the root
	field   reflect.StructField
	env     []string // its variables, the strongest first
	as      string   // how their text is parsed, if the type does not define it
	inner   bool     // it is a section
	plain   []string // the last part of the key, and the alias, without case and separators
}

// settingsOf returns the settings of a struct in their order, each section
// before its settings.
func settingsOf(t reflect.Type, section string) (all []setting) {
	for _, f := range reflect.VisibleFields(t) {
		if f.Tag.Get("key") == "" {
			continue
		}
		names, as, _ := strings.Cut(f.Tag.Get("env"), ":")
		key, alias := f.Tag.Get("key"), f.Tag.Get("alias")
		s := setting{
			section: section, key: join(section, key), alias: alias, plain: []string{plainWord(key), plainWord(alias)},
			index: f.Index, field: f, env: splitList(names, ","), as: as, inner: names == "",
		}
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

// settingsIn returns the settings of each readable type.
var settingsIn = sync.OnceValue(func() map[reflect.Type][]setting {
	all := map[reflect.Type][]setting{}
	for _, t := range []reflect.Type{reflect.TypeFor[Config](), reflect.TypeFor[Base](), reflect.TypeFor[Training]()} {
		all[t] = settingsOf(t, "")
	}
	return all
})

func allSettings() []setting { return settingsIn()[reflect.TypeFor[Config]()] }

// in returns the field of a setting, and creates the sections before it.
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

// is reports whether a name in a source means the setting.
func (s *setting) is(name string) bool {
	return name != "" && (join(s.section, name) == s.key || name == s.alias)
}

func join(path, key string) string { return strings.TrimPrefix(path+"."+key, ".") }

// Decode reads a [Config], a [Base] or a [Training] from src: YAML or JSON as
// []byte, or an object as encoding/json makes it or as Metadata, whose values
// may be a func() any if the field accepts a function. One-logger's keys are
// accepted too. name is the file name for positions in problems, usually a
// path.
//
// Keys without a field are returned in unknown and are not an error. The error
// is a [*ValidationError] with every value that does not fit its field, or the
// reason why src cannot be read. The result is not validated.
func Decode[T Config | Base | Training](src any, name string) (out T, unknown []Problem, err error) {
	root := reflect.ValueOf(&out).Elem()
	r := reader{all: settingsIn()[root.Type()]}
	if text, ok := src.([]byte); ok {
		if src, err = r.document(document.Read(text, name)); err != nil {
			return out, nil, fmt.Errorf("config: %w", err)
		}
	}
	r.section(src, "", name)
	apply(root, r.given, nil)
	return out, r.unknown, r.found.err()
}

// given is a setting, or a section without a value, in a source.
type given struct {
	setting
	value reflect.Value
	at    string // the position
}

// reader collects the settings of one source, and the values that do not fit.
type reader struct {
	all     []setting
	given   []given
	found   problems
	unknown []Problem
}

// document adds the syntax errors of a document to the problems.
func (r *reader) document(root any, err error) (any, error) {
	var faults document.Faults
	if !errors.As(err, &faults) {
		return root, err
	}
	for _, f := range faults {
		r.found = append(r.found, Problem{Message: f.Message, Where: f.At})
	}
	return root, nil
}

func (r *reader) section(v any, section, at string) {
	if section == "" {
		r.given = append(r.given, given{at: at, setting: setting{inner: true}})
	}
	seen := map[string]document.Entry{}
	for _, e := range r.mapping(v, section, at) {
		i := slices.IndexFunc(r.all, func(s setting) bool { return s.section == section && s.is(e.Key) })
		if i < 0 {
			r.unknown = append(r.unknown, Problem{Field: join(section, e.Key), Message: unknownKey(e.Key, section), Where: e.KeyAt})
			continue
		}
		if r.all[i].field.Name == "PerfTag" && givesList(e.Value) {
			i++ // PerfTags is the next setting
		}
		s := &r.all[i]
		first, twice := seen[s.key]
		seen[s.key] = e
		switch {
		case twice:
			r.problem(s.key, e.KeyAt, nil, errors.New(strings.TrimSuffix(fmt.Sprintf("given twice, first as %q at %s", first.Key, first.KeyAt), " at ")))
		case e.Value == nil:
		case s.inner:
			r.given = append(r.given, given{setting: *s, at: e.At})
			r.section(e.Value, s.key, e.At)
		default:
			r.set(s, e.Value, e.At)
		}
	}
}

// mapping reports a value that is neither a mapping nor null.
func (r *reader) mapping(v any, section, at string) document.Mapping {
	m, ok := entries(v)
	if !ok && v != nil {
		r.problem(section, at, v, errors.New("must be a mapping of keys to values"))
	}
	return m
}

// givesList calls a function once to find out whether it returns a list.
func givesList(v any) bool {
	if f, ok := v.(func() any); ok {
		v = f()
	}
	return reflect.ValueOf(v).Kind() == reflect.Slice
}

// set sets a setting.
func (r *reader) set(s *setting, v any, at string) {
	to := reflect.New(s.field.Type).Elem()
	if err := assign(to, v); err != nil {
		r.unfit(s, v, at, err)
		return
	}
	r.put(s, to, at)
}

// put sets a setting; zero counts as not set.
func (r *reader) put(s *setting, v reflect.Value, at string) {
	if !v.IsZero() {
		r.given = append(r.given, given{*s, v, at})
	}
}

// unfit reports a value that does not fit its setting. Pairs are not shown,
// because headers can be secrets.
func (r *reader) unfit(s *setting, v any, at string, err error) {
	switch s.field.Type {
	case reflect.TypeFor[Headers](), reflect.TypeFor[Metadata]():
		v = nil
	}
	r.problem(s.key, at, v, err)
}

func (r *reader) problem(key, at string, v any, err error) {
	r.found = append(r.found, Problem{key, v, err.Error(), at})
}

// unknownKey describes a key that its section does not have, and suggests keys:
// keys of the section that contain it or are similar, the same key in another
// section, or a similar one there.
func unknownKey(key, section string) string {
	word := plainWord(key)
	meant, least := nearest(allSettings(), func(s setting) int {
		elsewhere := 0
		if s.section != section {
			elsewhere = 1
		}
		return 2*min(editsBetween(word, s.plain[0]), editsBetween(word, s.plain[1])) + elsewhere
	})
	var quoted []string
	for _, s := range meant[:min(len(meant), 3)] {
		quoted = append(quoted, strconv.Quote(s.key))
	}
	names := strings.Join(quoted, " or ")
	switch key := shown(key); {
	case len(meant) == 0:
		return fmt.Sprintf("unknown key %q; trainspan help configuration lists all keys", key)
	case least == 1:
		return fmt.Sprintf("%q is not valid here; use %s", key, names)
	default:
		return fmt.Sprintf("unknown key %q; did you mean %s?", key, names)
	}
}
