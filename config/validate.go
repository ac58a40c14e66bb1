package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Validate checks the whole of c and returns nil or a [*ValidationError] with
// every problem. It calls the functions of c once.
func (c *Config) Validate() error {
	var p problems
	c.validate(&p)
	return p.err()
}

// Validate checks b and its training configuration and returns nil or a
// [*ValidationError] with every problem. It calls the functions whose result a
// rule speaks of, once each.
func (b *Base) Validate() error {
	var p problems
	b.validate(&p)
	return p.err()
}

func (c *Config) validate(p *problems) {
	c.Base.validate(p)
	c.Export.validate(p, "export")
	c.Outputs.validate(p)
	for i, e := range c.OTel.ResourceAttributes {
		if strings.TrimSpace(e.Key) == "" {
			p.add("otel.resource_attributes", e.Key, "resource attribute keys must be non-empty strings (entry %d)", i)
		}
		switch e.Value.(type) {
		case nil, Metadata, []any:
			p.add("otel.resource_attributes."+e.Key, e.Value, "must be a string, a bool or a number")
		}
	}
	c.Ranks.validate(p)
}

func (r *Ranks) validate(p *problems) {
	for _, f := range []struct {
		name  string
		value Var[int]
		least int
	}{{"rank", r.Rank, 0}, {"local_rank", r.LocalRank, 0}, {"ranks.world_size", r.WorldSize, 1}, {"attempt", r.Attempt, 0}} {
		if n, ok := evaluate(p, f.name, f.value); ok && n < f.least {
			p.add(f.name, n, "must be at least %d", f.least)
		}
	}
}

func (b *Base) validate(p *problems) {
	if strings.TrimSpace(b.ApplicationName) == "" {
		p.add("application_name", b.ApplicationName, "application_name cannot be empty or whitespace-only")
	}
	if n, ok := evaluate(p, "world_size", b.WorldSize); ok && n <= 0 {
		p.add("world_size", n, "world_size must be set to a positive value")
	}
	for _, e := range b.CustomMetadata {
		if strings.TrimSpace(e.Key) == "" {
			p.add("custom_metadata", e.Key, "custom_metadata keys must be non-empty strings")
		}
	}
	b.CustomMetadata.validate(p, "custom_metadata")
	oneOf(p, "error_strategy", b.ErrorStrategy, PropagateErrors, DisableQuietly)
	evaluate(p, "enable_for_current_rank", b.EnableForCurrentRank)
	validatePath(p, "logger.info_path", b.Logger.InfoPath)
	validatePath(p, "logger.error_path", b.Logger.ErrorPath)
	oneOf(p, "logger.level", b.Logger.Level, "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
	if b.Training != nil {
		b.Training.validate(p, "training")
	}
}

func (t *Training) validate(p *problems, path string) {
	if t.PerfTag.IsSet() && t.PerfTags.IsSet() {
		p.add(join(path, "perf_tags"), nil, "perf_tag and perf_tags exclude each other")
	}
	at := join(path, "global_batch_size")
	if n, ok := evaluate(p, at, t.GlobalBatchSize); ok && n <= 0 {
		p.add(at, n, "global_batch_size must be set to a positive value")
	}
	at = join(path, "log_every_n_train_iterations")
	if n, ok := evaluate(p, at, t.LogEveryNTrainIterations); ok && n <= 0 {
		p.add(at, n, "log_every_n_train_iterations must be set to a positive value")
	}
	at = join(path, "flops_per_sample")
	if on, _ := evaluate(p, join(path, "is_log_throughput_enabled"), t.IsLogThroughputEnabled); on {
		const rule = "flops_per_sample must be set to a positive value when is_log_throughput_enabled is True"
		switch n, ok := evaluate(p, at, t.FlopsPerSample); {
		case !t.FlopsPerSample.IsSet():
			p.add(at, nil, rule)
		case ok && n <= 0:
			p.add(at, n, rule)
		}
	}
	oneOf(p, join(path, "save_checkpoint_strategy"), t.SaveCheckpointStrategy, CheckpointSync, CheckpointAsync)
	t.CustomMetadata.validate(p, join(path, "custom_metadata"))
}

func (e *Export) validate(p *problems, path string) {
	if !oneOf(p, join(path, "mode"), e.Mode, ExportAll, Whitelist, Blacklist) {
		return
	}
	at := join(path, "span_names")
	mode := cmp.Or(e.Mode, Blacklist)
	switch {
	case mode == ExportAll && len(e.SpanNames) > 0:
		p.add(at, e.SpanNames, "span_name_filter should be empty when export_customization_mode is %s", mode)
	case mode != ExportAll && len(e.SpanNames) == 0 && !e.UsesDefaultNames():
		p.add(at, e.SpanNames, "span_name_filter should be a non-empty list when export_customization_mode is %s", mode)
	}
	for i, name := range e.SpanNames {
		if name == "" {
			p.add(at, name, "a span name must not be empty (item %d)", i)
		}
	}
}

// validate checks what every metadata list must keep to.
func (m Metadata) validate(p *problems, path string) {
	for i, e := range m {
		if m.index(e.Key) != i {
			p.add(join(path, e.Key), e.Value, "given twice")
		}
		if nested, ok := e.Value.(Metadata); ok {
			p.add(join(path, e.Key), nested, "must be a string, a bool, a number, or a list of these")
		}
	}
}

// oneOf accepts an unset value and the ones allowed.
func oneOf[T ~string](p *problems, field string, got T, allowed ...T) bool {
	if got == "" || slices.Contains(allowed, got) {
		return true
	}
	words := make([]string, len(allowed))
	for i, a := range allowed {
		words[i] = "'" + string(a) + "'"
	}
	last := len(words) - 1
	p.add(field, string(got), "must be %s or %s; the nearest is '%s'",
		strings.Join(words[:last], ", "), words[last], nearest(string(got), texts(allowed)))
	return false
}

func texts[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}

// evaluate reads a setting. A function that panics is a problem of the
// configuration, not of the program that validates it. ok is false when the
// setting is unset or could not be read.
func evaluate[T any](p *problems, field string, v Var[T]) (value T, ok bool) {
	defer func() {
		if r := recover(); r != nil {
			ok = false
			p.add(field, fmt.Sprint(r), "the function of %s panicked", field)
		}
	}()
	return v.Get(), v.IsSet()
}
