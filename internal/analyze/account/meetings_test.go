package account_test

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/extsort"
)

// drawn is one rank of a job as a line: each letter is a second of
//
//	i a step, its own code   f forward in a step   a all_reduce in a step
//	w a wait in a step for a collective without a record   A the launch of a collective
//	B backward in a step   R a message received in a step
//	b a barrier outside of steps   s a save of a checkpoint   g a span "generate"
//	r the rendezvous of the start   I an initialization   . nothing
//
// Adjacent equal letters are one span. A step continues over i, f, a, w, A, B and R, and | ends it.
func drawn(j *timeline, rank int, line string, change ...func(*job.Span)) {
	end := 1.0 // a stored timeline must begin after 0
	for _, c := range line {
		if c != '|' {
			end++
		}
	}
	j.process(rank, 1, 1, end, end)
	app := j.span(0, "application", 1, end)
	loop := j.span(app, "training_loop", 1, end)
	at, step, number := 1.0, uint64(0), int64(0)
	stepEnd := func(from int) float64 {
		e := at
		for _, c := range line[from:] {
			if !strings.ContainsRune("ifawABR", c) {
				break
			}
			e++
		}
		return e
	}
	for k := 0; k < len(line); {
		c := line[k]
		n := k
		for n < len(line) && line[n] == c {
			n++
		}
		length := float64(n - k)
		in := strings.IndexByte("ifawABR", c) >= 0
		if in && step == 0 {
			step = j.span(loop, "training_single_iteration", at, stepEnd(k), func(s *job.Span) { s.Step = number })
			number++
		}
		if !in {
			step = 0
		}
		parent := loop
		if in {
			parent = step
		}
		name, cat := map[byte]string{'f': "forward", 'B': "backward", 'R': "recv", 'a': "all_reduce", 'A': "all_reduce", 'w': "wait", 'b': "barrier", 's': "checkpoint_save_sync", 'g': "generate", 'r': "startup_rendezvous", 'I': "distributed_code_initialization"}[c], ""
		if c == 'f' || c == 'B' {
			cat = "compute"
		}
		if strings.IndexByte("abwAR", c) >= 0 {
			cat = "comm"
		}
		if c == 'r' {
			name, cat = "rendezvous", "startup"
		}
		if name != "" {
			j.span(parent, name, at, at+length, append([]func(*job.Span){func(s *job.Span) { s.Cat, s.Async = cat, c == 'A' }}, change...)...)
		}
		if c != '|' {
			at += length
		}
		k = n
	}
}

