package python_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rank returns the rank of the process, 0 if it has none.
func (tr *trace) rank() string { return cmp.Or(tr.meta["rank"], "0") }

// main returns the number of the training thread, 0 in a process without
// training.
func (tr *trace) main() int64 {
	for _, s := range tr.spans {
		if s.name == "ai_root/ai_root" {
			return s.TID
		}
	}
	for _, s := range tr.spans {
		if word(s) != "" {
			return s.TID
		}
	}
	return 0
}

// numbered reports whether a span is a collective, which has a number in its
// group.
func numbered(s *span) bool {
	return s.Cat == "comm" && s.Name != "wait" && s.Name != "send" && s.Name != "receive" && s.Name != "comm.init"
}

// beside returns the sorted words for the spans of other threads.
func (tr *trace) beside() (out []string) {
	for _, s := range tr.spans {
		if text := word(s); text != "" && s.TID != tr.main() {
			out = append(out, text)
		}
	}
	slices.Sort(out)
	return out
}

// word returns the word for a span in an order: empty for spans that contain
// the others.
func word(s *span) string {
	if s.Cat == "startup" && s.Name != "rendezvous" {
		return ""
	}
	switch s.name {
	case "ai_root/ai_root", "pipeline/train", "pipeline/epoch.block", "pipeline/evaluate", "pipeline/setup", "dataloader/fetch.pass", "pipeline/train.iteration", "pipeline/evaluate.iteration":
		return ""
	case "dataloader/fetch.iter":
		return "next"
	case "dataloader/fetch.start":
		return "start"
	case "compile/graph_compile":
		return "compile"
	case "compute/step.zero_grad":
		return "zero"
	}
	return s.Name
}

// order returns the spans of the training thread in the notation of job.order.
func (tr *trace) order() (out []string) {
	type mark struct {
		at, last int64 // of two at the same time, the outer one begins first
		end      bool
		text     string
	}
	var marks []mark
	thread := tr.main()
	for _, s := range tr.spans {
		if s.TID != thread {
			continue
		}
		if text := word(s); text != "" {
			marks = append(marks, mark{s.TS, s.TS + s.Dur, false, text})
		}
		if ends, ok := map[string]string{"pipeline/train.iteration": "[]", "pipeline/evaluate.iteration": "{}"}[s.name]; ok {
			marks = append(marks, mark{s.TS, s.TS + s.Dur, false, ends[:1]}, mark{s.TS + s.Dur, s.TS, true, ends[1:]})
		}
	}
	slices.SortStableFunc(marks, func(a, b mark) int {
		if c := cmp.Compare(a.at, b.at); c != 0 {
			return c
		}
		if a.end != b.end {
			return map[bool]int{true: -1, false: 1}[a.end]
		}
		return cmp.Compare(b.last, a.last)
	})
	for _, m := range marks {
		out = append(out, m.text)
	}
	return out
}

// delays returns the phases in which a delay is missing or unexpected. Load
// stops a process at any place now and then, but not in every step.
func (tr *trace) delays(slow, rank string, waits []string) (out []string) {
	phase, on, _ := strings.Cut(slow, ":")
	long, all := make(map[string]int), make(map[string]int)
	for _, s := range tr.spans {
		if text := word(s); text != "" && s.TID == tr.main() {
			all[text]++
			if s.Dur >= delay {
				long[text]++
			}
		}
	}
	steps := len(tr.named("pipeline/train.iteration"))
	if phase == "data" {
		phase = "next"
	}
	if on == rank && phase != "late" && long[phase] < max(steps, 1) {
		out = append(out, fmt.Sprintf("%d of %d of %s have the delay, in %d iterations", long[phase], all[phase], phase, steps))
	}
	for text, n := range long {
		if n > (steps+1)/2 && !(on == rank && text == phase) && !(on != rank && slices.Contains(waits, text)) {
			out = append(out, fmt.Sprintf("%d of %d of %s are as long as the delay, in %d iterations", n, all[text], text, steps))
		}
	}
	slices.Sort(out)
	return out
}

// byRank holds the orders of the ranks; that of "" is for all others.
type byRank map[string][]string

func (o byRank) of(rank string) []string {
	if own, ok := o[rank]; ok {
		return own
	}
	return o[""]
}

// orders reads the orders of a job.
func orders(t *testing.T, text string) byRank {
	t.Helper()
	out := make(byRank)
	for line := range strings.Lines(text) {
		rank, rest, ok := strings.Cut(line, ":")
		if !ok {
			rank, rest = "", line
		}
		for _, sign := range "()[]{}" {
			rest = strings.ReplaceAll(rest, string(sign), " "+string(sign)+" ")
		}
		words, left := unfold(t, strings.Fields(rest))
		if len(left) > 0 {
			t.Fatalf("%q has a ) without a (", line)
		}
		out[strings.TrimSpace(rank)] = words
	}
	return out
}

// unfold expands 3 ( a b ), up to the end of the group that contains words.
func unfold(t *testing.T, words []string) (out, left []string) {
	t.Helper()
	for len(words) > 0 {
		first := words[0]
		words = words[1:]
		if first == ")" {
			return out, append([]string{")"}, words...)
		}
		n, err := strconv.Atoi(first)
		if err != nil {
			out = append(out, first)
			continue
		}
		if len(words) == 0 || words[0] != "(" {
			t.Fatalf("no ( after word %d", n)
		}
		group, rest := unfold(t, words[1:])
		if len(rest) == 0 {
			t.Fatal("no ) at the end of a group")
		}
		words = rest[1:]
		for range n {
			out = append(out, group...)
		}
	}
	return out, nil
}

// fold writes repeated words once, with a count.
func fold(words []string) string {
	var out []string
	for i := 0; i < len(words); {
		best, times := 1, 1
		for size := 1; size <= (len(words)-i)/2; size++ {
			n := 1
			for i+(n+1)*size <= len(words) && slices.Equal(words[i:i+size], words[i+n*size:i+(n+1)*size]) {
				n++
			}
			if n > 1 && n*size > best*times && whole(words[i:i+size]) {
				best, times = size, n
			}
		}
		if times == 1 {
			out = append(out, words[i])
		} else {
			out = append(out, fmt.Sprintf("%d(%s)", times, fold(words[i:i+best])))
		}
		i += best * times
	}
	return strings.Join(out, " ")
}

// whole reports whether all groups that begin in words end there.
func whole(words []string) bool {
	open := 0
	for _, w := range words {
		switch w {
		case "[", "{":
			open++
		case "]", "}":
			open--
		}
		if open < 0 {
			return false
		}
	}
	return open == 0
}
