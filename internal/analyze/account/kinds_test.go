package account_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/job"
)

// drawnRow is a row of a drawn timeline: each character is a second, and adjacent equal
// letters are one span. The parent of a span is the span above it on the same thread.
type drawnRow struct {
	thread int64
	line   string
}

// meaning is the span that a letter stands for.
type meaning struct {
	cat, name string
	change    func(*job.Span)
}

// drawRows returns the spans of rows of a timeline that begins at second 1.
func drawRows(rows []drawnRow, letters map[byte]meaning, add func(*job.Span, meaning)) {
	type drawnSpan struct {
		id         uint64
		thread     int64
		start, end float64
	}
	var above []drawnSpan
	for _, r := range rows {
		for from := 0; from < len(r.line); {
			to := from
			for to < len(r.line) && r.line[to] == r.line[from] {
				to++
			}
			m, ok := letters[r.line[from]]
			s := drawnSpan{thread: r.thread, start: 1 + float64(from), end: 1 + float64(to)}
			from = to
			if !ok {
				continue
			}
			parent := uint64(0)
			for _, p := range above {
				if p.thread == s.thread && p.start <= s.start && s.end <= p.end {
					parent = p.id
				}
			}
			s.id = uint64(len(above) + 1)
			sp := job.Span{ID: s.id, Parent: parent, Thread: r.thread, Start: ns(s.start), End: ns(s.end), Step: job.Unknown, First: job.Unknown}
			sp.SetName(m.cat, m.name)
			if m.change != nil {
				m.change(&sp)
			}
			add(&sp, m)
			above = append(above, s)
		}
	}
}

