// Command mutate changes a package in small ways, one at a time, and prints the
// changes that its tests do not notice: rules without a test. The files stay as
// they are; the compiler gets the changed one as an overlay.
//
//	make mutate PKG=./analysis/goodput
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("mutate: ")
	var o options
	flag.IntVar(&o.sample, "n", 40, "how many mutants")
	flag.Uint64Var(&o.seed, "seed", 1, "of the sample; the same seed takes the same mutants")
	flag.BoolVar(&o.long, "long", false, "run all tests, not those of -short alone")
	flag.DurationVar(&o.timeout, "timeout", 0, "of the tests with a mutant (default: three times that of those without, and 20 s)")
	flag.IntVar(&o.memory, "memory", 8, "GiB that the tests may take, where prlimit is installed")
	flag.StringVar(&o.only, "only", "", "mutants of files whose names hold this")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("name one package, such as ./analysis/goodput")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	start := time.Now()
	r, err := run(ctx, flag.Arg(0), &o, func(m *mutant) { fmt.Println(m) })
	if err != nil {
		log.Fatal(err) //nolint:gocritic // nothing is left to end
	}
	fmt.Printf("%s, seed %d: %d mutants of %d possible ones, %d survived, %d more did not build; %v\n",
		flag.Arg(0), o.seed, r.tried, r.possible, r.survived, r.broken, time.Since(start).Round(time.Second))
}
