package read

import (
	"context"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/filetime"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// Filter selects the events of a command. The zero filter selects all.
type Filter struct {
	rank, category, name, epoch, step []string
	From, To                          string
	until                             string // the name of the flag for to

	Ranks          map[string]bool
	categories     []*regexp.Regexp
	names          []*regexp.Regexp
	Epochs, Steps  []numbers
	Window         Window
	Who            *job.Tracker
	relFrom, relTo time.Duration
	hasFrom, hasTo bool // relative to the start
	narrow         bool
}

// numbers is a range of integers, including both ends.
type numbers struct{ From, To int64 }

// Flags adds the flags of a filter to a command.
func (q *Filter) Flags(f *pflag.FlagSet) {
	f.StringSliceVar(&q.category, "category", nil, `only these categories; "*" matches anything`)
	f.StringSliceVar(&q.name, "name", nil, `only spans with these names; "*" matches anything`)
	q.NumberFlags(f)
}

// NumberFlags adds the flags that do not depend on the names of spans.
func (q *Filter) NumberFlags(f *pflag.FlagSet) {
	q.until = "to"
	if f.Lookup(q.until) != nil { // the flag may exist as the format to convert to
		q.until = "until"
	}
	f.StringSliceVar(&q.rank, "rank", nil, "only these ranks: 0,3 or 0-7")
	f.StringSliceVar(&q.epoch, "epoch", nil, "only spans of these epochs: 0,3 or 2-5")
	f.StringSliceVar(&q.step, "step", nil, "only spans of these steps: 0,3 or 100-200")
	f.StringVar(&q.From, "from", "", "only spans that start at this time or later: a time (UTC), or +10m after the start")
	f.StringVar(&q.To, q.until, "", "only spans that start before this time: a time (UTC), or +10m after the start")
}

// Given reports whether a flag of the filter was used.
func (q *Filter) Given() bool {
	return len(q.rank)+len(q.category)+len(q.name)+len(q.epoch)+len(q.step) > 0 || q.From != "" || q.To != ""
}

// Prepare validates the flags, and reads the files to the extent that the flags
// require.
func (q *Filter) Prepare(ctx context.Context, files []string) (err error) {
	ranks, err := parseNumbers("--rank", q.rank)
	if err != nil {
		return err
	}
	if q.Epochs, err = parseNumbers("--epoch", q.epoch); err != nil {
		return err
	}
	if q.Steps, err = parseNumbers("--step", q.step); err != nil {
		return err
	}
	q.categories, q.names = patterns(q.category), patterns(q.name)
	if err := q.times(); err != nil {
		return err
	}
	q.narrow = len(ranks)+len(q.Epochs)+len(q.Steps)+len(q.categories)+len(q.names) > 0
	q.Who = job.NewTracker(files...)
	if len(ranks) == 0 && !q.hasFrom && !q.hasTo {
		return nil
	}
	var start int64
	for _, path := range q.Who.ByStart(files) {
		if first := q.look(ctx, path); first > 0 && (start == 0 || first < start) {
			start = first
		}
	}
	if len(ranks) > 0 {
		q.Ranks = make(map[string]bool)
		for _, p := range q.Who.Processes() {
			if p.RankKnown && Within(ranks, int64(p.Rank)) {
				q.Ranks[RankText(p)] = true
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(q.Ranks) == 0 {
			return ui.Usage("--rank %s: %s has no process with that rank", strings.Join(q.rank, ","), display.Plural(len(files), "file"))
		}
	}
	if q.hasFrom {
		q.Window.From = start + q.relFrom.Microseconds()
	}
	if q.hasTo {
		q.Window.To = start + q.relTo.Microseconds()
	}
	return q.check()
}

// times parses --from and --to.
func (q *Filter) times() error {
	if q.From == "" && q.To == "" {
		return nil
	}
	q.Window.To = math.MaxInt64
	for _, flag := range [...]struct {
		name, text string
		value      *int64
		after      *time.Duration
		relative   *bool
	}{{"--from", q.From, &q.Window.From, &q.relFrom, &q.hasFrom}, {"--" + q.until, q.To, &q.Window.To, &q.relTo, &q.hasTo}} {
		if flag.text == "" {
			continue
		}
		if text, ok := strings.CutPrefix(flag.text, "+"); ok {
			d, err := time.ParseDuration(text)
			if err != nil || d < 0 {
				return ui.Usage("%s %s: use a time after the start such as +90s or +1h30m", flag.name, flag.text)
			}
			*flag.after, *flag.relative = d, true
			continue
		}
		t, ok := parseMoment(flag.text)
		if !ok {
			return ui.Usage("%s %s: use a time such as 2026-11-21T01:04:47Z, 2026-11-21 01:04:47.5 or +10m", flag.name, flag.text)
		}
		*flag.value = t.UnixMicro()
	}
	if q.hasFrom && q.hasTo && q.relFrom >= q.relTo || !q.hasFrom && !q.hasTo && q.Window.From >= q.Window.To {
		return ui.Usage("--from %s is not before --%s %s; swap them", q.From, q.until, q.To)
	}
	return nil
}

// Widen adds n times the length of the window before and after it, and returns
// the window as it was. If the window has no begin or no end, Widen does nothing
// and returns the zero window.
func (q *Filter) Widen(n int64) Window {
	w := q.Window
	if q.From == "" || q.To == "" {
		return Window{}
	}
	q.Window = Window{w.From - n*(w.To-w.From), w.To + n*(w.To-w.From)}
	return w
}

// All reports whether the filter selects all events.
func (q *Filter) All() bool { return !q.narrow && q.Window.all() }

// Has reports whether the filter selects an event of a file. It judges the record
// that a span has begun as the span, other metadata by its rank alone, and selects
// all names of hashes.
func (q *Filter) Has(path string, ev *dftracer.Event) bool {
	if ev.Phase == dftracer.PhaseMetadata {
		begun, ok := tracefile.BeginOf(ev)
		if !ok {
			return tracefile.IsHashRecord(ev) || q.hasRank(path, ev)
		}
		ev = &begun
	}
	if !q.Window.has(ev) {
		return false
	}
	if !q.narrow {
		return true
	}
	if ev.Cat == dftracer.CatDFTracer {
		return true // framing
	}
	return (len(q.categories) == 0 || matches(q.categories, ev.Cat)) && (len(q.names) == 0 || matches(q.names, ev.Name)) &&
		q.hasNumber(q.Epochs, "epoch", ev) && q.hasNumber(q.Steps, "step", ev) && q.hasRank(path, ev)
}

func (q *Filter) hasNumber(list []numbers, key string, ev *dftracer.Event) bool {
	if len(list) == 0 {
		return true
	}
	n := NumberOf(ev, key)
	return n != nil && Within(list, *n)
}

func (q *Filter) hasRank(path string, ev *dftracer.Event) bool {
	if q.Ranks == nil {
		return true
	}
	return q.Ranks[RankText(q.Who.File(path).Of(ev))]
}

// look reads the data of a file that filters need in advance, and returns the
// start of its first span, or 0.
func (q *Filter) look(ctx context.Context, path string) (start int64) {
	who := q.Who.File(path)
	_ = Judging(func(judge *filetime.Judge) error { // errors are reported when the file is read again
		start = 0
		var mu sync.Mutex
		note := func(ev *dftracer.Event) error {
			mu.Lock()
			defer mu.Unlock()
			who.Of(ev)
			if ev.Phase != dftracer.PhaseMetadata && ev.Cat != dftracer.CatDFTracer && CanBe(judge, ev) && (start == 0 || ev.TS < start) {
				start = ev.TS
			}
			return nil
		}
		var err error
		if IsRecords(path) {
			_, err = ReadRecords(ctx, path, note)
		} else {
			_, err = dftracer.Scan(path, &dftracer.ReaderOptions{Concurrent: true, Stop: ctx.Err}, note)
		}
		return err
	})
	return start
}

// parseNumbers parses lists such as 3 and 5-7.
func parseNumbers(flag string, list []string) (out []numbers, err error) {
	for _, text := range list {
		low, high, isRange := strings.Cut(text, "-")
		if !isRange {
			high = low
		}
		from, err1 := strconv.ParseInt(strings.TrimSpace(low), 10, 64)
		to, err2 := strconv.ParseInt(strings.TrimSpace(high), 10, 64)
		if err1 != nil || err2 != nil || from > to {
			return nil, ui.Usage("%s %s: use numbers and ranges such as 0,4-7", flag, text)
		}
		out = append(out, numbers{from, to})
	}
	return out, nil
}

// Within reports whether a list of ranges contains n.
func Within(list []numbers, n int64) bool {
	return slices.ContainsFunc(list, func(r numbers) bool { return n >= r.From && n <= r.To })
}

// patterns converts words in which "*" matches anything; case does not matter.
func patterns(words []string) (out []*regexp.Regexp) {
	for _, w := range words {
		out = append(out, regexp.MustCompile(`(?is)^`+strings.ReplaceAll(regexp.QuoteMeta(w), `\*`, `.*`)+`$`))
	}
	return out
}

func matches(list []*regexp.Regexp, s string) bool {
	return slices.ContainsFunc(list, func(re *regexp.Regexp) bool { return re.MatchString(s) })
}

// NumberOf returns the integer in an argument of an event, or nil.
func NumberOf(ev *dftracer.Event, key string) *int64 {
	arg, _ := ev.Arg(key)
	if n, ok := tracefile.Whole(arg); ok && arg.Key == key {
		return &n
	}
	return nil
}

func (q *Filter) check() error {
	if w := q.Window; !w.all() && w.From >= w.To {
		return ui.Usage("--from %s is not before --%s %s; swap them", q.From, q.until, q.To)
	}
	return nil
}
