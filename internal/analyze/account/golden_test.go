package account_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/job"
)

const ms = 1_000_000

// scenario is one file of recorded jobs with their exact ledgers.
type scenario struct {
	Name     string          `json:"name"`
	EpochMS  int64           `json:"epoch_ms"`
	Spans    []scenarioSpan  `json:"spans"`
	Attempts []attemptRecord `json:"attempts"`
	Queries  []query         `json:"queries"`
	Right    []right         `json:"right"`
}

type scenarioSpan struct {
	ID         uint64  `json:"id"`
	Parent     *uint64 `json:"parent"`
	Rank       int     `json:"rank"`
	Attempt    int     `json:"attempt"`
	Name       string  `json:"name"`
	Start      int64   `json:"start_ms"`
	End        *int64  `json:"end_ms"`
	Attributes struct {
		Iteration  *int64 `json:"iteration"`
		First      *int64 `json:"train_iterations_start"`
		Background bool   `json:"background"`
	} `json:"attributes"`
}

type attemptRecord struct {
	Attempt  int    `json:"attempt"`
	Rank     int    `json:"rank"`
	Start    int64  `json:"start_ms"`
	End      *int64 `json:"end_ms"`
	LastSeen int64  `json:"last_seen_ms"`
}

type query struct {
	Call    string     `json:"call"`
	At      int64      `json:"at_ms"`
	From    int64      `json:"from_ms"`
	To      int64      `json:"to_ms"`
	Exclude [][2]int64 `json:"exclude_ms"`
}

type split struct {
	Wall       int64            `json:"wall_ms"`
	Categories map[string]int64 `json:"categories_ms"`
	Goodput    *float64         `json:"goodput_pct"`
	Observed   json.RawMessage  `json:"goodput_observed_pct"`
	Overlapped map[string]int64 `json:"overlapped_ms"`
	Attempt    int              `json:"attempt"`
	Rank       int              `json:"rank"`
}

type right struct {
	split
	AsOf          *int64           `json:"as_of_ms"`
	From          *int64           `json:"from_ms"`
	To            *int64           `json:"to_ms"`
	Excluded      int64            `json:"excluded_ms"`
	Ranks         int              `json:"ranks"`
	RankMS        map[string]int64 `json:"rank_ms"`
	AllProductive *int64           `json:"all_productive_ms"`
	AnyProductive *int64           `json:"any_productive_ms"`
	PerRank       []split          `json:"per_rank"`
	Attempts      []split          `json:"attempts"`
	Live          *right           `json:"live"`
	Final         *right           `json:"final"`
}

func number(p *int64, unknown int64) int64 {
	if p == nil {
		return unknown
	}
	return *p
}

// builders returns a builder for each process of the scenario.
func (s *scenario) builders() []*account.Builder {
	at := func(t int64) int64 { return (s.EpochMS + t) * ms }
	type key struct{ rank, attempt int }
	made := make(map[key]*account.Builder)
	var list []*account.Builder
	for _, a := range s.Attempts {
		p := account.Process{
			Rank: a.Rank, Attempt: a.Attempt, Start: at(a.Start), End: job.NoEnd,
			LastSeen: at(a.LastSeen), Heartbeats: true,
		}
		if a.End != nil {
			p.End = at(*a.End)
		}
		b := account.NewBuilder(p)
		made[key{a.Rank, a.Attempt}] = b
		list = append(list, b)
	}
	for _, sp := range s.Spans {
		b := made[key{sp.Rank, sp.Attempt}]
		out := job.Span{
			ID: sp.ID, Name: sp.Name, Start: at(sp.Start), End: job.NoEnd,
			Step: number(sp.Attributes.Iteration, job.Unknown), First: number(sp.Attributes.First, job.Unknown),
			Background: sp.Attributes.Background,
		}
		if sp.Parent != nil {
			out.Parent = *sp.Parent
		}
		if sp.End != nil {
			out.End = at(*sp.End)
		}
		out.SetName(out.Cat, out.Name)
		b.Span(&out)
		if sp.Name == "checkpoint_save_sync" && sp.End != nil && out.Step >= 0 {
			b.Saved(out.End, out.Step)
		}
	}
	return list
}

func (s *scenario) ledger() *account.Ledger {
	var l account.Ledger
	for _, b := range s.builders() {
		if err := l.Add(b); err != nil {
			panic(err)
		}
	}
	return &l
}

