package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/benchmarks"
	"github.com/trainspan/trainspan/internal/jobgen"
)

const (
	growBy     = 4 // times the ranks, and times the steps
	growRounds = 5
)

// growth prints how what a command costs grows with the ranks of a job and with its
// steps, each as the exponent of its processor time beside that of a bare reader of the
// same files. The three jobs are measured in turn, several times; medians count.
func (o *options) growth(work string) error {
	large := o.job
	jobs := [...]jobgen.Large{large, large, large}
	jobs[1].Ranks, jobs[2].Steps = large.Ranks/growBy, large.Steps/growBy
	dirs := make([]string, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		dirs[i] = filepath.Join(work, fmt.Sprint("job", i))
		j.Slow, j.Extra, j.Save = j.Ranks*2/3, 12, 200
		if err := jobgen.WriteLarge(dirs[i], j); err != nil {
			return err
		}
	}
	var command, bare [len(jobs)][]float64
	for range growRounds {
		for i, dir := range dirs {
			read, got, err := o.beside(dir)
			if err != nil {
				return err
			}
			bare[i], command[i] = append(bare[i], read.CPU.Seconds()), append(command[i], got.CPU.Seconds())
		}
	}
	for what, i := range map[string]int{"ranks": 1, "steps": 2} {
		exponent := func(of [len(jobs)][]float64) float64 { return math.Log(median(of[0])/median(of[i])) / math.Log(growBy) }
		fmt.Printf("%d x %d to %d x %d: CPU %.2f s to %.2f s, grows with %s by the power of %.2f; a bare reader %.2f s to %.2f s, %.2f\n",
			jobs[i].Ranks, jobs[i].Steps, large.Ranks, large.Steps, median(command[i]), median(command[0]), what, exponent(command),
			median(bare[i]), median(bare[0]), exponent(bare))
	}
	return nil
}

func median(x []float64) float64 {
	return slices.Sorted(slices.Values(x))[len(x)/2]
}

// beside measures a bare reader of the traces of a folder, and the command.
func (o *options) beside(dir string) (bare, got benchmarks.Usage, err error) {
	args := make([]string, len(o.args))
	for i := range args {
		args[i] = strings.ReplaceAll(o.args[i], "{}", dir)
	}
	if bare, err = benchmarks.RunCommand(o.self, "-bare", dir); err == nil {
		got, err = benchmarks.RunCommand(o.binary, args...)
	}
	return bare, got, err
}