// TestWaiting draws jobs of few ranks and checks for which ranks they waited, in seconds
// summed over ranks.
func TestWaiting(t *testing.T) {
	type parts = map[account.Part]float64
	tests := []struct {
		name       string
		ranks      []string
		wait       float64
		parts      parts
		waited     map[int][3]float64 // in total, in steps, in initializations
		unmatched  float64
		productive float64
		change     func(*job.Span)
	}{
		{name: "a barrier after the save of rank 0",
			ranks: []string{"ffa|sssb", "ffa|bbbb"}, wait: 3, productive: 8, waited: map[int][3]float64{0: {3, 0, 0}}, parts: parts{account.Compute: 4, account.Communication: 4}},
		{name: "a collective after one rank generated for longer",
			ranks: []string{"gggbffa", "gbbbffa", "ggbbffa"}, wait: 3, productive: 12, waited: map[int][3]float64{0: {3, 0, 0}}, parts: parts{account.Compute: 6, account.Communication: 6}},
		{name: "one rank is late in a step",
			ranks: []string{"fffa|fffa|fffa", "faaa|faaa|faaa"}, productive: 24, waited: map[int][3]float64{0: {6, 6, 0}}, parts: parts{account.Compute: 12, account.Communication: 6, account.WaitInStep: 6}},
		{name: "another one in each step",
			ranks: []string{"ffa|faa", "faa|ffa"}, productive: 12, waited: map[int][3]float64{0: {1, 1, 0}, 1: {1, 1, 0}}, parts: parts{account.Compute: 6, account.Communication: 4, account.WaitInStep: 2}},
		{name: "a late rank at the rendezvous",
			ranks: []string{"rrrrffa", "...rffa"}, wait: 3, productive: 6, waited: map[int][3]float64{1: {3, 0, 0}}, parts: parts{account.Compute: 4, account.Communication: 2}},
		{name: "an initialization keeps its category",
			ranks: []string{"IIIIffa", "...Iffa"}, productive: 6, waited: map[int][3]float64{1: {3, 0, 3}}, parts: parts{account.Compute: 4, account.Communication: 2}},
		{name: "one rank alone waits for nobody",
			ranks: []string{"ffaabb"}, productive: 6, parts: parts{account.Compute: 2, account.Communication: 4}},
		{name: "a step with nothing in it is not split",
			ranks: []string{"iii|ffa", "iii|faa"}, productive: 12, waited: map[int][3]float64{0: {1, 1, 0}}, parts: parts{account.StepUnsplit: 6, account.Compute: 3, account.Communication: 2, account.WaitInStep: 1}},
		{name: "code of a step that no span is around",
			ranks: []string{"iifa", "iifa"}, productive: 8, parts: parts{account.OtherCode: 4, account.Compute: 2, account.Communication: 2}},
		{name: "a device does the work: the host only asks for it",
			ranks: []string{"ffa|faa", "faa|ffa"}, productive: 12, parts: parts{account.StepUnsplit: 12},
			change: func(s *job.Span) { s.Device = 1 }},
		{name: "a collective that is only asked for",
			ranks: []string{"ffa", "faa"}, productive: 6, parts: parts{account.Compute: 3, account.Communication: 3},
			change: func(s *job.Span) { s.Async = s.Name == "all_reduce" }},
		{name: "a wait for a collective that is not on record",
			ranks: []string{"fffw|fffw", "fwww|fwww"}, productive: 16, waited: map[int][3]float64{0: {4, 4, 0}}, parts: parts{account.Compute: 8, account.Communication: 4, account.WaitInStep: 4}},
		{name: "waits for collectives that were asked for on record",
			ranks: []string{"ffAw", "fAww"}, productive: 8, parts: parts{account.Compute: 3, account.Communication: 5}},
		{name: "waits for collectives of one of two groups",
			ranks: []string{"ffaw|b", "faww|b"}, productive: 10, parts: parts{account.Compute: 3, account.Communication: 7},
			change: func(s *job.Span) { s.Group = map[string]string{"all_reduce": "tp", "barrier": "dp"}[s.Name] }},
		{name: "a collective that one rank has no record of",
			ranks: []string{"ffa|b", "ffa|."}, productive: 7, unmatched: 1, parts: parts{account.Compute: 4, account.Communication: 3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			j := &timeline{}
			for rank, line := range tt.ranks {
				if tt.change == nil {
					drawn(j, rank, line)
				} else {
					drawn(j, rank, line, tt.change)
				}
			}
			rep := j.report(account.Query{})
			check := func(what string, got int64, want float64) {
				if got != ns(want) {
					t.Errorf("%s = %.3f s, want %.3f", what, float64(got)/sec, want)
				}
			}
			check("wait", rep.Categories[account.Wait], tt.wait)
			check("productive", rep.Categories[account.Productive], tt.productive)
			check("unmatched", rep.Unmatched, tt.unmatched)
			check("the sum of all categories", rep.Categories.Sum(), float64(len(tt.ranks))*float64(rep.Wall)/sec)
			for _, p := range account.PartNames() {
				check(string(p), rep.ProductiveParts[p], tt.parts[p])
			}
			for _, w := range rep.WaitedFor {
				want := tt.waited[w.Rank]
				check(fmt.Sprintf("waited for rank %d", w.Rank), w.Time, want[0])
				check(fmt.Sprintf("waited for rank %d in steps", w.Rank), w.InSteps, want[1])
				check(fmt.Sprintf("waited for rank %d in initializations", w.Rank), w.InInit, want[2])
			}
			if len(rep.WaitedFor) != len(tt.waited) {
				t.Errorf("waited for %d ranks, want %d", len(rep.WaitedFor), len(tt.waited))
			}
		})
	}
}

