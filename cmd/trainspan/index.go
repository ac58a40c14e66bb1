package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/human"
	"github.com/trainspan/trainspan/internal/see"
)

func newIndex(a *ui.App) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "index FILE...",
		Short: "Write a side index of gzip members",
		Long: `Writes FILE.idx.json beside each trace: offset, size, lines and time range of
every gzip member, and what info shows. The index is used only while size and
time of the trace are those it was made from; nothing needs it. docs/cli.md
describes the format.`,
		Example: `  trainspan index out/*.pfw.gz
  trainspan index trace.pfw.gz && jq '.members[0]' trace.pfw.gz.idx.json`,
		ValidArgsFunction: ui.Traces,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runIndex(cmd.Context(), a, args, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array with what was written")
	return cmd
}

func runIndex(ctx context.Context, a *ui.App, args []string, asJSON bool) error {
	files, err := read.Expand(args)
	if err != nil {
		return err
	}
	type written struct {
		File    string `json:"file"`
		Index   string `json:"index"`
		Members int    `json:"members"`
		Events  int64  `json:"events"`
	}
	all := make([]written, 0, len(files))
	bar := a.StartProgress("index", files)
	defer bar.Finish()
	err = a.Each(ctx, files, func(path string) error {
		info, err := read.Inspect(ctx, a, path, false, bar)
		if err != nil {
			return err
		}
		if info.Damaged != "" {
			a.Problem("%s: damaged at byte %d: %s; the index covers what can be read, trainspan recover repairs the file; see "+see.Damaged, path, info.DamagedAt, info.Damaged)
		}
		if info.BadLines > 0 {
			a.Problem("%s: %s not a record; trainspan validate lists them; see "+see.Damaged, path, human.Plural(info.BadLines, "line"))
		}
		if err := read.WriteIndex(info); err != nil {
			return err
		}
		all = append(all, written{path, path + read.IndexSuffix, len(info.Members), info.Events})
		return nil
	})
	bar.Finish()
	if err != nil {
		return err
	}
	if asJSON {
		return a.PrintJSON(all)
	}
	for _, w := range all {
		a.Printf("%s: %s, %s\n", w.Index, human.Plural(w.Members, "member"), human.Plural(w.Events, "event"))
	}
	return nil
}
