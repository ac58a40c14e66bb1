package main

import (
	"context"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/human"
	runs "github.com/trainspan/trainspan/internal/run"
)

// filter is what a command is asked about. The zero filter is everything.
type filter struct {
	rank, category, name, epoch, step []string
	from, to                          string
	until                             string // the name of the flag of to

	ranks          map[string]bool
	categories     []*regexp.Regexp
	names          []*regexp.Regexp
	epochs, steps  []numbers
	window         window
	who            *runs.Tracker
	relFrom, relTo time.Duration
	hasFrom, hasTo bool // relative to the start
	narrow         bool
}

// numbers is a range of whole numbers, both ends included.
type numbers struct{ from, to int64 }

func (q *filter) flags(f *pflag.FlagSet) {
	f.StringSliceVar(&q.category, "category", nil, `only these categories; "*" stands for anything`)
	f.StringSliceVar(&q.name, "name", nil, `only spans of these names; "*" stands for anything`)
	q.numberFlags(f)
}

// numberFlags are those that need not know how spans are called.
func (q *filter) numberFlags(f *pflag.FlagSet) {
	q.until = "to"
	if f.Lookup(q.until) != nil { // where that is the format to convert to
		q.until = "until"
	}
	f.StringSliceVar(&q.rank, "rank", nil, "only these ranks: 0,3 or 0-7")
	f.StringSliceVar(&q.epoch, "epoch", nil, "only spans of these epochs: 0,3 or 2-5")
	f.StringSliceVar(&q.step, "step", nil, "only spans of these steps: 0,3 or 100-200")
	f.StringVar(&q.from, "from", "", "leave out spans that start before this time: a time (UTC), or +10m after the start")
	f.StringVar(&q.to, q.until, "", "leave out spans that start at this time or later: a time (UTC), or +10m after the start")
}

