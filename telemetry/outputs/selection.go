package outputs

import (
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/spans"
)

// Selection is the set of spans that an output gets, by name alone. A span that is left
// out is left out with all of its events; its children are not.
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