// TestWaitingInRepeatedSteps checks that meetings of a step that ran twice in one process
// are not compared: the records do not show which of them belong together.
func TestWaitingInRepeatedSteps(t *testing.T) {
	j := &timeline{}
	for rank, ends := range []float64{3, 2} {
		j.process(rank, 1, 0, 8, 8)
		app := j.span(0, "application", 0, 8)
		for again := range 2 {
			at := 4 * float64(again)
			loop := j.loop(app, 0, at, at+4)
			step := j.step(loop, 0, at, at+4)
			j.span(step, "all_reduce", at+ends, at+4, func(s *job.Span) { s.Cat = "comm" })
		}
	}
	j.ledger.Expect(4) // two more ranks have no records: four durations of two ranks are not a meeting of four
	rep := j.report(account.Query{})
	if len(rep.WaitedFor) != 0 || rep.ProductiveParts[account.WaitInStep] != 0 {
		t.Errorf("waited for %+v, parts %v, want no waiting", rep.WaitedFor, rep.ProductiveParts)
	}
	if want := ns(1 + 2); rep.Unmatched != want {
		t.Errorf("unmatched %d ns, want %d", rep.Unmatched, want)
	}
}

// TestWaitingByGroup checks that groups with the same name are distinguished by their ranks:
// each pair of four ranks waits only for its own last rank.
func TestWaitingByGroup(t *testing.T) {
	group := func(s *job.Span) {
		if s.Name == "all_reduce" {
			s.Group, s.GroupSize = "tp", 2
		}
	}
	j := &timeline{}
	for rank, line := range []string{"ffffa", "faaaa", "fffaa", "ffaaa"} {
		drawn(j, rank, line, group)
	}
	got := make(map[int]int64)
	for _, w := range j.report(account.Query{}).WaitedFor {
		got[w.Rank] = w.Time
	}
	if want := map[int]int64{0: ns(3), 2: ns(1)}; !maps.Equal(got, want) {
		t.Errorf("waited for %v, want %v", got, want)
	}
}

// TestWaitingIsKept checks that a stored ledger gives the same report, and that windows
// divide the same time and do not report too much waiting.
func TestWaitingIsKept(t *testing.T) {
	ledger := func(change func(*account.Builder) (*account.Builder, error)) *account.Report {
		var l account.Ledger
		for rank := range 3 {
			line := ""
			for i := range 450 {
				if late := rank == i/300; late {
					line += "fffa|"
				} else {
					line += "faaa|"
				}
			}
			j := &timeline{}
			drawn(j, rank, line+"b")
			b, err := change(j.b)
			if err != nil {
				t.Fatal(err)
			}
			data, err := b.AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			var again account.Builder
			if err := again.UnmarshalBinary(data); err != nil {
				t.Fatal(err)
			}
			mustAdd(&l, account.Numbered(&again, rank, 1))
		}
		return l.Report(account.Query{})
	}
	whole := ledger(func(b *account.Builder) (*account.Builder, error) { return b, nil })
	windows := ledger(func(b *account.Builder) (*account.Builder, error) { return b.Windows(nil) })
	const each = 2 * 2 * sec // two ranks wait for two seconds in each step
	if got, want := whole.ProductiveParts[account.WaitInStep], int64(450*each); got != want {
		t.Errorf("waited %d ns, want %d", got, want)
	}
	if got, want := whole.WaitedFor, []account.WaitedFor{{Rank: 0, Time: 300 * each, InSteps: 300 * each}, {Rank: 1, Time: 150 * each, InSteps: 150 * each}}; !slices.Equal(got, want) {
		t.Errorf("waited for %+v, want %+v", got, want)
	}
	for p, want := range whole.ProductiveParts {
		got := windows.ProductiveParts[p]
		switch p {
		case account.WaitInStep:
			if got > want || 10*got < 9*want {
				t.Errorf("windows: waited %d ns, want at most %d, and nine tenths of it", got, want)
			}
		case account.Communication: // includes waiting that windows do not show
		default:
			if got != want {
				t.Errorf("windows: %s = %d ns, want %d", p, got, want)
			}
		}
	}
	if got, want := windows.ProductiveParts[account.WaitInStep]+windows.ProductiveParts[account.Communication], whole.ProductiveParts[account.WaitInStep]+whole.ProductiveParts[account.Communication]; got != want {
		t.Errorf("windows: %d ns in collectives, want %d", got, want)
	}
}

