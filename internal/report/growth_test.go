package report_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/growth"
)

// BenchmarkGrowthProcesses builds the report of one file with many processes: attempts without
// steps, attempts with steps, ranks of one attempt, and attempts with as many helpers.
func BenchmarkGrowthProcesses(b *testing.B) {
	for name, of := range map[string]func(w io.Writer, i, n int){
		"Silent":   func(w io.Writer, i, _ int) { event(w, "load", i, 100*i, 90) },
		"Attempts": func(w io.Writer, i, _ int) { threeSteps(w, i, 100*i, 30) },
		"Ranks":    func(w io.Writer, i, n int) { threeSteps(w, i, i, 2*n) },
		"Helpers": func(w io.Writer, i, _ int) {
			if i%2 == 0 {
				event(w, "read", i, 100*i, 60)
				return
			}
			threeSteps(w, i, 100*i, 30)
		},
	} {
		b.Run(name, func(b *testing.B) {
			const small = 1500
			paths := make(map[int]string)
			for _, n := range []int{small, 16 * small} {
				var text bytes.Buffer
				text.WriteString("[\n")
				for i := range n {
					of(&text, i, n)
				}
				paths[n] = filepath.Join(b.TempDir(), "many.pfw")
				if err := os.WriteFile(paths[n], text.Bytes(), 0o600); err != nil {
					b.Fatal(err)
				}
			}
			growth.Bench(b, small, func(n int) {
				set, err := job.Open(paths[n])
				if err != nil {
					b.Fatal(err)
				}
				jobs, err := report.Read(set)
				if err != nil {
					b.Fatal(err)
				}
				if err := report.Text(io.Discard, report.Build(jobs[0])); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

func threeSteps(w io.Writer, pid, start, period int) {
	for k := range 3 {
		event(w, "training_iteration", pid, start+k*period, period-1)
	}
}

func event(w io.Writer, name string, pid, start, took int) {
	fmt.Fprintf(w, `{"name":%q,"cat":"training","pid":%d,"tid":1,"ts":%d,"dur":%d,"ph":"X","args":{}}`+"\n", name, 1000+pid, 1_700_000_000_000_000+start, took)
}
