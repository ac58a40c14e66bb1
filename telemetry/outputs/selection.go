package outputs

import (
	"context"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/spans"
)

// Selection tells which spans the exporters get, by name alone: everything of
// a span that is left out is dropped, its children are not.
type Selection struct {
	standard [spans.Count]bool
	custom   map[string]bool // names outside the table that differ from rest
	rest     bool            // every other name
	all      bool            // everything
}

// NewSelection returns what an export customization selects.
func NewSelection(e config.Export) *Selection {
	s := &Selection{rest: true}
	listed := false
	names := e.SpanNames
	switch e.Mode {
	case config.ExportAll:
		names = nil
	case config.Whitelist:
		s.rest, listed = false, true
	default:
		if e.UsesDefaultNames() {
			names = spans.DefaultBlacklist()
		}
	}
	for i := range s.standard {
		s.standard[i] = s.rest
	}
	s.all = s.rest && len(names) == 0
	for _, name := range names {
		if i := spans.Index(name); i >= 0 {
			s.standard[i] = listed
			continue
		}
		if s.custom == nil {
			s.custom = make(map[string]bool)
		}
		s.custom[name] = listed
	}
	return s
}

// Has reports whether the span is exported. The name decides, however the span
// was started; index is spans.Index(name) where that is known, or -1.
func (s *Selection) Has(index int, name string) bool {
	if index < 0 {
		index = spans.Index(name)
	}
	if index >= 0 {
		return s.standard[index]
	}
	if len(s.custom) != 0 {
		if listed, ok := s.custom[name]; ok {
			return listed
		}
	}
	return s.rest
}

// All reports whether everything is selected.
func (s *Selection) All() bool { return s.all }

// Route says of selections whether they have a span, in place of its name:
// outputs may know a scope of package ai by different names. An entry for nil
// holds for all that have none.
type Route map[*Selection]bool

type routeKey struct{}

type sentKey struct{}

// SentOnly marks the context that an OpenTelemetry span is started with: of the
// outputs only those on a network get it.
func SentOnly(ctx context.Context) context.Context { return context.WithValue(ctx, sentKey{}, true) }

// IsSentOnly reports whether SentOnly marked the context.
func IsSentOnly(ctx context.Context) bool {
	only, _ := ctx.Value(sentKey{}).(bool)
	return only
}

// WithRoute marks the context that an OpenTelemetry span is started with.
func WithRoute(ctx context.Context, r Route) context.Context {
	return context.WithValue(ctx, routeKey{}, r)
}

// Takes is Has for a span that is started with ctx, which may be nil.
func (s *Selection) Takes(ctx context.Context, index int, name string) bool {
	if s.all || ctx == nil {
		return s.Has(index, name)
	}
	if r, ok := ctx.Value(routeKey{}).(Route); ok {
		for _, key := range [...]*Selection{s, nil} {
			if takes, ok := r[key]; ok {
				return takes
			}
		}
	}
	return s.Has(index, name)
}
