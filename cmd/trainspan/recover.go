package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/tracefile/recovery"
)

type recoverOptions struct {
	output string
	force  bool
	json   bool
}

func newRecover(a *ui.App) *cobra.Command {
	var o recoverOptions
	cmd := &cobra.Command{
		Use:   "recover FILE...",
		Short: "Repair the traces of programs that were killed",
		Long: `Cuts each trace after its last complete line, closes open spans with "truncated":1,
adds a span named unfinished around children whose parent was never written, and
writes the end. Readable data of damaged gzip members is kept. A complete trace is not
changed. Without -o the trace itself is replaced atomically. The trace of a running
program is rejected.`,
		Example: `  trainspan trace recover trace.pfw.gz
  trainspan trace recover trace.pfw.gz -o repaired.pfw.gz
  trainspan trace recover 'out/*.pfw.gz' --json`,
		ValidArgsFunction: read.Complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runRecover(cmd.Context(), a, args, &o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.output, "output", "o", "", "write the repaired trace to this file and keep the old one")
	f.BoolVar(&o.force, "force", false, "replace the file of -o when it exists")
	f.BoolVar(&o.json, "json", false, "print a JSON array with one object per file")
	return cmd
}

// repaired is the JSON of the recover command about one file.
type repaired struct {
	File       string `json:"file"`
	Output     string `json:"output"`
	Clean      bool   `json:"clean"`
	Lines      int    `json:"lines"`
	Bad        int    `json:"bad_lines"`
	CutBytes   int64  `json:"cut_bytes"`
	CutAt      int64  `json:"cut_at"` // first byte that was cut off; -1 if none
	Salvaged   int    `json:"salvaged"`
	Closed     int    `json:"closed_spans"`
	Unfinished int    `json:"unfinished_spans"`
}

func runRecover(ctx context.Context, a *ui.App, args []string, o *recoverOptions) error {
	if len(args) == 0 {
		return ui.Usage("no trace is given; name files, globs or directories, such as out/*.pfw.gz")
	}
	files, err := read.ExpandTraces(ctx, args)
	if err != nil {
		return err
	}
	if o.output != "" {
		if len(files) != 1 {
			return ui.Usage("-o works with one trace, not %d; run recover once for each", len(files))
		}
		if err := ui.CheckOutput(o.output, o.force, files); err != nil {
			return err
		}
		if fswrite.AsIs(o.output) {
			return ui.Usage("-o %s: not a regular file; name one", o.output)
		}
	}
	all := make([]repaired, 0, len(files))
	err = a.Each(ctx, files, func(path string) error {
		r, err := recovery.File(path, &recovery.Options{Output: o.output, Force: o.force, Stop: ctx.Err})
		if err != nil {
			if r.Lines == 0 && !ui.IsSystem(err) && !errors.Is(err, recovery.ErrInUse) && ctx.Err() == nil {
				return ui.Usage("%s: not a trace: it has no record; nothing was changed; see "+helptopic.NotATrace, path)
			}
			if errors.Is(err, recovery.ErrInUse) {
				return fmt.Errorf("%w; see %s", err, helptopic.InUse)
			}
			return err
		}
		m := repaired{path, path, r.Clean, r.Lines, r.Bad, r.CutBytes, r.DamagedAt, r.Salvaged, r.Closed, r.Unfinished}
		if o.output != "" {
			m.Output = o.output
		}
		all = append(all, m)
		return nil
	})
	if err != nil {
		return err
	}
	if o.json {
		return a.PrintJSON(all)
	}
	for i := range all {
		m := &all[i]
		if m.Clean {
			a.Printf("%s: complete, %s; nothing to repair\n", m.File, display.Plural(m.Lines, "record"))
			continue
		}
		a.Printf("%s: %s kept, %s closed", m.Output, display.Plural(m.Lines, "record"), display.Plural(m.Closed, "open span"))
		if m.Unfinished > 0 {
			a.Printf(", %s marked unfinished", display.Plural(m.Unfinished, "span"))
		}
		if m.CutBytes > 0 {
			a.Printf(", %s lost from byte %d on", display.Bytes(m.CutBytes), m.CutAt)
		}
		a.Printf("\n")
	}
	return nil
}
