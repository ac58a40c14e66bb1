package report

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/profile"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
)

//go:embed page third_party/uPlot.iife.min.js third_party/uPlot.min.css
var assets embed.FS

// maxCheckpointRows limits the table of checkpoints, which would be too large for long runs.
const maxCheckpointRows = 1000

// page is the data of the template.
type page struct {
	R           *Report
	Head        string // outcome and diagnosis
	End         linked // details of how the job ended, if there are any
	Source      string // the line of the program that raised the exception, and its place
	Why         linked
	Machine     []string // what samples of the machine show
	Shown       []fact   // what a step consists of, below the proof
	Facts       []fact   // about the run, below its account
	Stacks      []string // where hanging ranks are
	Moment      *moment  // where the traces show the finding
	Traces      []traceLink
	Next, Said  []linked
	Title       string
	Bar         []barPart
	Ledger      []ledgerRow
	Attempts    []Attempt            // the last ones
	Earlier     *Attempt             // the earlier ones, merged
	Disruptions []account.Disruption // the last ones
	Ranks       []rankRow
	RanksLeft   int
	Compared    bool
	Profiled    []*ProfileRank // the first ones
	Checkpoints []Checkpoint
	Resources   []Resource // the first ones
	Waits       *waitTable
	Chart       map[string]bool

	Data            template.JS
	Library, Script template.JS
	LibraryCSS, CSS template.CSS
}

// barPart is a part of the stacked bar.
type barPart struct {
	Name     string
	Category account.Category // determines its colour
	Percent  string
	Grow     string
}

// bar fills the stacked bar with the shares of the first screen.
func (p *page) bar() {
	for _, c := range condense(p.R.Shares, utf8.RuneCountInString(shades)) {
		colour := colourOf(c.Part)
		if p.R.Profile != nil {
			colour = profileColour(c.Part)
		}
		if c.Part == "" {
			colour = mergedParts
		}
		percent := strconv.Itoa(c.Percent)
		if c.Percent == 0 {
			percent = "< 1"
		}
		p.Bar = append(p.Bar, barPart{c.Name, colour, percent, strconv.FormatFloat(100*c.Share.Share, 'f', 2, 64)})
	}
}

// mergedParts is the colour of the part that holds several small ones.
const mergedParts account.Category = "several"

type ledgerRow struct {
	Category account.Category
	Name     string
	Good     bool
	Share    float64
	Width    string
	Time     int64 // per rank, in ns
}

type rankRow struct {
	*Rank
	Slow bool
}

