package config

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/platform/document"
	"github.com/trainspan/trainspan/internal/platform/environ"
)

// dftracerFile names a configuration file of DFTracer itself.
const dftracerFile = "DFTRACER_CONFIGURATION"

// LoadOptions configures where [Load] finds a configuration.
type LoadOptions struct {
	// Path is the YAML or JSON file. Empty means the file that the variable TRAINSPAN_CONFIG names;
	// when that is empty too, there is no file.
	Path string
	// LookupEnv finds environment variables. Nil is os.LookupEnv; only then is the environment
	// searched for misspelt names.
	LookupEnv func(name string) (string, bool)
	// Code holds what the program itself sets. Every field in it that is not zero wins over the
	// environment and the file.
	Code Config
	// Partial leaves validation to the caller, who will add to the result.
	Partial bool
}

// Load joins the file, the environment and code, and validates the result. Code wins over the
// environment, and the environment over the file, field by field; custom metadata, resource
// attributes and headers are joined key by key. If nothing else gives them, the trace settings of
// the file that DFTRACER_CONFIGURATION names are taken, and the service name for the application
// name. Warnings hold what is suspicious.
//
// A file that cannot be read is an error by itself. Every other problem is in one
// [*ValidationError]; the Config then holds what fits.
func Load(opts LoadOptions) (Config, error) {
	l := loader{places: map[string]string{}}
	lookup := opts.LookupEnv
	if lookup == nil {
		lookup = os.LookupEnv
		l.checkNames()
	}
	if path, _ := lookup(dftracerFile); path != "" {
		if err := l.file(path, (*reader).dftracer); err != nil {
			return Config{}, fmt.Errorf("config: %s: %w", dftracerFile, err)
		}
	}
	path, from := opts.Path, ""
	if path == "" {
		path, _ = lookup(environ.File)
		from = environ.File + ": "
	}
	if path != "" {
		if err := l.file(path, func(r *reader, root any, path string) { r.section(root, "", path) }); err != nil {
			return Config{}, fmt.Errorf("config: %s%w", from, err)
		}
	}
	l.environment(lookup)
	l.lay(&opts.Code, newReader(&opts.Code))
	attribute, _ := l.cfg.OTel.ResourceAttributes.Get("service.name")
	name, _ := attribute.(string)
	l.cfg.ApplicationName = cmp.Or(l.cfg.ApplicationName, l.cfg.OTel.ServiceName, name)
	if !opts.Partial {
		var p problems
		l.cfg.validate(&p)
		l.add(p)
	}
	return l.cfg, l.found.err()
}

// loader joins sources from the weakest to the strongest.
type loader struct {
	cfg    Config
	found  problems
	places map[string]string // where each setting and section came from
}

func (l *loader) file(path string, read func(r *reader, root any, path string)) error {
	root, err := document.ReadFile(path)
	if err != nil {
		return err
	}
	var layer Config
	r := newReader(&layer)
	read(r, root, path)
	l.lay(&layer, r)
	return nil
}

// dftracer takes the settings that a configuration of DFTracer has; the rest of it is about
// interception.
func (r *reader) dftracer(root any, path string) {
	m := r.mapping(root, "", path)
	for _, s := range r.all {
		for theirs := range strings.SplitSeq(s.field.Tag.Get("dftracer"), ",") {
			e, ok := m.Get(strings.Split(theirs, ".")...)
			if text, one := e.Value.(string); one && s.key == "outputs.trace.data_dirs" {
				e.Value = folders(text)
			}
			if ok && e.Value != nil {
				r.set(&s, e.Value, e.At)
				break
			}
		}
	}
}

// lay puts one source over the weaker ones.
func (l *loader) lay(layer *Config, r *reader) {
	l.add(append(r.found, r.unknown...))
	for _, s := range r.all {
		if at, ok := r.places[s.key]; ok && s.inner {
			l.places[s.key] = at
		}
	}
	overlay(&l.cfg, layer, func(key string) { l.places[key] = r.places[key] })
	l.cfg.Ranks.take(&layer.Ranks)
}

// add takes problems. Those of validation have no place yet; they are left out if the setting or
// its section has a problem already.
func (l *loader) add(more problems) {
	before := l.found
	for _, p := range more {
		if p.Where == "" {
			if slices.ContainsFunc(before, func(q Problem) bool {
				return q.Field == "" || q.Field == p.Field || strings.HasPrefix(p.Field, q.Field+".")
			}) {
				continue
			}
			p.Where = l.place(p.Field)
		}
		l.found = append(l.found, p)
	}
}

// place is where a setting was given, or the section that lacks it.
func (l *loader) place(key string) string {
	at, ok := l.places[key]
	for !ok && key != "" {
		key = key[:max(0, strings.LastIndexByte(key, '.'))]
		at, ok = l.places[key]
	}
	return at
}

func (l *loader) warn(variable string, value any, message string) {
	l.cfg.Warnings = append(l.cfg.Warnings, Problem{Value: value, Message: message, Where: variable})
}

// overlay copies into dst every setting of src that is not zero; entries of metadata and headers
// are joined key by key. The two share no slice, map or pointer afterwards. It calls onSet with the
// key of each.
func overlay[T Config | Base | Training](dst, src *T, onSet func(key string)) {
	to, from := reflect.ValueOf(dst).Elem(), reflect.ValueOf(src).Elem()
	all := settingsIn()[to.Type()]
	given := slices.DeleteFunc(slices.Clone(all), func(s setting) bool {
		v, err := from.FieldByIndexErr(s.index)
		return err != nil || v.IsZero()
	})
	for _, s := range given {
		for name := range strings.SplitSeq(s.field.Tag.Get("clears"), ",") {
			if i := slices.IndexFunc(all, func(o setting) bool { return o.section == s.section && o.is(name) }); i >= 0 {
				all[i].in(to).SetZero()
			}
		}
	}
	for _, s := range given {
		if f := s.in(to); !s.inner {
			copySetting(f, from.FieldByIndex(s.index))
			onSet(s.key)
		} else if f.Kind() == reflect.Pointer && f.IsNil() {
			f.Set(reflect.New(f.Type().Elem()))
		}
	}
}

func copySetting(dst, src reflect.Value) {
	switch v := src.Interface().(type) {
	case Metadata:
		have := dst.Interface().(Metadata)
		merged := append(Metadata{}, have...)
		for _, e := range v {
			// Two entries with one key in the same source are for validation to find.
			if i := have.index(e.Key); i >= 0 {
				merged[i].Value = e.Value
			} else {
				merged = append(merged, e)
			}
		}
		dst.Set(reflect.ValueOf(merged))
	case Headers:
		merged := Headers{}
		maps.Copy(merged, dst.Interface().(Headers))
		maps.Copy(merged, v)
		dst.Set(reflect.ValueOf(merged))
	case []string:
		dst.Set(reflect.ValueOf(slices.Clone(v)))
	case Var[[]string]:
		if dst.Set(src); !v.IsFunc() {
			dst.Set(reflect.ValueOf(Value(slices.Clone(v.Get()))))
		}
	default:
		dst.Set(src)
	}
}

// Clone returns a copy that shares no slice, map or pointer with c. Functions are shared.
func Clone[T Config | Base | Training](c *T) T {
	var out T
	overlay(&out, c, func(string) {})
	if o, ok := any(&out).(*Config); ok {
		from := any(c).(*Config)
		o.Ranks, o.Warnings = from.Ranks, slices.Clone(from.Warnings)
	}
	return out
}
