package dataset_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/spanstats"
	"github.com/trainspan/trainspan/internal/job"
)

// TestOwnTimeOfSpansThatOverlap checks spans of one thread that overlap without
// nesting, in a file of interleaved tasks without parents or levels, as
// DFTracer writes it. Each instant counts once, for the span that began last:
// in the summary, in the columns of the table and in the accounts.
func TestOwnTimeOfSpansThatOverlap(t *testing.T) {
	type span struct {
		cat, name  string
		start, end int64
	}
	const at = 1_700_000_000_000_000
	for name, tc := range map[string]struct {
		spans []span
		own   map[string]int64
	}{
		"one outlasts another": {
			[]span{{"mine", "a", 10, 60}, {"mine", "b", 40, 90}, {"pipeline", "train", 0, 100}},
			map[string]int64{"train": 20, "a": 30, "b": 50},
		},
		"a wait outlasts a save": { // between threads, an interruption such as a save would take precedence
			[]span{{"checkpoint", "capture", 10, 60}, {"dataloader", "fetch.iter", 40, 90}, {"pipeline", "train", 0, 100}},
			map[string]int64{"train": 20, "capture": 30, "fetch.iter": 50},
		},
		"one outlasts two that lie in each other": {
			[]span{{"mine", "b", 20, 50}, {"mine", "a", 10, 60}, {"mine", "c", 40, 90}, {"pipeline", "train", 0, 100}},
			map[string]int64{"train": 20, "a": 10, "b": 20, "c": 50},
		},
		"what is inside of both is of the later one": {
			[]span{{"mine", "d", 15, 20}, {"mine", "c", 45, 55}, {"mine", "a", 10, 60}, {"mine", "b", 40, 90}, {"pipeline", "train", 0, 100}},
			map[string]int64{"train": 20, "a": 25, "b": 40, "c": 10, "d": 5},
		},
		"a chain": {
			[]span{{"mine", "a", 0, 40}, {"mine", "b", 30, 60}, {"mine", "c", 35, 80}, {"mine", "d", 70, 90}, {"pipeline", "train", 0, 100}},
			map[string]int64{"train": 10, "a": 30, "b": 5, "c": 35, "d": 20},
		},
		"two at the same time": { // the one that was written first is inside
			[]span{{"mine", "a", 10, 60}, {"mine", "b", 10, 60}, {"mine", "c", 50, 90}, {"pipeline", "train", 0, 100}},
			map[string]int64{"train": 20, "a": 40, "c": 40},
		},
	} {
		t.Run(name, func(t *testing.T) {
			traces := t.TempDir()
			var text strings.Builder
			text.WriteString("[\n")
			for i, s := range tc.spans {
				fmt.Fprintf(&text, `{"id":%d,"name":%q,"cat":%q,"pid":3,"tid":3,"ts":%d,"dur":%d,"ph":"X","args":{"hhash":"h"}}`+"\n", i+1, s.name, s.cat, at+s.start, s.end-s.start)
			}
			path := filepath.Join(traces, "trace-0.pfw")
			if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			check := func(who string, own func(name string) int64) {
				for _, s := range tc.spans {
					if got := own(s.name); got != tc.own[s.name] {
						t.Errorf("%s: %s has %d of its own, want %d", who, s.name, got, tc.own[s.name])
					}
				}
			}

			agg := spanstats.New(nil)
			if _, err := dftracer.Scan(path, nil, func(ev *dftracer.Event) error { agg.Add(ev); return nil }); err != nil {
				t.Fatal(err)
			}
			names := agg.Result().Names
			check("summary", func(name string) int64 {
				return names[slices.IndexFunc(names, func(n spanstats.NameStat) bool { return n.Name == name })].Self
			})

			dir, _ := convert(t, 0, traces)
			table := make(map[string]int64)
			for _, e := range read(t, dir) {
				table[e.Name] += e.Dur
				left := e.Dur
				for _, p := range e.Outlasts {
					table[p.Name] -= p.Us
					left -= p.Us
				}
				if e.OuterName != nil {
					table[*e.OuterName] -= left
				}
			}
			check("table", func(name string) int64 { return table[name] })

			set, err := job.Open(traces)
			if err != nil {
				t.Fatal(err)
			}
			accounts, err := account.Collect(set)
			if err != nil || len(accounts) != 1 {
				t.Fatalf("conversion gave %d jobs, want 1: %v", len(accounts), err)
			}
			ledger := accounts[0].Ledger.Report(account.Query{}).Categories
			category := map[string]account.Category{"train": account.Other, "capture": account.CheckpointSave, "fetch.iter": account.DataWait}
			check("ledger", func(name string) int64 {
				if c, ok := category[name]; ok {
					return ledger[c] / 1000
				}
				return ledger[account.Category("custom."+name)] / 1000
			})
		})
	}
}
