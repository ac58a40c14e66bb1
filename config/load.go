package config

import (
	"fmt"
	"os"
	"strings"

	"github.com/trainspan/trainspan/internal/environ"
)

// LoadOptions says where [Load] finds a configuration.
type LoadOptions struct {
	// Path is the YAML or JSON file. Empty means the file that the variable
	// TRAINSPAN_CONFIG names; when that is empty too, there is no file.
	Path string
	// LookupEnv finds environment variables. Nil is os.LookupEnv; only then is
	// the environment searched for names that look like ours and are none.
	LookupEnv func(name string) (string, bool)
	// Code holds what the program itself sets. Every field in it that is not
	// zero wins over the environment and the file.
	Code Config
	// AllowUnknown ignores keys of the file that no field has.
	AllowUnknown bool
	// Partial leaves validation to the caller, who will add to the result.
	Partial bool
}

// Load joins the file, the environment and code, and validates the result.
// Code wins over the environment, and the environment over the file, field by
// field; custom metadata, resource attributes and headers are joined key by
// key. Where nothing else gives them, the trace settings of the file that
// DFTRACER_CONFIGURATION names are taken, and the service name for the
// application name. What is suspicious is in the Config's Warnings.
//
// A file that cannot be read is an error by itself. Every other problem, of any
// source, is in one [*ValidationError]; the Config then holds what was fit to
// be read.
func Load(opts LoadOptions) (Config, error) {
	lookup := opts.LookupEnv
	if lookup == nil {
		lookup = os.LookupEnv
	}
	l := loader{places: map[string]string{}}
	if opts.LookupEnv == nil {
		checkNames(&l.suspect, os.Environ())
	}
	if path, _ := lookup(dftracerFileVariable); path != "" {
		n, err := readFile(path)
		if err != nil {
			return Config{}, err
		}
		l.decode(dftracerNode(n), true)
	}
	path := opts.Path
	if path == "" {
		path, _ = lookup(environ.File)
	}
	if path != "" {
		n, err := readFile(path)
		if err != nil {
			return Config{}, err
		}
		l.decode(n, opts.AllowUnknown)
	}
	l.environment(lookup)
	l.lay(&opts.Code, nil)
	l.settle()
	if !opts.Partial {
		l.validate()
	}
	return l.cfg, l.found.err()
}

// loader joins sources from the weakest to the strongest.
type loader struct {
	cfg     Config
	found   problems
	suspect problems
	places  map[string]string // where the value of a field came from
}

func (l *loader) decode(n *node, allowUnknown bool) {
	var layer Config
	d := decoder{allowUnknown: allowUnknown, places: map[string]string{}}
	d.root(n, &layer)
	l.found.list = append(l.found.list, d.found.list...)
	l.lay(&layer, d.places)
}

func (l *loader) environment(lookup func(string) (string, bool)) {
	n, unreadable, suspect := readEnvironment(lookup)
	l.found.list = append(l.found.list, unreadable.list...)
	l.suspect.list = append(l.suspect.list, suspect.list...)
	l.decode(n, false)
	ranks, unreadable := detectRanks(lookup)
	l.cfg.Ranks = ranks
	for _, p := range unreadable.list {
		if !l.reported(p.Field) {
			l.found.list = append(l.found.list, p)
		}
	}
}

// settle adds what follows from the sources together.
func (l *loader) settle() {
	c := &l.cfg
	c.Warnings = l.suspect.list
	if c.ApplicationName == "" {
		c.ApplicationName = c.OTel.ServiceName
	}
	if name, ok := c.OTel.ResourceAttributes.Get("service.name"); ok && c.ApplicationName == "" {
		c.ApplicationName, _ = name.(string)
	}
}

// lay puts one source over the weaker ones.
func (l *loader) lay(layer *Config, places map[string]string) {
	o := overlayer{onSet: func(path string) {
		if where, ok := places[path]; ok {
			l.places[path] = where
		} else {
			delete(l.places, path)
		}
	}}
	o.structOf(&l.cfg, layer)
}

// validate adds what is wrong with the joined values, except about fields that
// have a problem already.
func (l *loader) validate() {
	var v problems
	l.cfg.validate(&v)
	for _, p := range v.list {
		if l.reported(p.Field) {
			continue
		}
		p.Where = l.places[p.Field]
		l.found.list = append(l.found.list, p)
	}
}

// reported says whether a field, or the section it is in, has a problem.
func (l *loader) reported(path string) bool {
	for _, p := range l.found.list {
		if p.Field == path || p.Field != "" && strings.HasPrefix(path, p.Field+".") {
			return true
		}
	}
	return false
}

func readFile(path string) (*node, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	if info.Size() > maxBytes {
		return nil, fmt.Errorf("config: read %s: %w", path, errTooLarge)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return readDocument(data, path)
}
