package report

import (
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/trainspan/trainspan/analysis/goodput"
)

//go:embed page third_party/uPlot.iife.min.js third_party/uPlot.min.css
var assets embed.FS

// maxCheckpointRows bounds a table that a long run would fill the file with.
const maxCheckpointRows = 1000

// page is what the template shows.
type page struct {
	R           *Report
	Ledger      []ledgerRow
	Ranks       []rankRow
	RanksLeft   int
	Compared    bool
	Checkpoints []Checkpoint
	Chart       map[string]bool

	Data            template.JS
	Library, Script template.JS
	LibraryCSS, CSS template.CSS
}

type ledgerRow struct {
	Category goodput.Category
	Name     string
	Good     bool
	Share    float64
	Width    string
	Time     int64 // of each rank
}

type rankRow struct {
	*Rank
	Slow bool
}

// HTML writes a report as one page with pictures. It needs no network: the
// page forbids itself to load anything.
func HTML(w io.Writer, r *Report) error {
	p, err := newPage(r)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	ranks := int64(max(len(r.Ranks), 1))
	t := template.New("page.html.tmpl").Funcs(template.FuncMap{
		"duration": duration,
		"ms":       milliseconds,
		"bytes":    size,
		"rate":     rate,
		"percent":  func(x any) string { return percent(number(x)) },
		"signed":   func(x float64) string { return fmt.Sprintf("%+.1f %%", 100*x) },
		"figure":   func(x float64) string { return strconv.FormatFloat(x, 'g', 5, 64) },
		"moment":   func(ns int64) string { return time.Unix(0, ns).UTC().Format("2006-01-02 15:04:05 UTC") },
		"since":    func(ns int64) string { return duration(ns - r.Ledger.From) },
		"took":     func(from, to int64) string { return duration(to - from) },
		"each":     func(ns int64) string { return duration(ns / ranks) },
	})
	if t, err = t.ParseFS(assets, "page/page.html.tmpl"); err == nil {
		err = t.Execute(w, p)
	}
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

func number(x any) float64 {
	switch v := x.(type) {
	case float64:
		return v
	case *float64:
		return *v
	}
	return 0
}

func newPage(r *Report) (*page, error) {
	p := &page{R: r, Chart: make(map[string]bool), Checkpoints: r.Checkpoints[:min(len(r.Checkpoints), maxCheckpointRows)]}
	p.ledger()
	p.ranks()
	if s := r.Series; s != nil {
		p.Chart["timeline"], p.Chart["ledger"] = len(s.Attempts) > 0, len(s.Ledger) > 0
		p.Chart["steps"] = s.Steps != nil
		p.Chart["comm"] = s.Steps != nil && len(s.Steps.Wait) > 0
		p.Chart["heat"], p.Chart["lanes"] = s.Heat != nil, s.Lanes != nil
		p.Chart["saves"] = len(r.Checkpoints) > 1
	}
	data, err := json.Marshal(map[string]any{
		"series": r.Series, "categories": goodput.Categories(), "saves": p.saves(), "slow": slowRanks(r), "device": r.Steps.Device,
	})
	if err != nil {
		return nil, err
	}
	p.Data = template.JS(data) //nolint:gosec // json.Marshal escapes what could end the script
	for name, to := range map[string]*template.JS{"third_party/uPlot.iife.min.js": &p.Library, "page/page.js": &p.Script} {
		text, err := assets.ReadFile(name)
		if err != nil {
			return nil, err
		}
		*to = template.JS(text) //nolint:gosec // ours, and the library
	}
	for name, to := range map[string]*template.CSS{"third_party/uPlot.min.css": &p.LibraryCSS, "page/page.css": &p.CSS} {
		text, err := assets.ReadFile(name)
		if err != nil {
			return nil, err
		}
		*to = template.CSS(text) //nolint:gosec // ours, and the library
	}
	return p, nil
}

func (p *page) ledger() {
	r := p.R
	ranks := int64(max(len(r.Ranks), 1))
	add := func(c goodput.Category, name string, share float64, ns int64) {
		p.Ledger = append(p.Ledger, ledgerRow{c, name, c == goodput.Productive, share, strconv.FormatFloat(100*share, 'f', 2, 64), ns / ranks})
	}
	if r.Goodput != nil {
		add(goodput.Productive, "trained the model", *r.Goodput, r.Ledger.Categories[goodput.Productive])
	}
	for _, l := range r.Losses {
		add(l.Category, words(l.Category), l.Share, l.Time)
	}
}

func slowRanks(r *Report) []int {
	if v := r.Verdict.Rank; v != nil && len(v.Ranks) > 0 {
		return v.Ranks
	}
	return []int{}
}

func (p *page) ranks() {
	slow := slowRanks(p.R)
	for i := range p.R.Ranks {
		k := &p.R.Ranks[i]
		p.Compared = p.Compared || k.Compared
		p.Ranks = append(p.Ranks, rankRow{k, slices.Contains(slow, k.Rank)})
	}
	slices.SortStableFunc(p.Ranks, func(a, b rankRow) int { return cmp.Compare(b.Excess, a.Excess) })
	if n := len(p.Ranks); n > maxRankRow {
		p.Ranks, p.RanksLeft = p.Ranks[:maxRankRow], n-maxRankRow
	}
}

// saves is the picture of checkpoints: milliseconds, at most as many as points.
func (p *page) saves() map[string]any {
	list := p.Checkpoints[:min(len(p.Checkpoints), maxPoints)]
	step, attempt, load := make([]int64, len(list)), make([]int, len(list)), make([]bool, len(list))
	blocking, background := make(Numbers, len(list)), make(Numbers, len(list))
	for i, c := range list {
		step[i], attempt[i], load[i] = c.Step, c.Attempt, c.Load
		blocking[i], background[i] = float64(c.Blocking)/1e6, float64(c.Background)/1e6
	}
	return map[string]any{"step": step, "attempt": attempt, "load": load, "blocking": blocking, "background": background}
}