func (s *scenario) query(q query, r *right, live bool) account.Query {
	at := func(t int64) int64 { return (s.EpochMS + t) * ms }
	if q.Call == "interval" {
		out := account.Query{From: at(q.From), To: at(q.To)}
		if live {
			out.AsOf = out.To
		}
		return out
	}
	moment := q.At
	if r.AsOf != nil {
		moment = *r.AsOf
	}
	out := account.Query{To: at(moment), AsOf: at(moment)}
	for _, e := range q.Exclude {
		out.Exclude = append(out.Exclude, account.Interval{From: at(e[0]), To: at(e[1])})
	}
	return out
}

// sameNS compares a figure in nanoseconds with one in milliseconds.
func sameNS(ns, want int64) bool { return ns > (want-1)*ms && ns < (want+1)*ms }

func diffTotals(what string, have account.Totals, want map[string]int64) (bad []string) {
	names := make(map[string]bool)
	for c := range have {
		names[string(c)] = true
	}
	for c := range want {
		names[c] = true
	}
	for _, c := range slices.Sorted(func(yield func(string) bool) {
		for n := range names {
			if !yield(n) {
				return
			}
		}
	}) {
		if ns := have[account.Category(c)]; !sameNS(ns, want[c]) {
			bad = append(bad, fmt.Sprintf("%s %s: %.3f ms, want %d", what, c, float64(ns)/ms, want[c]))
		}
	}
	return bad
}

func diffPercent(what string, have float64, want *float64) (bad []string) {
	switch {
	case want == nil && !math.IsNaN(have):
		return []string{fmt.Sprintf("%s: %v, want none", what, have)}
	case want != nil && !(math.Abs(100*have-*want) < 1e-6):
		return []string{fmt.Sprintf("%s: %v, want %v", what, 100*have, *want)}
	}
	return nil
}

// diff compares a report with every expected figure.
func diff(rep *account.Report, want *right) (bad []string) {
	if !sameNS(rep.Wall, want.Wall) {
		bad = append(bad, fmt.Sprintf("wall: %.3f ms, want %d", float64(rep.Wall)/ms, want.Wall))
	}
	sum := rep.Categories.Sum()
	if sum != rep.Wall*int64(len(rep.Ranks)) {
		bad = append(bad, fmt.Sprintf("categories add up to %d ns, %d ranks have %d each", sum, len(rep.Ranks), rep.Wall))
	}
	categories := want.Categories
	if want.RankMS != nil {
		categories = want.RankMS
	}
	bad = append(bad, diffTotals("category", rep.Categories, categories)...)
	bad = append(bad, diffPercent("goodput", rep.Ratio(), want.Goodput)...)
	if want.Observed != nil {
		var p *float64
		if json.Unmarshal(want.Observed, &p) == nil {
			bad = append(bad, diffPercent("observed goodput", float64(rep.Categories[account.Productive])/float64(rep.Categories.Sum()-rep.Categories[account.Unobserved]), p)...)
		}
	}
	if want.Overlapped != nil || want.AsOf != nil && want.RankMS == nil && want.Excluded == 0 {
		bad = append(bad, diffTotals("overlapped", rep.Overlapped, want.Overlapped)...)
	}
	if !sameNS(rep.Excluded, want.Excluded) {
		bad = append(bad, fmt.Sprintf("excluded: %d ns, want %d ms", rep.Excluded, want.Excluded))
	}
	if want.Ranks != 0 && want.Ranks != len(rep.Ranks) {
		bad = append(bad, fmt.Sprintf("%d ranks, want %d", len(rep.Ranks), want.Ranks))
	}
	if want.AllProductive != nil && !sameNS(rep.AllProductive, *want.AllProductive) {
		bad = append(bad, fmt.Sprintf("all productive: %d ns, want %d ms", rep.AllProductive, *want.AllProductive))
	}
	if want.AnyProductive != nil && !sameNS(rep.AnyProductive, *want.AnyProductive) {
		bad = append(bad, fmt.Sprintf("any productive: %d ns, want %d ms", rep.AnyProductive, *want.AnyProductive))
	}
	for _, w := range want.PerRank {
		i := slices.IndexFunc(rep.Ranks, func(r account.RankReport) bool { return r.Rank == w.Rank })
		if i < 0 {
			bad = append(bad, fmt.Sprintf("rank %d is missing", w.Rank))
			continue
		}
		bad = append(bad, diffTotals(fmt.Sprint("rank ", w.Rank), rep.Ranks[i].Categories, w.Categories)...)
		if !sameNS(rep.Ranks[i].Categories.Sum(), w.Wall) {
			bad = append(bad, fmt.Sprintf("rank %d: wall %d ns, want %d ms", w.Rank, rep.Ranks[i].Categories.Sum(), w.Wall))
		}
	}
	for _, w := range want.Attempts {
		i := slices.IndexFunc(rep.Attempts, func(a account.AttemptReport) bool { return a.Attempt == w.Attempt })
		if i < 0 {
			bad = append(bad, fmt.Sprintf("attempt %d is missing", w.Attempt))
			continue
		}
		bad = append(bad, diffTotals(fmt.Sprint("attempt ", w.Attempt), rep.Attempts[i].Categories, w.Categories)...)
	}
	return bad
}

