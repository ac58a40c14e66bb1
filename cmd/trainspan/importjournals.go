package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/ingest/otlpreceiver"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/fsread"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/platform/identity"
)

// importJournals adds the spans that OTLP receivers had acknowledged, but not
// written to trace files, when they were killed. It returns false if there is
// no journal below the paths.
func importJournals(ctx context.Context, a *ui.App, paths []string, o *importOptions, found *leftReport) (bool, error) {
	left, busy := otlpreceiver.FindJournals(paths...)
	for _, path := range busy {
		a.Problem("%s: is still being recorded; import the rest when the run has ended; see "+helptopic.InUse, path)
	}
	var ready []string
	here := identity.HostName()
	for _, j := range left {
		// Locks may not be visible from another host.
		if j.Host != "" && j.Host != here && !slices.ContainsFunc(paths, func(path string) bool { return ui.SameFile(path, j.Path) }) {
			a.Problem("%s: was recorded on %s, where its receiver may still run; import it there or, when the receiver has ended, name the file itself; see "+helptopic.InUse, j.Path, j.Host)
			busy = append(busy, j.Path)
			continue
		}
		ready = append(ready, j.Path)
	}
	if len(ready) == 0 {
		return len(busy) > 0, nil
	}
	if o.output == "-" || fsread.NamedTrace(o.output) {
		return true, ui.Usage("-o %s: each process that sent spans gets its own trace; name a directory, or omit -o", o.output)
	}
	bar := a.StartSpinner("import")
	st, err := otlpreceiver.Replay(ctx, ready, &otlpreceiver.ReplayOptions{Out: o.output, Logger: slog.New(slog.NewTextHandler(a.Stderr, nil))})
	bar.Finish()
	if st.Damaged > 0 {
		a.Problem("%s of the journals are damaged: their spans are lost; see "+helptopic.Damaged, display.Bytes(st.Damaged))
	}
	if err != nil {
		return true, importError(err)
	}
	switch {
	case st.Spans == 0 && st.Placed == 0 && st.Damaged == 0:
		return len(busy) > 0, nil // they were empty
	case o.json:
		found.Journals = &st
		return true, nil
	case o.quiet:
		return true, nil
	}
	a.Printf("%s received by OTLP added; %s were already in the traces\n", display.Plural(st.Spans, "span"), display.Count(st.Placed))
	for _, path := range st.Files {
		a.Printf("%s\n", path)
	}
	return true, nil
}

// noteJournals reports journals with spans that the traces below some folders
// lack.
func noteJournals(a *ui.App, paths []string) {
	left, _ := otlpreceiver.FindJournals(paths...)
	var dirs []string
	for _, j := range left {
		if j.Size > 0 {
			dirs = append(dirs, filepath.Dir(j.Path))
		}
	}
	slices.Sort(dirs)
	for _, dir := range slices.Compact(dirs) {
		a.Note("%s: spans received by OTLP are still in a journal, because their receiver was killed; add them with: trainspan trace import %s", dir, dir)
	}
}
