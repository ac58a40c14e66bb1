package config

// Export says which spans reach the native exporters. The zero value is the
// default: everything but the spans of single iterations. The filter looks only
// at a span's own name, never at its parents.
type Export struct {
	// Mode is how SpanNames is read; empty counts as Blacklist.
	Mode ExportMode `key:"mode" alias:"export_customization_mode"`
	// SpanNames are the names the mode speaks of; any string is a span name.
	// With Blacklist, nil stands for the default names. It takes no names with
	// ExportAll and needs some in every other case.
	SpanNames []string `key:"span_names" alias:"span_name_filter"`
}

// EffectiveMode returns the mode that holds.
func (e *Export) EffectiveMode() ExportMode {
	if e.Mode == "" {
		return Blacklist
	}
	return e.Mode
}

// UsesDefaultNames reports whether the default names are meant: a blacklist
// without a list of its own.
func (e *Export) UsesDefaultNames() bool {
	return e.EffectiveMode() == Blacklist && e.SpanNames == nil
}
