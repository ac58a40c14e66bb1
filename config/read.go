package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agnivade/levenshtein"
)

// setting is one field of a configuration, or a section that may be missing.
type setting struct {
	key   string // with the sections before it, such as "training.seq_length"
	index []int  // of the field, from the root
	field reflect.StructField
}

// settingsOf lists the settings of a struct with keys, sections resolved, in their order.
func settingsOf(t reflect.Type, prefix string) (all []setting) {
	for _, f := range reflect.VisibleFields(t) {
		if f.Tag.Get("key") == "" {
			continue
		}
		s := setting{join(prefix, f.Tag.Get("key")), f.Index, f}
		below := sectionType(f.Type)
		if below == nil || f.Type != below {
			all = append(all, s)
		}
		if below != nil {
			for _, inner := range settingsOf(below, s.key) {
				inner.index = slices.Concat(s.index, inner.index)
				all = append(all, inner)
			}
		}
	}
	return all
}

// sectionType is the struct type of a field that is a section, else nil.
func sectionType(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || !slices.ContainsFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return f.Tag.Get("key") != "" }) {
		return nil
	}
	return t
}

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

func join(path, key string) string { return strings.TrimPrefix(path+"."+key, ".") }

// A mapping is a section as a source has it. Values are mappings, []any, func() any or
// scalars; nil is not set.
type mapping []entry

type entry struct {
	key       string
	value     any
	keyAt, at string // file:line:column of both; empty for Go values
}

// fromGo makes mappings of the maps in a Go value.
func fromGo(v any) any {
	m := mapping{}
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			m = append(m, entry{key: key, value: fromGo(v[key])})
		}
		return m
	case Metadata:
		for _, e := range v {
			m = append(m, entry{key: e.Key, value: fromGo(e.Value)})
		}
		return m
	}
	return v
}

