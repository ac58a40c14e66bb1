package config

// Export says which spans reach the native exporters. The zero value is the
// default: everything but the spans of single iterations. The filter looks only
// at a span's own name, never at its parents.
type Export struct {
	// Mode is how SpanNames is read: ExportAll, Whitelist or Blacklist. Empty
	// counts as Blacklist.
	Mode string `key:"mode" alias:"export_customization_mode" env:"TRAINSPAN_EXPORT_MODE"`
	// SpanNames are the names the mode speaks of; any string is a span name.
	// With Blacklist, nil stands for the default names. It takes no names with
	// ExportAll and needs some in every other case.
	SpanNames []string `key:"span_names" alias:"span_name_filter" env:"TRAINSPAN_EXPORT_SPAN_NAMES"`
}

// UsesDefaultNames reports whether the default names are meant: a blacklist
// without a list of its own.
func (e *Export) UsesDefaultNames() bool {
	return (e.Mode == "" || e.Mode == Blacklist) && e.SpanNames == nil
}
