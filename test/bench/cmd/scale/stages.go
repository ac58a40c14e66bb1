package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/trainspan/trainspan/internal/testkit/simjob"
	"github.com/trainspan/trainspan/test/bench"
)

// stages measures the cost of a job from its traces to a report, in parts as
// several machines share it: a digest of each part, one digest of all, the
// report of that, and the events as a data set. It prints a row of
// docs/guide/clusters.md. The memory of the parts is that of the largest.
func (o *options) stages(work string) error {
	parts, err := filepath.Glob(filepath.Join(o.dir, "node*"))
	if err != nil || len(parts) == 0 {
		parts = []string{o.dir}
	}
	files, traces := size(o.dir)
	digests, lake := filepath.Join(work, "digests"), filepath.Join(work, "lake")
	if err := os.Mkdir(digests, 0o755); err != nil {
		return err
	}
	each := func(args func(i int, part string) []string) (sum bench.Usage, err error) {
		for i, part := range parts {
			u, err := bench.RunCommand(o.binary, args(i, part)...)
			if err != nil {
				return sum, err
			}
			sum.Wall, sum.CPU, sum.Memory = sum.Wall+u.Wall, sum.CPU+u.CPU, max(sum.Memory, u.Memory)
		}
		return sum, nil
	}
	digest, err := each(func(i int, part string) []string {
		return []string{"trace", "digest", part, "-o", filepath.Join(digests, fmt.Sprint(i, ".digest"))}
	})
	if err != nil {
		return err
	}
	_, digested := size(digests)
	report, err := bench.RunCommand(o.binary, "report", digests, "--json")
	if err != nil {
		return err
	}
	whole, err := bench.RunCommand(o.binary, "report", o.dir, "--json")
	if err != nil {
		return err
	}
	convert, err := each(func(_ int, part string) []string {
		return []string{"trace", "convert", part, "--to", "parquet", "--part", "--run", "job", "-o", lake}
	})
	if err != nil {
		return err
	}
	tables, rows := size(lake)
	ranks, steps := float64(o.job.Ranks), float64(o.job.Ranks*o.job.Steps)
	cell := func(u bench.Usage) string {
		return fmt.Sprintf("%.2f s, %.0f MB", u.CPU.Seconds(), float64(u.Memory)/1e6)
	}
	fmt.Printf("| ranks | traces | digests of %d | report of digests | report of traces | data set |\n", len(parts))
	fmt.Printf("| %d | %.1f files and %.0f kB a rank | %s; %.0f bytes a step of a rank | %s | %s | %s; %.1f bytes an event, %d files |\n",
		o.job.Ranks, float64(files)/ranks, float64(traces)/ranks/1e3, cell(digest), float64(digested)/steps, cell(report), cell(whole), cell(convert),
		float64(rows)/(steps*simjob.SpansPerStep), tables)
	fmt.Printf("wall time: %v, %v, %v, %v\n", digest.Wall.Round(time.Second), report.Wall.Round(time.Second), whole.Wall.Round(time.Second), convert.Wall.Round(time.Second))
	return nil
}
