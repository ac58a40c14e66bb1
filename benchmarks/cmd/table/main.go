// Command table measures trainspan against other ways to leave a trace behind
// and prints the table of docs/benchmarks.md.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/trainspan/trainspan/benchmarks"
)

func main() {
	rounds := flag.Int("rounds", 15, "how often the cases take turns")
	each := flag.Duration("each", 150*time.Millisecond, "time of a case in each round")
	flag.Parse()
	if err := table(*rounds, *each); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

func table(rounds int, each time.Duration) error {
	dir, err := os.MkdirTemp("", "benchmarks")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is temporary

	cases, iterations := benchmarks.Cases(), benchmarks.Iterations()
	results, err := benchmarks.Measure(dir, append(cases, iterations...), rounds, each)
	if err != nil {
		return err
	}
	by := make(map[string]benchmarks.Result)
	for _, r := range results {
		by[r.Name] = r
	}
	bare := by[benchmarks.BareSpan]
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
	two := by[benchmarks.TwoBareSpans]
	fmt.Println("| one start and end of a training iteration | ns | x two bare spans | median ns | its processor time x | allocations | bytes |")
	fmt.Println("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
	for _, r := range results[len(cases):] {
		fmt.Printf("| %s | %.4g | %.3g | %.4g | %.3g | %.1f | %.0f |\n", r.Name, r.Nanos, r.Nanos/two.Nanos, r.Median, r.Ratio(&two), r.Allocs, r.Bytes)
	}
	fmt.Println()

	rate, perCore, err := benchmarks.Sustained(dir, 1_500_000)
	if err != nil {
		return err
	}
	p50, p99, p999, err := benchmarks.Latency(dir, 1_000_000)
	if err != nil {
		return err
	}
	disk, text, path, err := benchmarks.BytesPerEvent(dir, 40_000, 0, 6)
	if err != nil {
		return err
	}
	// What flushing every second makes of 12 steps a second.
	paced, _, _, err := benchmarks.BytesPerEvent(dir, 4_000, 12, 6)
	if err != nil {
		return err
	}
	least, _, _, err := benchmarks.BytesPerEvent(dir, 40_000, 0, 9)
	if err != nil {
		return err
	}
	plain, packed, err := benchmarks.ReaderSpeed(path)
	if err != nil {
		return err
	}
	trace, scope := by[benchmarks.SpanToTrace], by[benchmarks.Scope]
	fmt.Println("| measure | value | target |")
	fmt.Println("| --- | ---: | ---: |")
	row := func(what, value, target string) { fmt.Printf("| %s | %s | %s |\n", what, value, target) }
	f := fmt.Sprintf
	row("OTel span to .pfw.gz / bare span", f("%.2f", trace.Nanos/bare.Nanos), "at most 1.30")
	row("its further allocations", f("%.1f", trace.Allocs-bare.Allocs), "at most 1")
	row("stdouttrace / OTel span to .pfw.gz", f("%.1f", by[benchmarks.Stdout].Nanos/trace.Nanos), "at least 8")
	row("ai scope / bare span", f("%.2f", scope.Nanos/bare.Nanos), "at most 0.30")
	row("its allocations", f("%.1f", scope.Allocs), "at most 1")
	file := by[benchmarks.FileRead]
	row("pread through iofs / bare span", f("%.2f", file.Nanos/bare.Nanos), "at most 0.35")
	row("its allocations", f("%.1f", file.Allocs), "at most 1")
	row("ai scope on 2 goroutines / on 1", f("%.2f", by[benchmarks.ScopeTwo].Nanos/scope.Nanos), "at most 1")
	iteration := func(name, target string) {
		row(name+" / two bare spans", f("%.2f", by[name].Nanos/two.Nanos), target)
	}
	iteration(benchmarks.Iteration, "at most 1.4")
	iteration(benchmarks.IterationLines, "at most 3.0")
	iteration(benchmarks.IterationExporter, "at most 2.0")
	row("disabled node", f("%.1f ns", by[benchmarks.Disabled].Nanos), "at most 5 ns")
	row("sustained, all cores, compressed", f("%.2f million events/s", rate/1e6), "at least 1.5")
	row("the same, of each second of a processor", f("%.2f million events", perCore/1e6), "")
	row("on disk, realistic steps", f("%.1f bytes an event (%.0f as text)", disk, text), "at most 12")
	row("the same, level 9", f("%.1f bytes an event", least), "")
	row("the same, a gzip member for every 12 steps", f("%.1f bytes an event", paced), "")
	row("one scope, median and 99 %", f("%v, %v", p50, p99), "")
	row("one scope, 99.9 %", f("%v", p999), "under 20 µs")
	row("reader, one core, plain text", f("%.0f MB/s", plain), "at least 300")
	row("reader, one core, with decompression", f("%.0f MB/s of text", packed), "")
	return nil
}
