package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// tablePath is the file of the table, below the root of the repository: go test
// shows the output of a test only if it fails, or with -v.
const tablePath = "out/e2e/faults.txt"

// report prints the table and writes it to a file.
func report(t *testing.T, rows []*row, pairs, runs int) {
	t.Helper()
	table := render(rows, pairs, runs)
	fmt.Print(table)
	path := filepath.Join("..", "..", filepath.FromSlash(tablePath))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(table), 0o644); err != nil {
		t.Fatal(err)
	}
}

// render returns the table and a description of its columns.
func render(rows []*row, pairs, runs int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d runs per row, each of %d pairs of steps, one with telemetry (%d spans, %d callbacks) and one without; %d processors, %s\n\n",
		runs, pairs, spansPerStep, 2*spansPerStep, runtime.NumCPU(), runtime.Version())
	if n := os.Getenv(niceVariable); n != "" {
		fmt.Fprintf(&b, "the training thread has the nice value %s\n\n", n)
	}
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tsteps/s\tsteps/s\tslower,\tslower,\tbackground\tmean\tworst\tworst,\tworst,\tworst\t")
	fmt.Fprintln(w, "backend\twithout\twith\twall\tCPU\tCPU/step\tcallback\tcallback\tundisturbed\ton CPU\twithout\t")
	for _, r := range rows {
		with, without := &r.with.watch, &r.without.watch
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%+.2f %%\t%+.2f %%\t%v\t%v\t%v\t%v\t%v\t%v\t\n", r.fault,
			perSecond(r.without.steps), perSecond(r.with.steps),
			100*r.slower(), 100*(float64(r.with.cpu)/float64(max(1, r.without.cpu))-1), short(r.background/time.Duration(len(r.with.steps))),
			short(with.mean()), short(with.worst), short(with.worstOwn), short(with.worstCPU), short(without.worst))
	}
	_ = w.Flush() // a strings.Builder returns no error
	fmt.Fprintln(&b)
	fmt.Fprintln(w, "\tspans\tspans\tspans\tspans\tlog records\tlog records\tlongest\t")
	fmt.Fprintln(w, "backend\tended\tdelivered\tdropped\treported\tmade\tdelivered\tshutdown\t")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%v\t\n", r.fault,
			r.ended, r.delivered, r.dropped, r.reported, r.logs, r.logsDelivered, r.shutdown.Round(10*time.Millisecond))
	}
	_ = w.Flush() // as above
	b.WriteString(`
steps/s: of the median step.
slower, wall: wall time, median over the pairs. slower, CPU: processor time of the training thread, over all steps.
background: processor time of all other threads of the job for one step with telemetry, mostly for sending.
worst callback: wall time. undisturbed: the worst of those in which the system gave the processor to no other thread or program.
on CPU: the worst by processor time. worst without: wall time, of as many pauses of the mean callback's length, without telemetry.
delivered: spans that the backend has. dropped: ended in the job, less those. reported: losses in the log at shutdown.
`)
	return b.String()
}

func perSecond(steps []time.Duration) float64 { return 1 / median(steps).Seconds() }

func short(d time.Duration) time.Duration {
	if d > time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(100 * time.Nanosecond)
}