// toGo makes Metadata of the mappings in a value.
func toGo(v any) any {
	switch v := v.(type) {
	case mapping:
		m := make(Metadata, len(v))
		for i, e := range v {
			m[i].Key, m[i].Value = e.key, toGo(e.value)
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

// Decode reads a [Config], a [Base] or a [Training] from src: YAML or JSON as []byte or
// string, or what encoding/json makes of an object, whose values may be a func() any
// where the field takes a function. One-logger's names of keys are understood too. name
// is what places are called in problems, usually a file's path.
//
// A key that no field has is in unknown, and does not fail. The error is a
// [*ValidationError] with every value that does not fit its field, or the reason why src
// cannot be read. The result is not validated.
func Decode[T Config | Base | Training](src any, name string) (out T, unknown []Problem, err error) {
	root := fromGo(src)
	switch s := src.(type) {
	case []byte:
		root, err = readDocument(s, name)
	case string:
		root, err = readDocument([]byte(s), name)
	}
	if err != nil {
		return out, nil, err
	}
	r := reader{}
	r.section(root, reflect.ValueOf(&out).Elem(), "", name)
	return out, r.unknown, r.found.err()
}

// reader puts what a source has into fields, and collects what does not fit.
type reader struct {
	found   problems
	unknown []Problem
	places  map[string]string // where each setting was given, if not nil
}

func (r *reader) section(v any, dst reflect.Value, path, at string) {
	m, ok := v.(mapping)
	if v == nil {
		return
	} else if !ok {
		r.problem(cmp.Or(path, "configuration"), at, v, errors.New("must be a mapping of keys to values"))
		return
	}
	if r.places != nil {
		r.places[path+"."] = at
	}
	fields := slices.DeleteFunc(reflect.VisibleFields(dst.Type()), func(f reflect.StructField) bool { return f.Tag.Get("key") == "" })
	given := map[string]string{} // the spelling used for each key
	for _, e := range m {
		i := slices.IndexFunc(fields, func(f reflect.StructField) bool {
			return e.key == f.Tag.Get("key") || e.key == f.Tag.Get("alias") && e.key != ""
		})
		if i < 0 {
			r.unknown = append(r.unknown, unknownKey(e, fields, path))
			continue
		}
		if fields[i].Name == "PerfTag" && isList(e.value) { // a list is the other field, which is the next one
			i++
		}
		key := fields[i].Tag.Get("key")
		to, in := dst.FieldByIndex(fields[i].Index), join(path, key)
		if before, twice := given[key]; twice {
			r.problem(in, e.keyAt, nil, fmt.Errorf("given twice, as %q and %q", before, e.key))
			continue
		}
		given[key] = e.key
		switch {
		case e.value == nil:
		case sectionType(to.Type()) == nil:
			r.set(to, e.value, in, e.at)
		case to.Kind() == reflect.Pointer:
			to.Set(reflect.New(to.Type().Elem()))
			r.section(e.value, to.Elem(), in, e.at)
		default:
			r.section(e.value, to, in, e.at)
		}
	}
}

// isList calls a function once to learn what it gives.
func isList(v any) bool {
	if f, ok := v.(func() any); ok {
		v = f()
	}
	_, err := toTexts(v)
	_, list := v.([]any)
	return list || err == nil
}

// set puts a value into a field that is no section.
func (r *reader) set(dst reflect.Value, v any, path, at string) {
	if err := assign(dst, v); err != nil {
		if dst.Type() == reflect.TypeFor[Headers]() {
			v = nil // it is never shown, right or wrong
		}
		r.problem(path, at, v, err)
	} else if r.places != nil {
		r.places[path] = at
	}
}

func (r *reader) problem(path, at string, v any, err error) {
	if reflect.ValueOf(v).Kind() == reflect.Slice {
		v = nil // it may hold a secret; only a scalar is worth showing
	}
	r.found = append(r.found, Problem{Field: path, Value: v, Message: err.Error(), Where: at})
}

// unknownKey describes a key that its section lacks. A key of one other place is meant
// for that place, as in a flat configuration; for any other the nearest key is named.
func unknownKey(e entry, fields []reflect.StructField, path string) Problem {
	p := Problem{Field: join(path, e.key), Where: e.keyAt}
	var places []string
	for _, s := range settingsOf(reflect.TypeFor[Config](), "") {
		if tag := s.field.Tag; e.key == tag.Get("key") || e.key == tag.Get("alias") {
			places = append(places, s.key)
		}
	}
	if len(places) == 1 {
		p.Message = fmt.Sprintf("%q does not belong here; its key is %q", e.key, places[0])
		return p
	}
	var known []string
	for _, f := range fields {
		known = append(known, f.Tag.Get("key"))
		if alias := f.Tag.Get("alias"); alias != "" {
			known = append(known, alias)
		}
	}
	p.Message = fmt.Sprintf("unknown key %q; the nearest known key is %q", e.key, join(path, nearest(e.key, known)))
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
		return assignVar(p, v, toText)
	case *Var[int]:
		return assignVar(p, v, toInt)
	case *Var[bool]:
		return assignVar(p, v, toBool)
	case *Var[[]string]:
		return assignVar(p, v, toTexts)
	case *[]string:
		return assignTo(p, v, toTexts)
	case *int:
		return assignTo(p, v, toInt)
	case *time.Duration:
		return assignTo(p, v, toDuration)
	case *Metadata:
		m, ok := v.(mapping)
		if !ok {
			return errors.New("must be a mapping of keys to values")
		}
		*p = toGo(m).(Metadata)
	case *Headers:
		m, ok := v.(mapping)
		if !ok {
			return errors.New("must be a mapping of names to values")
		}
		*p = Headers{}
		for _, e := range m {
			s, err := toText(e.value)
			if err != nil {
				return fmt.Errorf("%s: %w", e.key, err)
			}
			(*p)[e.key] = s
		}
	default: // a string, perhaps of a type of its own
		s, err := toText(v)
		if err != nil {
			return err
		}
		dst.SetString(s)
	}
	return nil
}

func assignTo[T any](dst *T, v any, convert func(any) (T, error)) error {
	t, err := convert(v)
	if err == nil {
		*dst = t
	}
	return err
}

// assignVar takes a function too. A result that does not fit counts as zero, which
// validation refuses where it matters: a function may change its mind between calls.
func assignVar[T any](dst *Var[T], v any, convert func(any) (T, error)) error {
	if f, ok := v.(func() any); ok {
		*dst = Func(func() T { t, _ := convert(f()); return t })
		return nil
	}
	t, err := convert(v)
	if err == nil {
		*dst = Value(t)
	}
	return err
}

// The converters turn a value from a source into the type of a field. They are as lax as
// one-logger: a whole float and a number in quotes are integers.

func toText(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case nil, mapping, []any:
		return "", errors.New("must be a string")
	}
	return "", errors.New("must be a string; put it in quotes")
}

// toInt reads digits, also with single underscores between them, or a float without a
// fraction.
func toInt(v any) (int, error) {
	var digits string
	switch x := v.(type) {
	case string:
		digits = strings.TrimSpace(x)
	case json.Number, fmt.Stringer: // a *big.Int
		digits = fmt.Sprint(x)
	default:
		if k := reflect.ValueOf(v).Kind(); k < reflect.Int || k > reflect.Float64 {
			return 0, errors.New("must be an integer")
		}
		digits = fmt.Sprint(x)
	}
	if !strings.HasPrefix(digits, "_") && !strings.HasSuffix(digits, "_") && !strings.Contains(digits, "__") {
		digits = strings.ReplaceAll(digits, "_", "")
	}
	i, err := strconv.Atoi(digits)
	if err == nil {
		return i, nil
	}
	f, ferr := strconv.ParseFloat(digits, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("does not fit in %d bits", strconv.IntSize)
	case ferr != nil || strings.ContainsAny(digits, "xXpP_"):
		return 0, errors.New("must be an integer")
	case math.IsNaN(f) || math.IsInf(f, 0):
		return 0, errors.New("must be a finite integer")
	case f != math.Trunc(f):
		return 0, errors.New("must be an integer without a fraction")
	case f < math.MinInt || f >= math.MaxInt:
		return 0, fmt.Errorf("does not fit in %d bits", strconv.IntSize)
	}
	return int(f), nil
}

func toBool(v any) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(fmt.Sprint(v))) {
	case "1", "true", "t", "yes", "y", "on":
		return true, nil
	case "0", "false", "f", "no", "n", "off":
		return false, nil
	}
	return false, errors.New("must be true or false")
}

// toDuration reads Go's notation. A bare number has no unit, so only zero is understood.
func toDuration(v any) (time.Duration, error) {
	if d, ok := v.(time.Duration); ok {
		return d, nil
	}
	d, err := time.ParseDuration(strings.TrimSpace(fmt.Sprint(v)))
	if err != nil {
		return 0, errors.New(`must be a duration with its unit, such as "500ms" or "10s"`)
	}
	return d, nil
}

func toTexts(v any) ([]string, error) {
	switch list := v.(type) {
	case []string:
		return slices.Clone(list), nil
	case []any:
		out := make([]string, len(list))
		for i, item := range list {
			s, err := toText(item)
			if err != nil {
				return nil, fmt.Errorf("must be a list of strings; item %d is not a string", i)
			}
			out[i] = s
		}
		return out, nil
	}
	return nil, errors.New("must be a list of strings")
}
