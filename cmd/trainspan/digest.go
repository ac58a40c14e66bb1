package main

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/platform/heap"
	"github.com/trainspan/trainspan/internal/report"
)

type digestOptions struct {
	output  string
	force   bool
	windows bool
}

func newDigest(a *ui.App) *cobra.Command {
	var o digestOptions
	cmd := &cobra.Command{
		Use:   "digest FILE... -o OUTPUT",
		Short: "Reduce traces to what a report needs of them",
		Long: `Reads telemetry (traces and JSON lines; folders with all that is below them) and
writes what a report needs of it to one file: the ledger, the steps of each
rank, and totals by name, without the spans; about 60 bytes for each step of
each rank. It is made where the files are, by whatever starts jobs there;
"trainspan report" takes digests in place of traces, and says the same.

Of a job with more than 100 million steps, those of each rank counted, the
digest holds windows of 100 steps in place of most steps, with less than 4 bytes
for a step of a rank; --windows does so for any job. Totals stay exact; the
report says what does not.

All files of one process belong in one digest. Digests may be given too: the
output is then the digest of all.`,
		Example: `  trainspan trace digest /local/traces -o /shared/digests/$(hostname).digest
  trainspan report /shared/digests
  trainspan trace digest rack-*.digest -o job.digest`,
		RunE: func(cmd *cobra.Command, args []string) error {
			heap.Bound(largeJob)
			return runDigest(cmd.Context(), a, args, &o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.output, "output", "o", "", "file to write")
	f.BoolVar(&o.windows, "windows", false, "hold windows of 100 steps in place of steps, whatever the size")
	f.BoolVar(&o.force, "force", false, "replace the output when it exists")
	return cmd
}

func runDigest(ctx context.Context, a *ui.App, args []string, o *digestOptions) error {
	args, err := read.ResolvePaths(ctx, args)
	if err != nil {
		return err
	}
	if o.output == "" {
		return ui.Usage("no output is given; name one with -o, such as -o node.digest")
	}
	if err := ui.CheckOutput(o.output, o.force, args); err != nil {
		return err
	}
	im := &profileImport{app: a, ctx: ctx}
	defer im.remove()
	state, err := report.LoadWith(ctx.Err, im.traces, args...)
	if err != nil {
		return unreadable(ctx, args, err)
	}
	judgeJobs(a, args, state.Skipped(), state.Processes())
	if err := state.Window(o.windows); err != nil {
		return err
	}
	out, err := ui.CreateOutput(ctx, o.output, o.force)
	if err != nil {
		return err
	}
	if err := out.Finish(state.WriteDigest(out)); err != nil {
		return err
	}
	processes, steps := state.Size()
	a.Note("%s: %d processes, %d steps of a rank", o.output, processes, steps)
	return nil
}