// HTML writes a report as one page with charts. The page needs no network: its content security
// policy forbids loading anything. Links to traces are relative to folder, the folder of the page. If
// folder is empty, the page has no such links.
func HTML(w io.Writer, r *Report, folder string) error {
	p, err := newPage(r)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	p.Traces = p.Moment.links(folder)
	ranks := int64(max(len(r.Ranks), 1))
	t := template.New("page.html.tmpl").Funcs(template.FuncMap{
		"duration": display.Duration,
		"count":    display.Count[int],
		"plural":   func(n any, word string) string { return display.Plural(reflect.ValueOf(n).Int(), word) },
		"ms":       display.Milliseconds,
		"milli":    func(ns int64) string { return display.Milliseconds(float64(ns) / 1e6) },
		"bytes":    size,
		"rate":     rate,
		"percent":  func(x any) string { return display.Percent(number(x)) },
		"known":    percentOrUnknown,
		"trend":    trend,
		"figure":   func(x float64) string { return strconv.FormatFloat(x, 'g', 5, 64) },
		"moment":   func(ns int64) string { return time.Unix(0, ns).UTC().Format("2006-01-02 15:04:05 UTC") },
		"since":    func(ns int64) string { return display.Duration(ns - r.Ledger.From) },
		"took":     func(from, to int64) string { return display.Duration(to - from) },
		"lasted":   func(a Attempt) string { return a.lasted() },
		"between": func(least, most int) string {
			if most <= least {
				return strconv.Itoa(least)
			}
			return fmt.Sprintf("%d to %d", least, most)
		},
		"range_each": func(least, most int64) string { return durationRange(least/ranks, most/ranks) },
		"each":       func(ns int64) string { return display.Duration(ns / ranks) },
		"step":       func(k *ProfileRank) string { return display.Duration(k.Time / int64(max(k.Steps, 1))) },
		"part":       (*ProfileRank).part,
		"left":       func(at int64) string { return ofAll(at-r.Ledger.From, r) },
		"width":      func(from, to int64) string { return ofAll(to-from, r) },
	})
	if t, err = t.ParseFS(assets, "page/page.html.tmpl"); err == nil {
		err = t.Execute(display.NewWriter(w), p)
	}
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// ofAll formats a time as a percentage of the time of the job.
func ofAll(ns int64, r *Report) string {
	share := 100 * float64(ns) / float64(max(r.Ledger.Wall, 1))
	return strconv.FormatFloat(min(max(share, 0), 100), 'f', 2, 64)
}

// hidden matches escapes in JSON. All except \", \\ and \/ stand for invisible
// characters.
var hidden = regexp.MustCompile(`\\(?:["\\/]|u00[01][0-9a-f]|u202[89]|[bfnrt])`)

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
	p := &page{R: r, Moment: r.moment, Chart: make(map[string]bool), Checkpoints: r.Checkpoints[:min(len(r.Checkpoints), maxCheckpointRows)],
		Resources: r.Resources[:min(len(r.Resources), maxEvidence)]}
	p.Title = r.title()
	p.bar()
	p.ledger()
	p.attempts()
	p.ranks()
	p.Waits = waits(r.Verdict.Rank)
	if s := r.Series; s != nil {
		p.Chart["timeline"], p.Chart["ledger"] = len(s.Attempts) > 0 && r.Profile == nil, len(s.Ledger) > 0 && r.Profile == nil
		p.Chart["steps"] = s.Steps != nil
		p.Chart["comm"] = s.Steps != nil && len(s.Steps.Wait) > 0
		p.Chart["heat"], p.Chart["lanes"] = s.Heat != nil, s.Lanes != nil
		p.Chart["saves"] = len(r.Checkpoints) > 1
	}
	_, end, source := r.ending()
	p.End, p.Source = p.link(said{end, placeStarts}), source
	p.Head = r.describeOutcome()
	if label, why := r.diagnosis(); label != "" {
		if label != labelBefore {
			p.Head += " · " + label
		}
		p.Why = p.link(said{why, r.placeOfWhy()})
	}
	p.Machine = r.machineSentences()
	p.Shown = withText(r.stepFacts())
	p.Facts = withText(slices.Concat(r.missingFacts(), r.runFacts(), r.resourceFacts(" below")))
	if v := r.Verdict.Rank; v != nil {
		for i := range v.Stacks {
			p.Stacks = append(p.Stacks, sentence(r.stackSentence(&v.Stacks[i])))
		}
		for _, text := range v.Witness {
			p.Stacks = append(p.Stacks, sentence(text))
		}
	}
	for i, text := range r.Verdict.Next {
		p.Next = append(p.Next, p.link(said{sentence(text), r.nextAt[i]}))
	}
	for _, s := range r.said {
		p.Said = append(p.Said, p.link(s))
	}
	data, err := json.Marshal(map[string]any{
		"series": r.Series, "categories": account.Categories(), "saves": p.saves(), "slow": r.slowRanks(), "device": r.Steps.Device, "words": r.chartWords(),
	})
	if err != nil {
		return nil, err
	}
	data = hidden.ReplaceAllFunc(data, func(escape []byte) []byte {
		switch escape[1] {
		case '"', '\\', '/':
			return escape
		}
		return []byte(display.Dot)
	})
	p.Data = template.JS(data) //nolint:gosec // json.Marshal escapes everything that could end the script
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

// withText returns the facts that have a text.
func withText(list []fact) []fact {
	return slices.DeleteFunc(list, func(f fact) bool { return f.Text == "" })
}

// chartWords returns the words that charts show for the categories and phases of the data.
func (r *Report) chartWords() map[string]string {
	words := make(map[string]string)
	for _, c := range account.Categories() {
		words[string(c)] = PartName(string(c))
	}
	if r.Series != nil {
		for c := range r.Series.Ledger {
			words[string(c)] = PartName(string(c))
		}
	}
	for _, p := range straggler.Phases() {
		words[p.String()] = r.phaseWord(p)
	}
	words[partWait], words[collectiveTransfer] = "waits", "collectives" // as in the line about a step
	return words
}

// partCategories holds the categories whose colours the parts of a profile have.
var partCategories = [profile.Parts]account.Category{
	profile.Compute: account.Productive, profile.Communication: account.Stall, profile.Copies: account.CheckpointSave, profile.Input: account.DataWait, profile.Idle: account.Other,
}

// profileColour returns the category whose colour a part of a profile has.
func profileColour(part string) account.Category {
	for p, c := range partCategories {
		if profile.Part(p).String() == part {
			return c
		}
	}
	return account.Category(part)
}

func (p *page) ledger() {
	r := p.R
	ranks := int64(max(len(r.Ranks), 1))
	add := func(c account.Category, name string, share float64, ns int64) {
		p.Ledger = append(p.Ledger, ledgerRow{c, name, c == account.Productive, share, strconv.FormatFloat(100*share, 'f', 2, 64), ns / ranks})
	}
	if p := r.Profile; p != nil && p.Steps > 0 {
		for _, s := range r.Shares {
			add(profileColour(s.Part), s.Name, s.Share, int64(float64(s.Time)/float64(p.Steps)*float64(ranks)))
		}
		return
	}
	for _, s := range r.Shares {
		add(colourOf(s.Part), s.Name, s.Share, s.Time)
	}
	if r.Shares == nil {
		for _, l := range r.Losses {
			add(l.Category, PartName(string(l.Category)), l.Share, l.Time)
		}
	}
}

// colourOf returns the category whose colour a part has.
func colourOf(part string) account.Category {
	switch part {
	case string(account.Compute), string(account.StepUnsplit):
		return account.Productive
	case string(account.Communication):
		return account.Stall
	case string(account.OtherCode):
		return account.Other
	case partStart:
		return account.Init
	}
	return account.Category(part)
}

func (r *Report) slowRanks() []int {
	if v := r.Verdict.Rank; v != nil && len(v.Ranks) > 0 {
		return v.Ranks
	}
	return []int{}
}

// attempts selects the attempts and disruptions that the tables show.
func (p *page) attempts() {
	p.Attempts, p.Disruptions = p.R.Attempts, p.R.Ledger.Disruptions
	p.Disruptions = p.Disruptions[max(len(p.Disruptions)-maxAttempts, 0):]
	left := len(p.Attempts) - maxAttempts
	if left <= 0 {
		return
	}
	joined := p.Attempts[0]
	for _, a := range p.Attempts[:left] {
		joined.Start, joined.Stop = min(joined.Start, a.Start), max(joined.Stop, a.Stop)
		joined.Number = a.Number
	}
	p.Earlier, p.Attempts = &joined, p.Attempts[left:]
}

// part returns the share of a part in the steps of a rank, in percent.
func (k *ProfileRank) part(part string) string {
	return display.Percent(float64(k.Parts[part]) / float64(max(k.Time, 1)))
}

func (p *page) ranks() {
	if r := p.R.Profile; r != nil {
		for i := range r.Ranks[:min(len(r.Ranks), maxRankRow)] {
			p.Profiled = append(p.Profiled, &r.Ranks[i])
		}
	}
	slow := p.R.slowRanks()
	for i := range p.R.Ranks {
		k := &p.R.Ranks[i]
		p.Compared = p.Compared || k.Compared
		p.Ranks = append(p.Ranks, rankRow{k, slices.Contains(slow, k.Rank)})
	}
	slices.SortStableFunc(p.Ranks, func(a, b rankRow) int {
		if a.Slow != b.Slow && a.Slow {
			return -1
		} else if a.Slow != b.Slow {
			return 1
		}
		return cmp.Compare(b.Excess, a.Excess)
	})
	if n := len(p.Ranks); n > maxRankRow {
		p.Ranks, p.RanksLeft = p.Ranks[:maxRankRow], n-maxRankRow
	}
}

// saves returns the data of the chart of checkpoints that did not fail, in milliseconds,
// for at most maxPoints.
func (p *page) saves() map[string]any {
	list := slices.DeleteFunc(slices.Clone(p.Checkpoints), func(c Checkpoint) bool { return c.Failed })
	list = list[:min(len(list), maxPoints)]
	step, attempt, load := make([]int64, len(list)), make([]int, len(list)), make([]bool, len(list))
	blocking, background := make(Numbers, len(list)), make(Numbers, len(list))
	for i, c := range list {
		step[i], attempt[i], load[i] = c.Step, c.Attempt, c.Load
		blocking[i], background[i] = float64(c.Blocking)/1e6, float64(c.Background)/1e6
	}
	return map[string]any{"step": step, "attempt": attempt, "load": load, "blocking": blocking, "background": background}
}

// pageMark identifies the pages that HTML writes: it is in their first 512 bytes.
var pageMark = []byte(`<meta name="generator" content="trainspan">`)

// WritePage writes a report as a page to path, atomically. It replaces an earlier page
// of this package or an empty file. For any other existing file it returns an error
// that matches fs.ErrExist.
func WritePage(path string, r *Report) error {
	d, err := fswrite.Begin(path, 0o644)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	folder, err := filepath.Abs(filepath.Dir(path))
	if err == nil {
		err = HTML(d, r, folder)
	}
	if err != nil {
		d.Discard()
		return err
	}
	if err := d.Publish(IsPage); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// IsPage returns nil if f is a page that [HTML] wrote or an empty file. For any other
// contents it returns an error that matches fs.ErrExist.
func IsPage(f *os.File) error {
	head := make([]byte, 512)
	n, err := io.ReadFull(f, head)
	if n > 0 && !bytes.Contains(head[:n], pageMark) {
		return &fs.PathError{Op: "replace", Path: f.Name(), Err: errNoPage}
	}
	if n == 0 && err != io.EOF {
		return err
	}
	return nil
}

var errNoPage = fmt.Errorf("the file is not a report of trainspan: %w", fs.ErrExist)
