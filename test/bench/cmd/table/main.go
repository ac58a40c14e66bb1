// Command table measures trainspan and compared programs, alternating, and
// prints the tables of docs/maintain/releasing.md.
//
//	go run ./cmd/table                      # every row, some minutes
//	go run ./cmd/table -row 'start|report'  # rows whose text matches
//	go run ./cmd/table -profile -row span   # CPU time of those rows by package
//	go run ./cmd/table -cases               # all ways to record a span, and an iteration
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"time"

	"github.com/trainspan/trainspan/test/bench"
)

func main() {
	var t tables
	flag.IntVar(&t.inner, "rounds", 15, "how often the cases of one process take turns")
	flag.IntVar(&t.rounds, "commands", 5, "how often commands take turns")
	flag.DurationVar(&t.each, "each", 150*time.Millisecond, "time of a case in each round")
	only := flag.String("row", "", "measure rows alone whose first or second column matches this regular expression")
	flag.BoolVar(&t.profile, "profile", false, "print by packages where the processor time of each row goes, in place of the row")
	flag.BoolVar(&t.functions, "functions", false, "and by functions")
	flag.BoolVar(&t.others, "tools", false, "measure only beside dftracer-utils, DFAnalyzer and HTA, which are installed once from PyPI into the user's cache (1.5 GB)")
	cases := flag.Bool("cases", false, "print each way to record a span in place of the rows")
	lone := flag.String("alone", "", "read, inflate or scan the file that follows: what commands are compared with")
	flag.Parse()
	var err error
	switch {
	case *lone != "":
		err = alone(*lone, flag.Arg(0))
	case *cases:
		err = table(t.inner, t.each)
	default:
		err = t.run(*only)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

// run prints the matching rows as they are measured.
func (t *tables) run(only string) (err error) {
	if t.only, err = regexp.Compile(only); err != nil {
		return fmt.Errorf("-row: %w", err)
	}
	if t.self, err = os.Executable(); err != nil {
		return err
	}
	if t.dir, err = os.MkdirTemp("", "benchmarks"); err != nil {
		return err
	}
	defer os.RemoveAll(t.dir) //nolint:errcheck // it is temporary
	fmt.Printf("%s %s/%s, %d cores\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0))
	if !t.profile {
		fmt.Println("| what | beside | value | ratio | goal |")
		fmt.Println("| --- | --- | ---: | ---: | ---: |")
	}
	found := false
	all := groups()
	if t.others {
		all = otherTools()
	}
	for _, g := range all {
		if !slices.ContainsFunc(g.rows, func(r row) bool { return t.match(&r) }) {
			continue
		}
		found = true
		if err := g.measure(t, g.rows); err != nil && !errors.Is(err, errProfiled) {
			return fmt.Errorf("%s: %w", g.rows[0].what, err)
		}
	}
	if !found {
		return fmt.Errorf("-row %s matches no row", only)
	}
	return nil
}

func (t *tables) match(r *row) bool { return t.only.MatchString(r.what) || t.only.MatchString(r.rival) }

func table(rounds int, each time.Duration) error {
	dir, err := os.MkdirTemp("", "benchmarks")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is temporary

	cases, iterations := bench.Cases(), bench.Iterations()
	results, err := bench.Measure(dir, append(cases, iterations...), rounds, each)
	if err != nil {
		return err
	}
	by := make(map[string]bench.Result)
	for _, r := range results {
		by[r.Name] = r
	}
	bare := by[bench.BareSpan]
	fmt.Printf("%s %s/%s, %d cores\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0))
	fmt.Println("| what | ns | x bare span | median ns | its processor time x | allocations | bytes |")
	fmt.Println("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
	for _, r := range results[:len(cases)] {
		fmt.Printf("| %s | %.4g | %.3g | %.4g | %.3g | %.1f | %.0f |\n", r.Name, r.Nanos, r.Nanos/bare.Nanos, r.Median, r.Ratio(&bare), r.Allocs, r.Bytes)
	}
	fmt.Println()
	fmt.Println("\"Bare span\" is the SDK span with 3 attributes and a no-op processor. Times and ratios are those of the best round, that of")
	fmt.Println("processor time of the goroutine that calls is the median of the rounds: what else the machine does changes it little.")
	fmt.Println()
	two := by[bench.TwoBareSpans]
	fmt.Println("| one start and end of a training iteration | ns | x two bare spans | median ns | its processor time x | allocations | bytes |")
	fmt.Println("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
	for _, r := range results[len(cases):] {
		fmt.Printf("| %s | %.4g | %.3g | %.4g | %.3g | %.1f | %.0f |\n", r.Name, r.Nanos, r.Nanos/two.Nanos, r.Median, r.Ratio(&two), r.Allocs, r.Bytes)
	}
	return nil
}