// prepare checks the flags and looks at the files as far as they need it.
func (q *filter) prepare(ctx context.Context, files []string) (err error) {
	ranks, err := parseNumbers("--rank", q.rank)
	if err != nil {
		return err
	}
	if q.epochs, err = parseNumbers("--epoch", q.epoch); err != nil {
		return err
	}
	if q.steps, err = parseNumbers("--step", q.step); err != nil {
		return err
	}
	q.categories, q.names = patterns(q.category), patterns(q.name)
	if err := q.times(); err != nil {
		return err
	}
	q.narrow = len(ranks)+len(q.epochs)+len(q.steps)+len(q.categories)+len(q.names) > 0
	q.who = runs.NewTracker(files...)
	if len(ranks) == 0 && !q.hasFrom && !q.hasTo {
		return nil
	}
	var start int64
	for _, path := range q.who.ByStart(files) {
		if first := q.look(ctx, path, len(ranks) > 0); first > 0 && (start == 0 || first < start) {
			start = first
		}
	}
	if len(ranks) > 0 {
		q.ranks = make(map[string]bool)
		for _, p := range q.who.Processes() {
			if p.RankKnown && within(ranks, int64(p.Rank)) {
				q.ranks[rankText(p)] = true
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(q.ranks) == 0 {
			return ui.Usage("--rank %s: no process of that rank is in %s", strings.Join(q.rank, ","), human.Plural(len(files), "file"))
		}
	}
	if q.hasFrom {
		q.window.from = start + q.relFrom.Microseconds()
	}
	if q.hasTo {
		q.window.to = start + q.relTo.Microseconds()
	}
	return q.window.check(q)
}

// times reads --from and --to.
func (q *filter) times() error {
	if q.from == "" && q.to == "" {
		return nil
	}
	q.window.to = math.MaxInt64
	for _, flag := range [...]struct {
		name, text string
		value      *int64
		after      *time.Duration
		relative   *bool
	}{{"--from", q.from, &q.window.from, &q.relFrom, &q.hasFrom}, {"--" + q.until, q.to, &q.window.to, &q.relTo, &q.hasTo}} {
		if flag.text == "" {
			continue
		}
		if text, ok := strings.CutPrefix(flag.text, "+"); ok {
			d, err := time.ParseDuration(text)
			if err != nil || d < 0 {
				return ui.Usage("%s %s: give a time after the start such as +90s or +1h30m", flag.name, flag.text)
			}
			*flag.after, *flag.relative = d, true
			continue
		}
		t, ok := parseMoment(flag.text)
		if !ok {
			return ui.Usage("%s %s: give a time such as 2026-11-21T01:04:47Z, 2026-11-21 01:04:47.5 or +10m", flag.name, flag.text)
		}
		*flag.value = t.UnixMicro()
	}
	if q.hasFrom && q.hasTo && q.relFrom >= q.relTo || !q.hasFrom && !q.hasTo && q.window.from >= q.window.to {
		return ui.Usage("--from %s is not before --%s %s; swap them", q.from, q.until, q.to)
	}
	return nil
}

// all reports whether nothing is left out.
func (q *filter) all() bool { return !q.narrow && q.window.all() }

// has reports whether an event of a file counts. Metadata always do.
func (q *filter) has(path string, ev *dftracer.Event) bool {
	if ev.Phase == dftracer.PhaseMetadata {
		return true
	}
	if !q.window.has(ev) {
		return false
	}
	if !q.narrow {
		return true
	}
	if ev.Cat == dftracer.CatDFTracer {
		return true // the framing
	}
	return (len(q.categories) == 0 || matches(q.categories, ev.Cat)) && (len(q.names) == 0 || matches(q.names, ev.Name)) &&
		q.hasNumber(q.epochs, "epoch", ev) && q.hasNumber(q.steps, "step", ev) && q.hasRank(path, ev)
}

func (q *filter) hasNumber(list []numbers, key string, ev *dftracer.Event) bool {
	if len(list) == 0 {
		return true
	}
	n := numberOf(ev, key)
	return n != nil && within(list, *n)
}

func (q *filter) hasRank(path string, ev *dftracer.Event) bool {
	if q.ranks == nil {
		return true
	}
	return q.ranks[rankText(q.who.File(path).Of(ev))]
}

// look reads a file for what filters must know beforehand, and returns when its first
// span began, 0 without one. What is wrong with it is told when it is read for good.
func (q *filter) look(ctx context.Context, path string, ranks bool) (start int64) {
	if stat, err := os.Stat(path); err == nil && !ranks {
		if info := readIndex(path, stat); info != nil {
			return info.Start
		}
	}
	who := q.who.File(path)
	for judge := judgeBy(0, false); ; judge = judgeBy(judge.Median(), true) {
		start = 0
		var mu sync.Mutex
		note := func(ev *dftracer.Event) error {
			mu.Lock()
			defer mu.Unlock()
			who.Of(ev)
			if ev.Phase != dftracer.PhaseMetadata && ev.Cat != dftracer.CatDFTracer && canBe(judge, ev) && (start == 0 || ev.TS < start) {
				start = ev.TS
			}
			return nil
		}
		if isRecords(path) {
			_, _ = readRecords(ctx, path, note)
		} else {
			_, _ = dftracer.Scan(path, &dftracer.ReaderOptions{Concurrent: true, NoHashes: true, Stop: ctx.Err}, note)
		}
		if judge.Right() {
			return start
		}
	}
}

// parseNumbers reads lists such as 3 and 5-7.
func parseNumbers(flag string, list []string) (out []numbers, err error) {
	for _, text := range list {
		low, high, isRange := strings.Cut(text, "-")
		if !isRange {
			high = low
		}
		from, err1 := strconv.ParseInt(strings.TrimSpace(low), 10, 64)
		to, err2 := strconv.ParseInt(strings.TrimSpace(high), 10, 64)
		if err1 != nil || err2 != nil || from > to {
			return nil, ui.Usage("%s %s: give numbers and ranges such as 0,4-7", flag, text)
		}
		out = append(out, numbers{from, to})
	}
	return out, nil
}

func within(list []numbers, n int64) bool {
	return slices.ContainsFunc(list, func(r numbers) bool { return n >= r.from && n <= r.to })
}

// patterns reads words in which "*" stands for anything; case does not matter.
func patterns(words []string) (out []*regexp.Regexp) {
	for _, w := range words {
		out = append(out, regexp.MustCompile(`(?is)^`+strings.ReplaceAll(regexp.QuoteMeta(w), `\*`, `.*`)+`$`))
	}
	return out
}

func matches(list []*regexp.Regexp, s string) bool {
	return slices.ContainsFunc(list, func(re *regexp.Regexp) bool { return re.MatchString(s) })
}
