package main

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/otlp"
	"github.com/trainspan/trainspan/internal/ingest/pyring"
	"github.com/trainspan/trainspan/internal/ingest/pyring/ring"
	"github.com/trainspan/trainspan/internal/ingest/torch"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/fsread"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
)

// importRings writes the contents of the ring buffers of Python processes among
// the paths. It returns false if there are none.
func importRings(ctx context.Context, a *ui.App, paths []string, o *importOptions) (bool, error) {
	rings, err := pyring.Rings(paths...)
	if err != nil || len(rings) == 0 {
		return err != nil, err
	}
	if err := onlyRings(paths); err != nil {
		return true, err
	}
	if o.output == "-" || fsread.NamedTrace(o.output) {
		return true, ui.Usage("-o %s: each Python process gets its own trace; name a directory", o.output)
	}
	d, err := parseDialect(o.dialect)
	if err != nil {
		return true, err
	}
	opts := pyring.Options{Out: o.output, Job: o.job, Attempt: -1, Log: slog.New(slog.NewTextHandler(a.Stderr, nil))}
	opts.Trace = &dftracer.Options{Dialect: d}
	if err := o.send(&opts, a.Streams.Lookup); err != nil {
		return true, err
	}
	bar := a.StartSpinner("import")
	st, err := pyring.Import(ctx, rings, opts)
	bar.Finish()
	judgeRings(a, &st)
	if showErr := showRings(a, &st, o); err == nil {
		err = showErr
	}
	if err != nil {
		err = importError(err)
	}
	return true, err
}

// send makes an import of ring buffers send their spans if a flag asks for it:
// configured as for a job, without metrics, which would have the current time.
func (o *importOptions) send(opts *pyring.Options, lookup func(string) (string, bool)) error {
	if o.otlp.endpoint == "" {
		return o.otlp.unasked()
	}
	settings, err := o.otlp.settings(lookup)
	if err != nil {
		return err
	}
	settings.Enabled, settings.Metrics = config.Value(true), config.Value(false)
	opts.OTLP = func(c *otlp.Config) { *c = *settings }
	opts.Config = func(code config.Config) (config.Config, error) {
		code.Outputs.OTLP = settings.OTLP
		cfg, err := config.Load(config.LoadOptions{Code: code, Partial: true, LookupEnv: lookup})
		cfg.Outputs.Prometheus, cfg.OTel.SDKDisabled = config.Prometheus{}, config.Value(false)
		return cfg, err
	}
	return nil
}

// onlyRings refuses profiles beside ring buffers, because they become one
// trace.
func onlyRings(paths []string) error {
	rest := slices.DeleteFunc(slices.Clone(paths), ring.Is)
	if len(rest) == 0 {
		return nil
	}
	if sources, err := torch.Files(rest...); err == nil && len(sources) > 0 {
		return ui.Usage("%s: has rings and profiler files; import one kind at a time by naming its files", strings.Join(rest, ", "))
	}
	return nil
}

func judgeRings(a *ui.App, st *pyring.Stats) {
	if d := st.Delivery; d.Lost > 0 {
		a.Problem("%s of %d not delivered: %s; see "+helptopic.Delivery, display.Plural(d.Lost, "span"), d.Spans, strings.Join(slices.Sorted(maps.Keys(d.Causes)), ", "))
	}
	if st.Lost > 0 {
		a.Problem("%s lost before they were read; see "+helptopic.Python, display.Plural(st.Lost, "record"))
	}
	if st.Waiting > 0 {
		a.Problem("%s could not be written and are still in their rings: remove the cause, such as a full disk, then import them again; see "+helptopic.File, display.Plural(st.Waiting, "span"))
	}
	if st.Bad > 0 {
		a.Problem("%s with impossible times or values dropped; see "+helptopic.Damaged, display.Plural(st.Bad, "record"))
	}
}

// showRings prints the report.
func showRings(a *ui.App, st *pyring.Stats, o *importOptions) error {
	switch {
	case o.json:
		return ui.PrintJSON(a.Stdout, st)
	case o.quiet:
		return nil
	}
	open := ""
	if st.Open > 0 {
		open = ", " + display.Plural(st.Open, "span") + " had not ended"
	}
	if st.Again > 0 {
		open += ", " + display.Plural(st.Again, "span") + " were already written and were skipped"
	}
	a.Printf("%s of %s%s\n", display.Plural(st.Spans, "span"), display.Plural(int64(st.Processes), "process"), open)
	for _, f := range st.Files {
		a.Printf("%s\n", f)
	}
	return nil
}
