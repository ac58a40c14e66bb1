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

// dftracerFile is the variable with DFTracer's own configuration file.
const dftracerFile = "DFTRACER_CONFIGURATION"

// LoadOptions sets where [Load] finds a configuration.
type LoadOptions struct {
	// Path is the YAML or JSON file. Empty means the file that the variable
	// TRAINSPAN_CONFIG names; if that is empty too, no file is read.
	Path string
	// LookupEnv looks up environment variables. Nil means os.LookupEnv; only then
	// is the environment searched for misspelt names.
	LookupEnv func(name string) (string, bool)
	// Code holds what the program sets. Every field in it that is not zero takes
	// precedence over the environment and the file.
	Code Config
	// Partial leaves validation to the caller, who will add to the result. If Load
	// fails, its error still includes values that break a rule.
	Partial bool
}

// Load merges the file, the environment and code, and validates the result.
// Code takes precedence over the environment, and the environment over the
// file, field by field; custom metadata, resource attributes and headers are
// merged key by key. If nothing else sets them, the trace settings come from
// the file that DFTRACER_CONFIGURATION names, and the application name from the
// service name. Warnings lists suspicious settings.
//
// If a file cannot be opened, that is the only error. Otherwise all problems are in
// one [*ValidationError], including syntax errors; the Config then holds what
// could be read. It keeps where settings were found, so that a later
// [Config.Validate] reports the positions.
func Load(opts LoadOptions) (Config, error) {
	l := loader{cfg: Config{origins: map[string]origin{}}}
	lookup := opts.LookupEnv
	if lookup == nil {
		lookup = os.LookupEnv
		l.checkNames()
	}
	if path := textOf(lookup, dftracerFile); path != "" {
		if err := l.file(path, (*reader).dftracer); err != nil {
			return Config{}, fmt.Errorf("config: %s: %w", dftracerFile, err)
		}
	}
	path, from := opts.Path, ""
	if path == "" {
		path = textOf(lookup, environ.File)
		from = environ.File + ": "
	}
	if path != "" {
		if err := l.file(path, func(r *reader, root any, path string) { r.section(root, "", path) }); err != nil {
			return Config{}, fmt.Errorf("config: %s%w", from, err)
		}
	}
	l.environment(lookup)
	weaker := l.layers
	l.lay(&reader{given: givenBy(&opts.Code, opts.Code.place)})
	l.cfg.Ranks.take(&opts.Code.Ranks)
	l.layers = weaker
	l.signals(lookup, &opts.Code)
	attribute, _ := l.cfg.OTel.ResourceAttributes.Get("service.name")
	name, _ := attribute.(string)
	l.cfg.ApplicationName = cmp.Or(l.cfg.ApplicationName, l.cfg.OTel.ServiceName, name)
	l.checkTLS()
	l.checkSampler(lookup)
	l.ignoreUnused()
	if !opts.Partial || len(l.found) > 0 {
		l.addViolations(opts.Partial)
	}
	return l.cfg, l.found.err()
}

// textOf returns the text of a variable, "" if it is not set.
func textOf(lookup func(string) (string, bool), name string) string {
	value, _ := lookup(name)
	return strings.TrimSpace(value)
}

// loader merges sources from the weakest to the strongest.
type loader struct {
	cfg    Config
	found  problems
	layers [][]given // of the sources, up to the environment
}

func (l *loader) file(path string, read func(r *reader, root any, path string)) error {
	r := &reader{all: allSettings()}
	root, err := r.document(document.ReadFile(path))
	if err != nil {
		return err
	}
	read(r, root, path)
	l.lay(r)
	return nil
}

// dftracer reads the settings of a DFTracer configuration; the rest of it is
// about interception.
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

// lay applies one source to the weaker ones.
func (l *loader) lay(r *reader) {
	l.found = append(append(l.found, r.found...), r.unknown...)
	apply(reflect.ValueOf(&l.cfg).Elem(), r.given, l.cfg.origins)
	l.layers = append(l.layers, r.given)
}

// addViolations adds the broken rules, except for settings whose value or
// section already has a problem, and for missing settings if a part of a file
// could not be read or the program will add to the result.
func (l *loader) addViolations(partial bool) {
	before := l.found
	for _, p := range l.cfg.violations() {
		missing := p.Value == nil
		if !slices.ContainsFunc(before, func(q Problem) bool {
			return q.Field == p.Field || q.Field != "" && strings.HasPrefix(p.Field, q.Field+".") || missing && (partial || q.Field == "")
		}) {
			l.found = append(l.found, p)
		}
	}
}

// ignoreUnused replaces problems of OpenTelemetry's variables by warnings if nothing is sent.
func (l *loader) ignoreUnused() {
	o := &l.cfg.Outputs.OTLP
	if o.Enabled.Or(true) && !l.cfg.OTel.SDKDisabled.Or(false) {
		return
	}
	unused := func(p Problem) bool {
		return strings.HasPrefix(p.Field, "outputs.otlp.") && strings.HasPrefix(p.Where, "OTEL_")
	}
	for _, p := range slices.Concat(l.found, l.cfg.violations()) {
		if !unused(p) {
			continue
		}
		p.Message += "; ignored"
		l.cfg.Warnings = append(l.cfg.Warnings, p)
		for _, s := range allSettings() {
			if s.key == p.Field || strings.HasPrefix(p.Field, s.key+".") && !s.inner {
				s.in(reflect.ValueOf(&l.cfg).Elem()).SetZero()
			}
		}
	}
	l.found = slices.DeleteFunc(l.found, unused)
}