// TestManyCollectives checks a step with more collectives than are stored separately: it
// divides the same time, and its memory does not grow with them.
func TestManyCollectives(t *testing.T) {
	size := func(collectives int) (int, account.Parts) {
		var l account.Ledger
		bytes := 0
		for rank := range 2 {
			j := &timeline{}
			line := ""
			for range collectives {
				line += []string{"ffa", "faa"}[rank]
			}
			drawn(j, rank, line+"|"+line)
			data, err := j.b.AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			bytes += len(data)
			mustAdd(&l, j.b)
		}
		return bytes, l.Report(account.Query{}).ProductiveParts
	}
	few, _ := size(16)
	many, parts := size(400)
	if many > few+200 {
		t.Errorf("%d bytes of steps with 400 collectives, %d with 16; want at most 200 more", many, few)
	}
	want := account.Parts{account.Compute: ns(2 * 400 * 3), account.Communication: ns(2 * 400 * 2), account.WaitInStep: ns(2 * 400)}
	if !maps.Equal(parts, want) {
		t.Errorf("%v, want %v", parts, want)
	}
}

// TestManyOverlaps checks that the memory of a step does not grow with the number of
// overlaps, and that the time of all of them is counted.
func TestManyOverlaps(t *testing.T) {
	size := func(n int) (bytes int, hidden int64) {
		j := &timeline{}
		j.process(0, 1, 1, 2001, 2001)
		loop := j.span(0, "training_loop", 1, 2001)
		compute := func(s *job.Span) { s.Cat = "compute" }
		for k := range 2 {
			from := float64(1 + 1000*k)
			step := j.step(loop, int64(k), from, from+1000)
			j.span(step, "forward", from, from+1000, compute)
			for i := range n { // concurrent with it, by their parent
				j.span(step, "forward", from+2*float64(i)+0.5, from+2*float64(i)+1.5, compute)
			}
		}
		data, err := j.b.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		return len(data), j.report(account.Query{}).Overlapped[account.Productive]
	}
	few, _ := size(24)
	many, hidden := size(400)
	if want := ns(2 * 400); many > few+200 || hidden != want {
		t.Errorf("%d bytes and %d ns hidden with 400 spans in a step, want about %d bytes and %d ns", many, hidden, few, want)
	}
}

