package main

import (
	"github.com/spf13/cobra"

	"github.com/trainspan/trainspan/dftracer"
)

type recoverOptions struct {
	output string
	force  bool
	json   bool
}

func newRecover(a *app) *cobra.Command {
	var o recoverOptions
	cmd := &cobra.Command{
		Use:   "recover FILE...",
		Short: "Mend the traces of programs that were killed",
		Long: `Cuts each trace to its last whole line, closes the spans that were open with
"truncated":1, and writes the end. What is in damaged gzip members is saved as far
as it can be read. A complete trace is left alone. Without -o the trace itself is
replaced, in one step; do not mend the trace of a program that still runs.`,
		Example: `  trainspan recover trace.pfw.gz
  trainspan recover trace.pfw.gz -o mended.pfw.gz
  trainspan recover 'out/*.pfw.gz' --json`,
		ValidArgsFunction: traces,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.recover(args, &o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.output, "output", "o", "", "write the mended trace to this file and keep the old one")
	f.BoolVar(&o.force, "force", false, "replace the file of -o when it exists")
	f.BoolVar(&o.json, "json", false, "print a JSON array with one object per file")
	return cmd
}

// mended is the JSON of the recover command about one file.
type mended struct {
	File     string `json:"file"`
	Output   string `json:"output"`
	Clean    bool   `json:"clean"`
	Lines    int    `json:"lines"`
	Bad      int    `json:"bad_lines"`
	CutBytes int64  `json:"cut_bytes"`
	Salvaged int    `json:"salvaged"`
	Closed   int    `json:"closed_spans"`
}

func (a *app) recover(args []string, o *recoverOptions) error {
	files, err := expand(args)
	if err != nil {
		return err
	}
	if o.output != "" {
		if len(files) != 1 {
			return usage("-o takes one trace, not %d; run recover once for each", len(files))
		}
		if err := checkOutput(o.output, o.force, files); err != nil {
			return err
		}
	}
	all := make([]mended, 0, len(files))
	for _, path := range files {
		r, err := dftracer.Recover(path, &dftracer.RecoverOptions{Output: o.output})
		if err != nil {
			if r.Lines == 0 && !isSystem(err) {
				return badData("%s: not a trace: it holds no record; nothing was changed", path)
			}
			return err
		}
		m := mended{path, path, r.Clean, r.Lines, r.Bad, r.CutBytes, r.Salvaged, r.Closed}
		if o.output != "" {
			m.Output = o.output
		}
		all = append(all, m)
	}
	if o.json {
		return a.printJSON(all)
	}
	for i := range all {
		m := &all[i]
		if m.Clean {
			a.printf("%s: complete, %s; nothing to mend\n", m.File, plural(m.Lines, "record"))
			continue
		}
		a.printf("%s: %s kept, %s closed, %s cut off\n", m.Output, plural(m.Lines, "record"), plural(m.Closed, "open span"), size(m.CutBytes))
	}
	return nil
}