// checkTLS warns about certificates without an endpoint that uses TLS. Variables with
// certificates are not reported: they may be there for another program.
func (l *loader) checkTLS() {
	o := &l.cfg.Outputs.OTLP
	for _, address := range []string{o.TracesURL(), o.LogsURL(), o.MetricsURL()} {
		if address != "" && !strings.HasPrefix(address, "http://") {
			return
		}
	}
	for _, f := range []struct{ key, path string }{
		{"outputs.otlp.certificate", o.Certificate}, {"outputs.otlp.client_certificate", o.ClientCertificate},
	} {
		if at := l.cfg.place(f.key); f.path != "" && !strings.HasPrefix(at, "OTEL_") {
			l.cfg.Warnings = append(l.cfg.Warnings, Problem{Field: f.key, Value: f.path, Message: "has no effect, because the endpoint uses http://", Where: at})
		}
	}
}

// checkSampler warns about a sampler of the environment if spans are sent.
func (l *loader) checkSampler(lookup func(string) (string, bool)) {
	const name = "OTEL_TRACES_SAMPLER"
	o, text := &l.cfg.Outputs.OTLP, textOf(lookup, name)
	if on := o.Enabled.Or(o.Endpoint != "" || o.TracesEndpoint != "") && !l.cfg.OTel.SDKDisabled.Or(false); !on || text == "" || text == "always_on" || text == "parentbased_always_on" {
		return
	}
	l.warn(name, text, "has no effect: spans are not sampled but selected, see export.mode")
}

// origin is where a setting or a section was set, and the value there.
type origin struct {
	at    string
	value any
}

// place returns where a setting was set or, if it was not, the section that
// lacks it. A value that the program has set later has no place.
func (c *Config) place(key string) string {
	all := allSettings()
	for ; ; key = key[:max(0, strings.LastIndexByte(key, '.'))] {
		i := slices.IndexFunc(all, func(s setting) bool { return s.key == key && !s.inner })
		if i >= 0 {
			v, err := reflect.ValueOf(c).Elem().FieldByIndexErr(all[i].index)
			if err != nil || v.IsZero() {
				continue
			}
			if o := c.origins[key]; reflect.DeepEqual(o.value, v.Interface()) {
				return o.at
			}
			return ""
		}
		if o, ok := c.origins[key]; ok || key == "" {
			return o.at
		}
	}
}

func (l *loader) warn(variable string, value any, message string) {
	l.cfg.Warnings = append(l.cfg.Warnings, Problem{Value: value, Message: message, Where: variable})
}

// givenBy returns the settings that a program has set.
func givenBy[T Config | Base | Training](c *T, place func(key string) string) []given {
	root := reflect.ValueOf(c).Elem()
	var r reader
	for _, s := range settingsIn()[root.Type()] {
		if v, err := root.FieldByIndexErr(s.index); err == nil {
			r.put(&s, v, place(s.key))
		}
	}
	return r.given
}

// apply applies the settings of one source to the weaker ones; entries of
// metadata and headers are merged key by key. Source and result then share no
// slice, map or pointer. It adds to origins, which may be nil.
func apply(root reflect.Value, source []given, origins map[string]origin) {
	all := settingsIn()[root.Type()]
	for _, g := range source {
		for name := range strings.SplitSeq(g.field.Tag.Get("clears"), ",") {
			if i := slices.IndexFunc(all, func(o setting) bool { return o.section == g.section && o.is(name) }); i >= 0 {
				all[i].in(root).SetZero()
			}
		}
	}
	for _, g := range source {
		f, o := g.in(root), origin{at: g.at}
		switch {
		case !g.inner:
			copySetting(f, g.value)
			o.value = f.Interface()
		case f.Kind() == reflect.Pointer && f.IsNil():
			f.Set(reflect.New(f.Type().Elem()))
		}
		if origins != nil && (g.at != "" || !g.inner) {
			origins[g.key] = o
		}
	}
}

func copySetting(dst, src reflect.Value) {
	switch v := src.Interface().(type) {
	case Metadata:
		have := dst.Interface().(Metadata)
		merged := append(Metadata{}, have...)
		for _, e := range v {
			// Validation reports two entries with one key in the same source.
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
	apply(reflect.ValueOf(&out).Elem(), givenBy(c, func(string) string { return "" }), nil)
	if o, ok := any(&out).(*Config); ok {
		from := any(c).(*Config)
		o.Ranks, o.Warnings, o.origins = from.Ranks, slices.Clone(from.Warnings), from.origins
		o.Outputs.OTLP.perSignal = from.Outputs.OTLP.perSignal
	}
	return out
}