// TestSpilledTimelines checks that a ledger and its digest do not depend on whether timelines
// are in memory or in a temporary file.
func TestSpilledTimelines(t *testing.T) {
	of := func(spill *extsort.Blocks) (digest []byte, rep *account.Report) {
		var l account.Ledger
		for rank := range 2 {
			b := account.NewBuilder(account.Process{Rank: rank, Attempt: 1, Start: ns(1), End: ns(9000), LastSeen: ns(9000)})
			account.SetSpill(b, spill)
			j := &timeline{b: b}
			loop, at := j.span(0, "training_loop", 1, 9000), 1.0
			for k := range 1000 {
				step := j.step(loop, int64(k), at, at+8)
				late := 1 + float64((k+rank)%7)/8
				j.span(step, "all_reduce", at+late, at+4, func(s *job.Span) { s.Cat = "comm" })
				at += 8 + late/10
			}
			data, err := b.AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			digest = append(digest, data...)
			read := account.NewPacked(spill)
			if err := read.UnmarshalBinary(data); err != nil {
				t.Fatal(err)
			}
			mustAdd(&l, account.Numbered(read, rank, 1))
		}
		return digest, l.Report(account.Query{})
	}
	want, wantReport := of(nil)
	got, report := of(extsort.NewBlocks(0, t.TempDir()))
	if !bytes.Equal(got, want) || !reflect.DeepEqual(report, wantReport) || report.ProductiveParts[account.WaitInStep] == 0 {
		t.Errorf("through a file: %d bytes, %+v; want %d bytes, %+v, as in memory, with waits in the step", len(got), report, len(want), wantReport)
	}
	j := &timeline{b: account.NewBuilder(account.Process{Start: ns(1), End: ns(9), LastSeen: ns(9)})}
	account.SetSpill(j.b, extsort.NewBlocks(0, t.TempDir()+"/missing"))
	j.span(0, "training_loop", 1, 9)
	if _, err := j.b.AppendBinary(nil); err == nil {
		t.Error("AppendBinary with a spill file that cannot be written: no error, want one")
	}
}

// TestMessages draws pipelines and checks for which ranks their stages waited, in seconds of both steps.
func TestMessages(t *testing.T) {
	type waits = map[int]float64
	tests := []struct {
		name                        string
		roles, ranks                []string
		compute, communicates, wait float64
		by                          waits
		from                        []int // the rank that each one receives from; nil if that is not recorded
	}{
		{"a message is as long as the shortest one", []string{"stage 0", "stage 1"}, []string{"ffRRRRBB", "RRffffBB"}, 20, 8, 4, waits{1: 4}, nil},
		{"forward comes from before, backward from after", []string{"stage 0", "stage 1", "stage 2"}, []string{"ffRRRRRB", "RRfRRRBB", "RRRfffBB"}, 22, 16, 10, waits{1: 8, 2: 2}, nil},
		{"some of a step", []string{"stage 0", "stage 1"}, []string{"fRRRBfRB", "RfBRRRfB"}, 16, 8, 8, waits{1: 4, 0: 4}, nil},
		{"two of each stage", []string{"0", "0", "1", "1"}, []string{"fRRRBB", "fRRBBB", "RfffBB", "RffffB"}, 34, 8, 6, waits{2: 4, 3: 2}, nil},
		{"the same role", []string{"", ""}, []string{"ffRRRRBB", "RRffffBB"}, 20, 12, 0, nil, nil},
		{"nothing follows", []string{"stage 0", "stage 1"}, []string{"ffBBRRRR", "RRffffBB"}, 20, 12, 0, nil, nil},
		{"in a ring the records name the sender", []string{"", ""}, []string{"ffRRRRBB", "RRffffBB"}, 20, 8, 4, waits{1: 4}, []int{1, 0}},
		{"the named sender comes before the stage", []string{"stage 0", "stage 1", "stage 2"}, []string{"ffRRRRRB", "RRfRRRBB", "RRRfffBB"}, 22, 16, 10, waits{2: 6, 1: 2, 0: 2}, []int{2, 0, 1}},
		{"the sender has no records", []string{"", ""}, []string{"ffRRRRBB", "RRffffBB"}, 20, 12, 0, nil, []int{7, 0}},
	}
	for _, test := range tests {
		var of, digests account.Ledger
		for rank, line := range test.ranks {
			j := &timeline{}
			drawn(j, rank, line+"|"+line, func(s *job.Span) {
				if s.Role = test.roles[rank]; test.from != nil && s.Name == "recv" {
					s.Peer = test.from[rank] + 1
				}
			})
			data, err := j.b.AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			read := account.NewPacked(nil)
			if err := read.UnmarshalBinary(data); err != nil {
				t.Fatal(err)
			}
			mustAdd(&of, j.b)
			mustAdd(&digests, account.Numbered(read, rank, 1))
		}
		rep := of.Report(account.Query{})
		want := account.Parts{account.Compute: ns(test.compute), account.Communication: ns(test.communicates)}
		if test.wait > 0 {
			want[account.WaitInStep] = ns(test.wait)
		}
		if !maps.Equal(rep.ProductiveParts, want) || rep.Bubble != want[account.WaitInStep] {
			t.Errorf("%s: got %v, %d ns of waits for messages, want %v", test.name, rep.ProductiveParts, rep.Bubble, want)
		}
		by := waits{}
		for _, w := range rep.WaitedFor {
			by[w.Rank] = float64(w.InSteps) / 1e9
		}
		if !maps.Equal(by, test.by) {
			t.Errorf("%s: waited for %v, want %v", test.name, by, test.by)
		}
		if got := digests.Report(account.Query{}); !reflect.DeepEqual(got, rep) {
			t.Errorf("%s: a digest has %+v, want %+v", test.name, got, rep)
		}
	}
}

