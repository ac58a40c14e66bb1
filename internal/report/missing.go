package report

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/fsread"
)

// attemptRanks holds the ranks of an attempt that have records.
type attemptRanks struct {
	world   int // the recorded number of ranks, 0 if unknown or if the processes disagree
	seen    map[int]bool
	traced  map[int]bool // by a trace file
	several bool         // the processes disagree on world
}

// findMissing describes the ranks whose files are missing, one text for each set of them: ranks
// without any file, ranks without files of one attempt, and ranks without a trace beside ranks
// that have one.
func findMissing(j *job.Job, led *account.Report) (out []string) {
	of := make(map[int]*attemptRanks)
	for _, p := range j.Processes {
		if !p.RankKnown {
			clear(of) // the numbers are invented
			break
		}
		a := of[p.Attempt]
		if a == nil {
			a = &attemptRanks{world: p.WorldSize, seen: make(map[int]bool), traced: make(map[int]bool)}
			of[p.Attempt] = a
		}
		a.several = a.several || a.world != p.WorldSize
		a.seen[p.Rank] = true
		a.traced[p.Rank] = a.traced[p.Rank] || slices.ContainsFunc(p.Sources, namedTraceOfRank)
	}
	const unknown = ": what %s did, and how long others waited for %s, is unknown"
	whose := func(ranks []int) string {
		if len(ranks) > 1 {
			return fmt.Sprintf(unknown, "they", "them")
		}
		return fmt.Sprintf(unknown, "it", "it")
	}
	everywhere := make(map[int]bool)
	for _, rank := range led.Missing {
		everywhere[rank] = true
	}
	if i := slices.IndexFunc(led.Flags, func(f account.Flag) bool { return f.Kind == account.MissingRank }); i >= 0 {
		ranks, all := finding.RankList(led.Missing), led.Flags[i].Count+1
		if all > len(led.Missing) {
			ranks = display.Plural(all, "rank")
		}
		out = append(out, "the files of "+ranks+" are missing"+whose(led.Missing))
	}
	files, traces := make(map[string][]int), make(map[string][]int) // the attempts, by ranks in words
	ranksOf := make(map[string][]int)
	var order []string
	note := func(to map[string][]int, ranks []int, attempt int) {
		if len(ranks) == 0 {
			return
		}
		words := finding.RankList(ranks)
		if !slices.Contains(order, words) {
			order = append(order, words)
		}
		to[words], ranksOf[words] = append(to[words], attempt), ranks
	}
	var attempts []int
	for n := range of {
		attempts = append(attempts, n)
	}
	slices.Sort(attempts)
	for _, n := range attempts {
		a := of[n]
		var gone, untraced []int
		for rank := 0; rank < a.world && !a.several; rank++ {
			if !a.seen[rank] && !everywhere[rank] && len(led.Missing) < account.MaxMissing {
				gone = append(gone, rank)
			}
		}
		for rank := range a.seen {
			if !a.traced[rank] {
				untraced = append(untraced, rank)
			}
		}
		slices.Sort(untraced)
		note(files, gone, n)
		if len(untraced) < len(a.seen) {
			note(traces, untraced, n)
		}
	}
	in := func(list []int) string {
		if len(attempts) == 1 {
			return ""
		}
		word := " in attempt "
		if len(list) > 1 {
			word = " in attempts "
		}
		if len(list) > 4 {
			return " in " + display.Plural(len(list), "attempt")
		}
		return word + strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ", "), "[]")
	}
	for _, words := range order {
		if list := files[words]; list != nil {
			out = append(out, "the files of "+words+in(list)+" are missing"+whose(ranksOf[words]))
		}
		if list := traces[words]; list != nil {
			out = append(out, "no trace of "+words+in(list)+": its steps are not split into phases")
		}
	}
	return out
}

// namedTraceOfRank reports whether a file is named like the trace of a rank. The samples of the
// machine are those of all ranks of a host.
func namedTraceOfRank(name string) bool {
	return fsread.NamedTrace(name) && !strings.HasPrefix(filepath.Base(name), "resources.")
}
