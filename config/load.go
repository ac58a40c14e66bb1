package config

import (
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/environ"
)

// dftracerFile names a configuration file of DFTracer itself.
const dftracerFile = "DFTRACER_CONFIGURATION"

// LoadOptions configures where [Load] finds a configuration.
type LoadOptions struct {
	// Path is the YAML or JSON file. Empty means the file that the variable
	// TRAINSPAN_CONFIG names; when that is empty too, there is no file.
	Path string
	// LookupEnv finds environment variables. Nil is os.LookupEnv; only then is the
	// environment searched for misspelt names.
	LookupEnv func(name string) (string, bool)
	// Code holds what the program itself sets. Every field in it that is not zero wins
	// over the environment and the file.
	Code Config
	// AllowUnknown makes warnings of keys of the file that no field has.
	AllowUnknown bool
	// Partial leaves validation to the caller, who will add to the result.
	Partial bool
}

// Load joins the file, the environment and code, and validates the result. Code wins
// over the environment, and the environment over the file, field by field; custom
// metadata, resource attributes and headers are joined key by key. If nothing else gives
// them, the trace settings of the file that DFTRACER_CONFIGURATION names are taken, and
// the service name for the application name. Suspicious things are in the Config's
// Warnings.
//
// A file that cannot be read is an error by itself. Every other problem, of any source,
// is in one [*ValidationError]; the Config then holds what fits.
func Load(opts LoadOptions) (Config, error) {
	l := loader{places: map[string]string{}}
	lookup := opts.LookupEnv
	if lookup == nil {
		lookup = os.LookupEnv
		l.checkNames()
	}
	if path, _ := lookup(dftracerFile); path != "" {
		root, err := readFile(path)
		if err != nil {
			return Config{}, err
		}
		l.dftracer(root)
	}
	if opts.Path == "" {
		opts.Path, _ = lookup(environ.File)
	}
	if opts.Path != "" {
		root, err := readFile(opts.Path)
		if err != nil {
			return Config{}, err
		}
		r, layer := reader{places: map[string]string{}}, Config{}
		r.section(root, reflect.ValueOf(&layer).Elem(), "", opts.Path)
		if opts.AllowUnknown {
			l.cfg.Warnings = append(l.cfg.Warnings, r.unknown...)
		} else {
			r.found = append(r.found, r.unknown...)
		}
		l.lay(&layer, &r)
	}
	l.environment(lookup)
	l.lay(&opts.Code, &reader{})
	l.cfg.Ranks.take(&opts.Code.Ranks)
	l.cfg.nameApplication()
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
	places map[string]string // where the value of a setting came from
}

// lay puts one source over the weaker ones.
func (l *loader) lay(layer *Config, r *reader) {
	l.add(r.found)
	for key, at := range r.places {
		if strings.HasSuffix(key, ".") { // a section
			l.places[key] = at
		}
	}
	overlay(&l.cfg, layer, func(key string) { l.places[key] = r.places[key] })
}

// add takes problems, except about fields that have one already, themselves or their
// section, and gives them their places.
func (l *loader) add(more problems) {
	before := l.found
	for _, p := range more {
		reported := func(q Problem) bool { return q.Field == p.Field || strings.HasPrefix(p.Field, q.Field+".") }
		if p.Where == "" && slices.ContainsFunc(before, reported) {
			continue
		} else if p.Where == "" {
			p.Where = l.place(p.Field)
		}
		l.found = append(l.found, p)
	}
}

// place is where a setting was given, or the section that lacks it.
func (l *loader) place(field string) string {
	for field != "" {
		if at, ok := l.places[field]; ok {
			return at
		} else if at, ok := l.places[field+"."]; ok {
			return at
		}
		field = field[:max(0, strings.LastIndexByte(field, '.'))]
	}
	return ""
}

func (l *loader) warn(variable string, value any, message string) {
	l.cfg.Warnings = append(l.cfg.Warnings, Problem{Value: value, Message: message, Where: variable})
}

// dftracer takes the settings that a configuration of DFTracer has; the rest of it is
// about interception.
func (l *loader) dftracer(root any) {
	m, _ := root.(mapping)
	r, layer := reader{places: map[string]string{}}, Config{}
	for _, s := range settingsOf(reflect.TypeFor[Config](), "") {
		for theirs := range strings.SplitSeq(s.field.Tag.Get("dftracer"), ",") {
			e, ok := m.get(strings.Split(theirs, ".")...)
			if text, one := e.value.(string); one && s.key == "outputs.trace.data_dirs" {
				e.value = folders(text)
			}
			if ok && e.value != nil {
				r.set(s.in(reflect.ValueOf(&layer).Elem()), e.value, s.key, e.at)
				break
			}
		}
	}
	l.lay(&layer, &r)
}

// nameApplication takes the service name if nothing else names the application.
func (c *Config) nameApplication() {
	if c.ApplicationName == "" {
		c.ApplicationName = c.OTel.ServiceName
	}
	if name, ok := c.OTel.ResourceAttributes.Get("service.name"); ok && c.ApplicationName == "" {
		c.ApplicationName, _ = name.(string)
	}
}

// overlay copies into dst every setting of src that is not zero; entries of metadata and
// headers are joined key by key. The two share no slice, map or pointer afterwards. It
// calls onSet with the key of each.
func overlay[T Config | Base | Training](dst, src *T, onSet func(key string)) {
	to, from := reflect.ValueOf(dst).Elem(), reflect.ValueOf(src).Elem()
	all := settingsOf(to.Type(), "")
	given := make([]reflect.Value, len(all))
	for i, s := range all {
		v, err := from.FieldByIndexErr(s.index)
		if err != nil || v.IsZero() {
			continue
		}
		given[i] = v
		for name := range strings.SplitSeq(s.field.Tag.Get("clears"), ",") {
			section := s.key[:strings.LastIndexByte(s.key, '.')+1]
			if j := slices.IndexFunc(all, func(o setting) bool { return o.key == section+name }); j >= 0 {
				all[j].in(to).SetZero()
			}
		}
	}
	for i, s := range all {
		if given[i].IsValid() {
			copySetting(s.in(to), given[i])
			onSet(s.key)
		}
	}
}

// copySetting copies the value of one setting.
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
	case *Training: // its settings follow
		if dst.IsNil() {
			dst.Set(reflect.ValueOf(&Training{}))
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
