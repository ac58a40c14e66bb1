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
		Long: `Reads telemetry (traces and JSON lines; directories with everything below them) and
writes the data that a report needs to one file: the ledger, the steps of each rank,
and totals by name, without the spans. It has about 40 bytes per step and rank. Run
it where the files are. "trainspan report" reads digests instead of traces, with the
same result.

If a job has more than 100 million steps (summed over the ranks), the digest has
windows of 100 steps instead of most single steps, with less than 4 bytes per step
and rank; --windows does this for any job. Totals stay exact; the report names the
figures that are not.

Put all files of one process into one digest. Inputs may be digests: the output then
combines them.`,
		Example: `  trainspan trace digest /local/traces -o /shared/digests/$(hostname).digest
  trainspan report /shared/digests
  trainspan trace digest rack-*.digest -o job.digest`,
		RunE: func(cmd *cobra.Command, args []string) error {
			heap.Bound(largeJob)
			return runDigest(cmd.Context(), a, args, &o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.output, "output", "o", "", `file to write; "-" is standard output`)
	f.BoolVar(&o.windows, "windows", false, "write windows of 100 steps instead of single steps, for a job of any size")
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
	if o.output != "-" {
		if err := ui.CheckOutput(o.output, o.force, args); err != nil {
			return err
		}
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
	if err := writeDigest(ctx, a, state, o); err != nil {
		return err
	}
	processes, steps := state.Size()
	a.Note("%s: %d processes, %d steps of a rank", o.output, processes, steps)
	return nil
}

func writeDigest(ctx context.Context, a *ui.App, state *report.State, o *digestOptions) error {
	if o.output == "-" {
		return state.WriteDigest(a.Streams.Out)
	}
	out, err := ui.CreateOutput(ctx, o.output, o.force)
	if err != nil {
		return err
	}
	return out.Finish(state.WriteDigest(out))
}
