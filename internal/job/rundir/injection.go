package rundir

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trainspan/trainspan/internal/platform/identity"
)

// Injection is a delay that trainspan run was asked to add to a phase of a job,
// to test a diagnosis against a known cause. The Python client reads it as
// JSON.
type Injection struct {
	Rank   *int   `json:"rank,omitempty"` // nil means every rank
	Phase  string `json:"phase"`
	Delay  int64  `json:"delay_ns"`
	Jitter int64  `json:"jitter_ns,omitempty"` // each delay varies by at most this
	From   int64  `json:"from,omitempty"`      // the first step
	To     *int64 `json:"to,omitempty"`        // the last step, nil for no end
	Every  int64  `json:"every"`               // 1 means every time, 2 every other time
	Text   string `json:"text"`                // the injection in words
}

// injectedPhases are the phases that accept a delay, with the phase of PyTorch
// whose hook makes it.
var injectedPhases = [...]struct{ name, hook string }{
	{"data", "data"}, {"forward", "forward"}, {"backward", "backward"}, {"save", "checkpoint"}, {"evaluate", "forward"}, {"code", "iteration"},
}

// maxDelay bounds a delay: a longer one is a wrong unit.
const maxDelay = time.Hour

// Hook returns the phase that must be recorded for the delay.
func (i *Injection) Hook() string {
	for _, p := range injectedPhases {
		if p.name == i.Phase {
			return p.hook
		}
	}
	return ""
}

// ParseInjection parses a text such as "rank=2,data=50ms,from=100": one
// injection for each phase that it names.
func ParseInjection(text string) ([]Injection, error) {
	var all []Injection
	var names []string
	for _, p := range injectedPhases {
		names = append(names, p.name)
	}
	common := Injection{Every: 1}
	seen := make(map[string]bool)
	for item := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(item), "=")
		key = strings.TrimSpace(key)
		value = strings.TrimSpace(value)
		if !ok || key == "" {
			return nil, fmt.Errorf("%q is not KEY=VALUE; an example is rank=2,data=50ms,from=100", item)
		}
		if seen[key] {
			return nil, fmt.Errorf("%s is given twice; repeat --inject for another delay", key)
		}
		seen[key] = true
		var err error
		switch key {
		case "rank":
			var n int64
			if n, err = wholeFrom(key, value, 0); err == nil && n >= identity.MaxRanks {
				err = fmt.Errorf("rank=%s: the largest rank is %d", value, identity.MaxRanks-1)
			}
			rank := int(n)
			common.Rank = &rank
		case "from":
			common.From, err = wholeFrom(key, value, 0)
		case "to":
			var n int64
			n, err = wholeFrom(key, value, 0)
			common.To = &n
		case "every":
			common.Every, err = wholeFrom(key, value, 1)
		case "jitter":
			common.Jitter, err = timeOf(key, value)
		default:
			if !slices.Contains(names, key) {
				return nil, fmt.Errorf("unknown key %q; use a phase (%s), rank, from, to, every or jitter", key, strings.Join(names, ", "))
			}
			delay := Injection{Phase: key}
			delay.Delay, err = timeOf(key, value)
			all = append(all, delay)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%q has no phase to delay; add one of %s, such as data=50ms", text, strings.Join(names, ", "))
	}
	if common.To != nil && *common.To < common.From {
		return nil, fmt.Errorf("from=%d,to=%d selects no step; to is the last delayed step", common.From, *common.To)
	}
	for k := range all {
		one := common
		one.Phase, one.Delay = all[k].Phase, all[k].Delay
		if one.Jitter > one.Delay {
			return nil, fmt.Errorf("jitter=%s is longer than the delay, %s=%s", time.Duration(one.Jitter), one.Phase, time.Duration(one.Delay))
		}
		one.Text = one.words()
		all[k] = one
	}
	return all, nil
}

func wholeFrom(key, value string, least int64) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < least {
		return 0, fmt.Errorf("%s=%s: give a whole number from %d", key, value, least)
	}
	return n, nil
}

func timeOf(key, value string) (int64, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%s=%s: give a time with its unit, such as 50ms or 1.5s", key, value)
	}
	if d > maxDelay {
		return 0, fmt.Errorf("%s=%s: the longest delay is one hour", key, value)
	}
	return int64(d), nil
}

// words describes the injection, such as "rank 2, data 50 ms from step 100".
func (i *Injection) words() string {
	text := "all ranks"
	if i.Rank != nil {
		text = fmt.Sprintf("rank %d", *i.Rank)
	}
	text += ", " + i.Phase + " " + exactly(i.Delay)
	if i.Jitter > 0 {
		text += " +/- " + exactly(i.Jitter)
	}
	if i.Every > 1 {
		text += fmt.Sprintf(", once in %d", i.Every)
	}
	switch {
	case i.To != nil:
		text += fmt.Sprintf(" from step %d to %d", i.From, *i.To)
	case i.From > 0:
		text += fmt.Sprintf(" from step %d", i.From)
	}
	return text
}

// exactly formats a time without rounding, in seconds from one second on,
// otherwise in milliseconds.
func exactly(ns int64) string {
	if ns >= int64(time.Second) {
		return strconv.FormatFloat(float64(ns)/1e9, 'f', -1, 64) + " s"
	}
	return strconv.FormatFloat(float64(ns)/1e6, 'f', -1, 64) + " ms"
}
