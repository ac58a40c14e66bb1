package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/testkit/simjob"
	"github.com/trainspan/trainspan/test/bench"
)

const (
	mixSteps           = 40_000  // of the trace of realistic steps with eleven events each
	summarySteps       = 110_000 // 1.2 million events
	jobRanks, jobSteps = 64, 1000
	profileEvents      = 60_000 // operators; each has its runtime call and its kernel
)

// groups lists all rows of the table.
func groups() []group {
	read, hello := "a bare reader of the traces", "a Go program that says hello"
	all := []group{
		{[]row{{"sustained, compressed, events per second of wall time, and per second of processor time", "none", "4 million"}}, sustained},
		{[]row{{"an ai scope at 99.9 %, while others compress", "the median", ""}}, latency},
		{[]row{{"on disk, realistic steps, bytes an event", "as text", "14.5"}}, onDisk},
		{[]row{{"reader, inflating, text of a second of a processor", "inflating alone", "650 MB"}}, inflating},
		{[]row{{"`summary` of 1.2 million events", read, "0.4 s"}}, summary},
		{[]row{{"`import` of a profile, as it would be of 500 MB", "`gjson`, finding that it is JSON", "2 s"}}, imported},
		{[]row{{"`report`, 64 ranks of 1,000 steps", read, "2.0"}}, onJob(0, "report", "{}", "--json")},
		{[]row{{"Parquet, as it would be of 12.3 million rows", read, "8 s"}}, onJob(12.3e6, "trace", "convert", "{}", "--to", "parquet", "--force", "-o", "{}-lake")},
		{[]row{{"receiver, a span from OTLP to the file", "decoding the request", "3 µs"}}, receiver},
		{[]row{{"a span from the rings of eight processes to the trace", "none", "0.7 µs"}}, rings},
		{[]row{{"start of `trainspan version`", hello, "20 ms"}}, start("version")},
		{[]row{{"start of `report` on one small trace", hello, "50 ms"}}, start("report", "{}", "--json")},
	}
	all = append(all, growths()...)
	return append([]group{within("bare span", bench.BareSpan, bench.Cases(), []pair{
		{"OTel span to .pfw.gz", bench.SpanToTrace, "1.30"},
		{"ai scope", bench.Scope, "0.24"},
		{"ai scope on two goroutines, wall time", bench.ScopeTwo, "1.0"},
	}), within("two bare spans", bench.TwoBareSpans, bench.Iterations(), []pair{
		{"iteration pair, nothing exported", bench.Iteration, "1.2"},
		{"iteration pair, JSON lines", bench.IterationLines, "2.2"},
		{"iteration pair, span exporter", bench.IterationExporter, "2.0"},
	})}, all...)
}

type pair struct{ what, name, goal string }

// within returns the rows of cases that run in this process, alternating with a
// rival.
func within(rival, name string, cases []bench.Case, pairs []pair) group {
	var g group
	cases = slices.DeleteFunc(cases, func(c bench.Case) bool {
		return c.Name != name && !slices.ContainsFunc(pairs, func(p pair) bool { return p.name == c.Name })
	})
	for _, p := range pairs {
		g.rows = append(g.rows, row{p.what, rival, p.goal})
	}
	g.measure = func(t *tables, rows []row) error {
		for i := range pairs {
			if at := slices.IndexFunc(cases, func(c bench.Case) bool { return c.Name == pairs[i].name }); t.profile && t.match(&rows[i]) {
				if err := t.profiledCase(pairs[i].what, &cases[at]); !errors.Is(err, errProfiled) {
					return err
				}
			}
		}
		if t.profile {
			return errProfiled
		}
		results, err := bench.Measure(t.dir, cases, t.inner, t.each)
		if err != nil {
			return err
		}
		by := make(map[string]*bench.Result)
		for i := range results {
			by[results[i].Name] = &results[i]
		}
		for i, p := range pairs {
			r, base := by[p.name], by[name]
			ratio := r.Ratio(base)
			if p.name == bench.ScopeTwo { // its time does not include the work of other goroutines
				ratio = r.Median / by[bench.Scope].Median
				rows[i].rival = "ai scope on one"
			}
			rows[i].line(fmt.Sprintf("%.0f ns", r.Median), fmt.Sprintf("%.2f", ratio))
		}
		return nil
	}
	return g
}

func sustained(t *tables, rows []row) error {
	if t.profile {
		return t.profiled(rows[0].what, func(path string) error {
			return recorded(path, func() error {
				_, _, err := bench.Sustained(t.dir, 3_000_000)
				return err
			})
		})
	}
	rate, perCore, err := bench.Sustained(t.dir, 1_500_000)
	if err == nil {
		rows[0].line(fmt.Sprintf("%.2f million, %.2f million", rate/1e6, perCore/1e6), "")
	}
	return err
}