// TestKindsOfRecords draws the records of each kind of program, and checks their categories.
// docs/explain/goodput.md shows the same timelines.
func TestKindsOfRecords(t *testing.T) {
	type seconds = map[string]float64
	onDevice := func(s *job.Span) { s.Launch, s.Background = s.Start-1, true }
	page, err := os.ReadFile("../../../docs/explain/goodput.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		rows    []drawnRow
		letters map[byte]meaning
		updates []job.Event // of the metrics of training
		totals  seconds
		parts   seconds
		steps   int
		noFile  bool // not a trace, or it needs more than names and times
	}{
		{
			name: "DLIO: a step is what it computes for a batch, known at the end",
			rows: []drawnRow{
				{1, "TTTTTTTTTTTTTTEEEEEE"},
				{1, "lllyyyylllyyyy......"},
				{1, "....ccc....cccl.cccc"},
			},
			letters: map[byte]meaning{
				'T': {"dlio_benchmark", "DLIOBenchmark._train", nil}, 'E': {"dlio_benchmark", "DLIOBenchmark._eval", nil},
				'l': {"data_loader", "loop.iter", nil}, 'y': {"data_loader", "loop.yield", nil}, 'c': {"ai_framework", "TorchFramework.compute", nil},
			},
			totals: seconds{"productive": 6, "data_wait": 7, "validation": 5, "other": 2}, parts: seconds{"step_unsplit": 6}, steps: 2,
		},
		{
			name: "no span of a step: a step ends with the optimizer",
			rows: []drawnRow{
				{1, "TTTTTTTTTTTTTTTT"},
				{1, "lffbbolffbbol..."},
			},
			letters: map[byte]meaning{
				'T': {"pipeline", "train", nil}, 'l': {"dataloader", "fetch.iter", nil}, 'f': {"compute", "forward", nil}, 'b': {"compute", "backward", nil}, 'o': {"compute", "step", nil},
			},
			totals: seconds{"productive": 10, "data_wait": 3, "other": 3}, parts: seconds{"compute": 10}, steps: 2,
		},
		{
			name: "JSON lines: totals of steps that are not recorded themselves",
			rows: []drawnRow{
				{0, "AAAAAAAAAAAAAAAA"},
				{0, ".LLLLLLLLLLLLLL."},
				{0, ".......s........"},
			},
			letters: map[byte]meaning{'A': {"", "application", nil}, 'L': {"", "training_loop", nil}, 's': {"", "checkpoint_save_sync", nil}},
			updates: []job.Event{{Time: ns(1 + 7), Iterations: 2, Took: ns(4)}, {Time: ns(1 + 14), Iterations: 5, Took: ns(10)}},
			totals:  seconds{"productive": 10, "checkpoint_save": 1, "other": 5}, parts: seconds{"step_unsplit": 10}, steps: 5, noFile: true,
		},
		{
			name: "devices: the host asks, and the step is the host's",
			rows: []drawnRow{
				{1, "iiiiiiiijjjjjjjj"},
				{1, "lfbo....lfbo...."},
				{9, "..kkkkk...kkkkk."},
			},
			letters: map[byte]meaning{
				'i': {"pipeline", "train.iteration", nil}, 'j': {"pipeline", "train.iteration", nil}, 'l': {"dataloader", "fetch.iter", nil}, 'f': {"compute", "forward", nil}, 'b': {"compute", "backward", nil},
				'o': {"compute", "step", nil}, 'k': {"kernel", "gemm", onDevice},
			},
			totals: seconds{"productive": 14, "data_wait": 2}, parts: seconds{"step_unsplit": 14}, steps: 2, noFile: true,
		},
		{
			name: "a profile: steps of the profiler, and rows of its own for what it concludes",
			rows: []drawnRow{
				{100, "TTTTTTTTTTTTTTTT"},
				{1, "ppppppppqqqqqqqq"},
				{101, ".ff......ff....."},
				{102, "...bbb.....bbb.."},
				{1, "......oo......oo"},
			},
			letters: map[byte]meaning{
				'T': {"pipeline", "train", nil}, 'p': {"pipeline", "ProfilerStep#3", nil}, 'q': {"pipeline", "ProfilerStep#4", nil},
				'f': {"compute", "forward", nil}, 'b': {"compute", "backward", nil}, 'o': {"compute", "step", nil},
			},
			totals: seconds{"productive": 16}, parts: seconds{"compute": 14, "other_code": 2}, steps: 2,
		},
		{
			name: "no steps: work keeps its names",
			rows: []drawnRow{
				{1, "AAAAAAAAAAAAAAAAAAAA"},
				{1, "IIgggggaavvvggggga.."},
				{1, "...rr..............."},
			},
			letters: map[byte]meaning{
				'A': {"ai_root", "ai_root", nil}, 'I': {"compute", "compute.init", nil}, 'g': {"app", "generate", nil}, 'a': {"comm", "all_gather", nil},
				'v': {"pipeline", "evaluate", nil}, 'r': {"POSIX", "read", nil},
			},
			totals: seconds{"productive": 3, "init": 2, "validation": 3, "custom.generate": 10, "other": 2}, parts: seconds{"communication": 3},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, r := range tt.rows {
				if !strings.Contains(string(page), "\n"+r.line+" ") {
					t.Errorf("docs/explain/goodput.md has no row %q", r.line)
				}
			}
			end := 1 + float64(len(tt.rows[0].line))
			p := &job.Process{Start: ns(1), End: ns(end), LastSeen: ns(end), Heartbeats: true}
			for i := range tt.updates {
				u := tt.updates[i]
				u.Name, u.Step, u.Through = "training_metrics_update", job.Unknown, job.Unknown
				p.Steps.AddUpdate(&u)
			}
			sink, b := account.OpenSink(p, nil)
			var file strings.Builder // the same without parents
			drawRows(tt.rows, tt.letters, func(s *job.Span, m meaning) {
				p.Steps.Add(s)
				sink.Span(s)
				fmt.Fprintf(&file, "{\"id\":%d,\"name\":%q,\"cat\":%q,\"pid\":7,\"tid\":%d,\"ts\":%d,\"dur\":%d,\"ph\":\"X\"}\n",
					s.ID, m.name, m.cat, s.Thread, 1700000000_000000+s.Start/1000, (s.End-s.Start)/1000)
			})
			if err := sink.Close(); err != nil {
				t.Fatal(err)
			}
			var ledger account.Ledger
			mustAdd(&ledger, account.Numbered(b, 0, 1))
			check := func(from string, rep *account.Report) {
				t.Helper()
				got, parts := seconds{}, seconds{}
				for c, v := range rep.Categories {
					got[string(c)] = float64(v) / sec
				}
				for c, v := range rep.ProductiveParts {
					parts[string(c)] = float64(v) / sec
				}
				if !maps.Equal(got, tt.totals) || !maps.Equal(parts, tt.parts) || rep.Iterations.Kept != tt.steps {
					t.Errorf("%s: %v in all, want %v\n%v in steps, want %v\n%d steps, want %d", from, got, tt.totals, parts, tt.parts, rep.Iterations.Kept, tt.steps)
				}
			}
			check("spans with parents", ledger.Report(account.Query{}))
			if tt.noFile {
				return
			}
			path := filepath.Join(t.TempDir(), "rank0.pfw")
			if err := os.WriteFile(path, []byte("[\n"+file.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			set, err := job.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			all, err := account.Collect(set)
			if err != nil || len(all) != 1 {
				t.Fatalf("read %d jobs, want 1: %v", len(all), err)
			}
			check("a trace without parents", all[0].Ledger.Report(account.Query{}))
		})
	}
}