// check replays a scenario and compares its reports with the expected figures.
func (s *scenario) check(t *testing.T) (figures int) {
	l := s.ledger()
	queries := s.Queries
	if len(queries) == 0 {
		queries = make([]query, len(s.Right))
	}
	if len(queries) != len(s.Right) {
		t.Fatalf("%d questions, want %d as many as answers", len(queries), len(s.Right))
	}
	for i := range s.Right {
		want := &s.Right[i]
		for _, w := range []struct {
			name string
			want *right
			live bool
		}{{"", want, false}, {"live", want.Live, true}, {"final", want.Final, false}} {
			if w.want == nil || w.name == "" && want.Live != nil {
				continue
			}
			figures++
			for _, d := range diff(l.Report(s.query(queries[i], want, w.live)), w.want) {
				t.Errorf("question %d %s (%s) differs: %s", i+1, w.name, queries[i].Call, d)
			}
		}
	}
	return figures
}

func scenarioFiles(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) == ".json" {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func readScenario(t *testing.T, path string) *scenario {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := &scenario{}
	if err := json.Unmarshal(text, s); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return s
}

// goldenDirs returns the folders with scenarios: those in TRAINSPAN_GOODPUT, or the
// shared set if it exists.
func goldenDirs(t *testing.T) []string {
	t.Helper()
	if v := os.Getenv("TRAINSPAN_GOODPUT"); v != "" {
		return filepath.SplitList(v)
	}
	const shared = "../../../../shared/golden/goodput"
	if _, err := os.Stat(shared); err != nil {
		t.Skip("no recorded jobs: set TRAINSPAN_GOODPUT to a list of folders")
	}
	return []string{shared}
}

// TestGolden replays recorded jobs and compares every expected figure to the
// millisecond.
func TestGolden(t *testing.T) {
	files, figures := 0, 0
	for _, dir := range goldenDirs(t) {
		for _, path := range scenarioFiles(t, dir) {
			files++
			t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
				figures += readScenario(t, path).check(t)
			})
		}
	}
	if files == 0 {
		t.Fatal("no scenario found")
	}
	t.Logf("%d scenarios, %d answers", files, figures)
}

// TestDiffNotices checks that diff reports a figure that is off by a millisecond.
func TestDiffNotices(t *testing.T) {
	for name, change := range map[string]func(r *right){
		"wall":       func(r *right) { r.Wall++ },
		"category":   func(r *right) { r.Categories["init"]-- },
		"one more":   func(r *right) { r.Categories["custom.x"] = 1 },
		"one less":   func(r *right) { delete(r.Categories, "downtime") },
		"goodput":    func(r *right) { *r.Goodput += 1e-5 },
		"attempt":    func(r *right) { r.Attempts[1].Categories["init"]++ },
		"overlapped": func(r *right) { r.Overlapped = map[string]int64{"data_wait": 1} },
		"excluded":   func(r *right) { r.Excluded++ },
	} {
		s := readScenario(t, "testdata/scenarios/49_all_at_once.json")
		rep := s.ledger().Report(s.query(s.Queries[0], &s.Right[0], false))
		if d := diff(rep, &s.Right[0]); d != nil {
			t.Fatalf("report differs: %s", d)
		}
		if change(&s.Right[0]); diff(rep, &s.Right[0]) == nil {
			t.Errorf("%s: diff found no difference, want one", name)
		}
	}
	for name, change := range map[string]func(r *right){
		"all":      func(r *right) { *r.AllProductive++ },
		"any":      func(r *right) { *r.AnyProductive-- },
		"ranks":    func(r *right) { r.Ranks++ },
		"per rank": func(r *right) { r.PerRank[1].Categories["absent"]++ },
		"rank ms":  func(r *right) { r.RankMS["absent"]++ },
	} {
		s := readScenario(t, "testdata/scenarios/52_two_ranks_skew.json")
		rep := s.ledger().Report(s.query(query{}, &s.Right[0], false))
		if change(&s.Right[0]); diff(rep, &s.Right[0]) == nil {
			t.Errorf("%s: diff found no difference, want one", name)
		}
	}
}

// TestScenarios replays the recorded jobs that come with the package.
func TestScenarios(t *testing.T) {
	for _, path := range scenarioFiles(t, "testdata/scenarios") {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) { readScenario(t, path).check(t) })
	}
}