func latency(t *tables, rows []row) error {
	p50, _, p999, err := bench.Latency(t.dir, 1_000_000)
	if err == nil {
		rows[0].line(fmt.Sprintf("%.1f µs", p999.Seconds()*1e6), fmt.Sprintf("%.1f", p999.Seconds()/p50.Seconds()))
	}
	return err
}

func onDisk(t *tables, rows []row) error {
	disk, text, _, err := bench.BytesPerEvent(t.dir, mixSteps, 0, 6)
	if err != nil {
		return err
	}
	best, _, _, err := bench.BytesPerEvent(t.dir, mixSteps, 0, 9)
	if err == nil {
		rows[0].line(fmt.Sprintf("%.1f, at level 9 %.1f", disk, best), fmt.Sprintf("%.3f", disk/text))
	}
	return err
}

func inflating(t *tables, rows []row) error {
	disk, text, path, err := bench.BytesPerEvent(t.dir, mixSteps, 0, 6)
	if err != nil {
		return err
	}
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	m, _, ratio, err := t.beside([]string{t.self, "-alone", "read", path}, []string{t.self, "-alone", "inflate", path})
	if err == nil {
		rows[0].line(fmt.Sprintf("%.0f MB", float64(st.Size())*text/disk/1e6/m.User.Seconds()), fmt.Sprintf("%.2f", ratio))
	}
	return err
}

func summary(t *tables, rows []row) error {
	_, _, path, err := bench.BytesPerEvent(t.dir, summarySteps, 0, 6)
	if err != nil {
		return err
	}
	return t.commandBeside(rows[0], []string{"trace", "summary", path}, "read", path, 1)
}

func imported(t *tables, rows []row) error {
	path := filepath.Join(t.dir, "profile.json")
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	simjob.WriteProfile(f, profileEvents, 0)
	st, err := f.Stat()
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return t.commandBeside(rows[0], []string{"trace", "import", path, "-o", filepath.Join(t.dir, "imported.pfw.gz"), "--force"}, "scan", path, 500e6/float64(st.Size()))
}

// onJob measures a command on the traces of a job; {} is their folder. The time
// is per that number of events, or per the job's events if it is 0.
func onJob(events float64, args ...string) func(*tables, []row) error {
	return func(t *tables, rows []row) error {
		dir, err := t.job(jobRanks, jobSteps)
		if err != nil {
			return err
		}
		times := 1.0
		if events > 0 {
			times = events / (jobRanks * jobSteps * simjob.SpansPerStep)
		}
		return t.commandBeside(rows[0], fill(args, dir), "read", dir, times)
	}
}

// commandBeside fills a row with the cost of the command, multiplied by times,
// and its ratio to the cost of this program with -alone.
func (t *tables) commandBeside(r row, args []string, what, path string, times float64) error {
	binary, err := t.command()
	if err != nil {
		return err
	}
	m, _, ratio, err := t.beside(append([]string{binary}, args...), []string{t.self, "-alone", what, path})
	if err == nil {
		r.line(fmt.Sprintf("%.2f s, %.0f MB", m.User.Seconds()*times, float64(m.Memory)/1e6), fmt.Sprintf("%.2f", ratio))
	}
	return err
}

// benchmark is a benchmark of a package of the module.
type benchmark struct{ pkg, name string }

var (
	receiverBench = benchmark{"./internal/ingest/otlpreceiver", "^BenchmarkSpan$"}
	ringBench     = benchmark{"./integrations/python", "^BenchmarkDrain$"}
)

func receiver(t *tables, rows []row) error {
	units, err := t.goTest(receiverBench.pkg, receiverBench.name)
	if err == nil {
		rows[0].line(fmt.Sprintf("%.2f µs", units["ns/span"]/1e3), fmt.Sprintf("%.2f", units["decode-x"]))
	}
	return err
}

func rings(t *tables, rows []row) error {
	units, err := t.goTest(ringBench.pkg, ringBench.name)
	if err == nil {
		rows[0].line(fmt.Sprintf("%.2f µs", units["cpu-ns/span"]/1e3), "")
	}
	return err
}

// start measures the wall time of a command with little work.
func start(args ...string) func(*tables, []row) error {
	return func(t *tables, rows []row) error {
		hello, err := t.hello()
		if err != nil {
			return err
		}
		binary, err := t.command()
		if err != nil {
			return err
		}
		dir, err := t.job(1, 20)
		if err != nil {
			return err
		}
		few := *t
		few.rounds *= 5 // it takes milliseconds
		m, h, _, err := few.beside(append([]string{binary}, fill(args, dir)...), []string{hello})
		if err == nil {
			rows[0].line(fmt.Sprintf("%.1f ms", m.Wall.Seconds()*1e3), fmt.Sprintf("%.1f", m.Wall.Seconds()/h.Wall.Seconds()))
		}
		return err
	}
}

// fill replaces {} in arguments by a folder.
func fill(args []string, dir string) []string {
	filled := make([]string, len(args))
	for i, a := range args {
		filled[i] = strings.ReplaceAll(a, "{}", dir)
	}
	return filled
}