// TestMessagesOfWindows: the shortest message differs between steps. The waits of windows are no longer than those of
// their steps.
func TestMessagesOfWindows(t *testing.T) {
	of := func(windows bool) (waits map[int]int64, in int64) {
		var l account.Ledger
		for rank, lines := range [][]string{{"ffRRRRBB", "ffRRRRRRBB"}, {"RRffffBB", "RRRRffffBB"}} {
			j := &timeline{}
			drawn(j, rank, strings.Repeat(lines[0]+"|"+lines[1]+"|", 20), func(s *job.Span) { s.Role = fmt.Sprint("stage ", rank) })
			b := j.b
			if windows {
				var err error
				if b, err = b.Windows(nil); err != nil {
					t.Fatal(err)
				}
			}
			mustAdd(&l, b)
		}
		rep := l.Report(account.Query{})
		waits = make(map[int]int64)
		for _, w := range rep.WaitedFor {
			waits[w.Rank] = w.InSteps
		}
		return waits, rep.ProductiveParts[account.WaitInStep]
	}
	want, all := of(false)
	got, sum := of(true)
	if all != ns(80) || sum > all || sum < all*9/10 {
		t.Errorf("waits of windows are %d ns, want %d to %d as of steps, 80 s", sum, all*9/10, all)
	}
	for rank, waited := range got {
		if waited > want[rank] {
			t.Errorf("waits of windows for rank %d are %d ns, want at most %d", rank, waited, want[rank])
		}
	}
}

// TestGroupsOfAMissingRank: pairs of ranks share the name of their groups, and one rank has no records. The waits of
// the other pairs are known, and those of its partner are not.
func TestGroupsOfAMissingRank(t *testing.T) {
	for missing := range 4 {
		var l account.Ledger
		l.Expect(4)
		for rank, line := range []string{"fffa", "faaa", "ffaa", "fffa"} {
			if rank == missing {
				continue
			}
			j := &timeline{}
			drawn(j, rank, line, func(s *job.Span) {
				if s.Name == "all_reduce" {
					s.Group, s.GroupSize = "tp", 2
				}
			})
			mustAdd(&l, j.b)
		}
		want := map[int]int64{0: ns(2)} // by the rank that others wait for
		if missing < 2 {
			want = map[int]int64{3: ns(1)}
		}
		got := make(map[int]int64)
		for _, w := range l.Report(account.Query{}).WaitedFor {
			got[w.Rank] = w.Time
		}
		if !maps.Equal(got, want) {
			t.Errorf("without rank %d: waited for %v, want %v", missing, got, want)
		}
	}
}
