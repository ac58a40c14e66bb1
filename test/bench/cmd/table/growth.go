package main

import (
	"fmt"

	"github.com/trainspan/trainspan/test/bench"
)

const growthGoal = "1.05"

// growths returns the rows with the power by which a cost grows.
func growths() []group {
	var all []group
	for _, g := range bench.Growths() {
		all = append(all, group{[]row{growing(g.What, g.Few, g.Many)}, func(t *tables, rows []row) error {
			results, err := bench.Measure(t.dir, g.Cases(), t.inner, t.each)
			if err == nil {
				rows[0].line(fmt.Sprintf("%.2f", bench.Exponent(results[1].Ratio(&results[0]), g.Few, g.Many)), "")
			}
			return err
		}})
	}
	for _, few := range []struct {
		what   string
		at, to int
		job    [2]int
	}{
		{"ranks", jobRanks / 4, jobRanks, [2]int{jobRanks / 4, jobSteps}},
		{"steps", jobSteps / 4, jobSteps, [2]int{jobRanks, jobSteps / 4}},
	} {
		all = append(all, group{[]row{growing(few.what+" that `report` reads", few.at, few.to)}, func(t *tables, rows []row) error {
			binary, err := t.command()
			if err != nil {
				return err
			}
			var jobs [2][]string
			for i, of := range [][2]int{{jobRanks, jobSteps}, few.job} {
				dir, err := t.job(of[0], of[1])
				if err != nil {
					return err
				}
				jobs[i] = []string{binary, "report", dir, "--json"}
			}
			_, _, ratio, err := t.beside(jobs[0], jobs[1])
			if err == nil {
				rows[0].line(fmt.Sprintf("%.2f", bench.Exponent(ratio, few.at, few.to)), "")
			}
			return err
		}})
	}
	return all
}

func growing(what string, few, many int) row {
	return row{fmt.Sprintf("growth, %s: %d to %d, power", what, few, many), "none", growthGoal}
}
