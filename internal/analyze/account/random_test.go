package account_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/job"
)

// process is one process of a random job.
type process struct {
	account.Process
	spans []job.Span
	saves [][2]int64
}

func (p *process) builder(r *rand.Rand, twice bool) *account.Builder {
	b := account.NewBuilder(p.Process)
	order := make([]int, 0, 2*len(p.spans))
	for i := range p.spans {
		order = append(order, i)
		if twice && r.IntN(3) == 0 {
			order = append(order, i)
		}
	}
	if r != nil {
		r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	for _, i := range order {
		p.spans[i].SetName(p.spans[i].Cat, p.spans[i].Name)
		b.Span(&p.spans[i])
	}
	for _, s := range p.saves {
		b.Saved(s[0], s[1])
	}
	return b
}

// randomJob returns a job of several ranks and attempts with spans that nest,
// overlap, run in the background, or have no end.
func randomJob(r *rand.Rand) []process {
	var out []process
	start := int64(1e15)
	saved := int64(-1)
	attempts := 1 + r.IntN(4)
	for n := 1; n <= attempts; n++ {
		killed := n < attempts || r.IntN(2) == 0
		var last int64
		for rank := range 1 + r.IntN(3) {
			p := process{Process: account.Process{
				Rank: rank, Attempt: n, Start: start + r.Int64N(3e9), End: job.NoEnd, Heartbeats: r.IntN(2) == 0,
			}}
			p.LastSeen = p.Start + r.Int64N(60e9)
			if !killed || r.IntN(8) == 0 {
				p.End = p.LastSeen
			}
			p.fill(r, saved+1)
			last = max(last, p.LastSeen)
			out = append(out, p)
		}
		for _, s := range out[len(out)-1].saves {
			if s[0] < last && r.IntN(3) > 0 {
				saved = max(saved, s[1])
			}
		}
		start = last + r.Int64N(20e9) - r.Int64N(2)*1e9*r.Int64N(4)
	}
	return out
}

func (p *process) fill(r *rand.Rand, first int64) {
	id := uint64(0)
	stop := p.LastSeen
	add := func(parent uint64, name string, from, to int64, change func(*job.Span)) uint64 {
		id++
		s := job.Span{ID: id, Parent: parent, Name: name, Start: from, End: to, Step: job.Unknown, First: job.Unknown}
		if to > stop || r.IntN(200) == 0 {
			s.End = job.NoEnd
		}
		if change != nil {
			change(&s)
		}
		if from < stop {
			p.spans = append(p.spans, s)
		}
		return s.ID
	}
	appEnd := job.NoEnd
	if p.End != job.NoEnd {
		appEnd = p.End
	}
	app := add(0, "application", p.Start, appEnd, nil)
	at := p.Start
	for _, name := range []string{"distributed_code_initialization", "model_initialization"} {
		d := r.Int64N(3e9)
		add(app, name, at, at+d, nil)
		at += d
	}
	for at < stop {
		loop := add(app, "training_loop", at, appEnd, func(s *job.Span) {
			s.First = first
			if r.IntN(6) == 0 {
				s.First = job.Unknown
			}
		})
		for i := first; at < stop && (i < first+20 || r.IntN(10) > 0); i++ {
			at += r.Int64N(2) * r.Int64N(1e9)
			load := r.Int64N(5e8)
			add(loop, "data_loading", at, at+load, nil)
			at += load
			d := 1e9 + r.Int64N(2e9)
			step := add(loop, "training_single_iteration", at, at+d, func(s *job.Span) { s.Step = i })
			add(step, "model_forward", at, at+d/3, nil)
			switch r.IntN(10) {
			case 0:
				add(loop, "data_loading", at+d/4, at+d/2, nil)
			case 1:
				add(loop, "validation_loop", at+d/3, at+d+r.Int64N(1e9), nil)
			case 2:
				add(step, fmt.Sprint("custom", r.IntN(3)), at+d/2, at+d*3/4, nil)
			case 3:
				add(app, "upload", at, at+r.Int64N(5e9), func(s *job.Span) { s.Background = true })
			case 4:
				add(loop, "checkpoint_save_sync", at+d, at+2*d, func(s *job.Span) { s.Step = i })
				p.saves = append(p.saves, [2]int64{at + 2*d, i})
				at += d
			case 5:
				add(step, "training_single_iteration", at+d/8, at+d/4, nil)
			case 6:
				add(uint64(r.IntN(int(id)+3)), "stray", at-r.Int64N(1e9), at+d, nil)
			}
			at += d
		}
		first = max(0, first+r.Int64N(10)-5)
		if r.IntN(2) == 0 {
			break
		}
	}
}

func mustAdd(l *account.Ledger, b *account.Builder) {
	if err := l.Add(b); err != nil {
		panic(err)
	}
}

func ledgerOf(jobs []process, r *rand.Rand, twice bool) *account.Ledger {
	var l account.Ledger
	order := make([]int, len(jobs))
	for i := range order {
		order[i] = i
	}
	if r != nil {
		r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	for _, i := range order {
		mustAdd(&l, jobs[i].builder(r, twice))
		if twice && r.IntN(3) == 0 {
			mustAdd(&l, jobs[i].builder(r, twice))
		}
	}
	return &l
}

func seeds(t *testing.T, n int, fn func(t *testing.T, r *rand.Rand)) {
	for seed := range uint64(n) {
		if fn(t, rand.New(rand.NewPCG(seed, 7))); t.Failed() {
			t.Fatalf("seed %d fails", seed)
		}
	}
}

func checkSums(t *testing.T, rep *account.Report) {
	t.Helper()
	if sum := rep.Categories.Sum(); sum != rep.Wall*int64(len(rep.Ranks)) {
		t.Errorf("the categories sum to %d, want %d ranks times wall %d", sum, len(rep.Ranks), rep.Wall)
	}
	attempts := int64(0)
	for _, a := range rep.Attempts {
		attempts += a.Categories.Sum()
	}
	for _, rr := range rep.Ranks {
		if rr.Categories.Sum() != rep.Wall {
			t.Errorf("rank %d: the categories sum to %d, want %d", rr.Rank, rr.Categories.Sum(), rep.Wall)
		}
		for c, v := range rr.Categories {
			if v < 0 {
				t.Errorf("%s is %d, want at least 0", c, v)
			}
		}
	}
	for c, v := range rep.Overlapped {
		if v < 0 {
			t.Errorf("%s overlaps %d, want at least 0", c, v)
		}
	}
	if rep.AnyProductive > rep.Wall || rep.AllProductive > rep.AnyProductive || rep.AllProductive < 0 {
		t.Errorf("all productive %d, any productive %d, wall %d; want them in rising order", rep.AllProductive, rep.AnyProductive, rep.Wall)
	}
}

// checkStretches compares the intervals of a ledger with its report.
func checkStretches(t *testing.T, l *account.Ledger) {
	t.Helper()
	rep := l.Report(account.Query{})
	ranks, attempts, at := make(map[int]account.Totals), make(map[int]account.Totals), make(map[int]int64)
	err := l.Stretches(func(s *account.Stretch) error {
		if before, ok := at[s.Rank]; ok && before != s.Start || s.End <= s.Start {
			t.Errorf("rank %d: stretch %+v, want one that starts at %d and is not empty", s.Rank, *s, before)
		}
		at[s.Rank] = s.End
		for _, x := range []struct {
			in  map[int]account.Totals
			key int
		}{{ranks, s.Rank}, {attempts, s.Attempt}} {
			if x.in[x.key] == nil {
				x.in[x.key] = account.Totals{}
			}
			x.in[x.key][s.Category] += s.End - s.Start
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for _, r := range rep.Ranks {
		if !maps.Equal(ranks[r.Rank], r.Categories) {
			t.Errorf("rank %d: stretches sum to %v, want %v as in the report", r.Rank, ranks[r.Rank], r.Categories)
		}
	}
	for _, a := range rep.Attempts {
		if !maps.Equal(attempts[a.Attempt], a.Categories) && len(a.Categories) > 0 {
			t.Errorf("attempt %d: stretches sum to %v, want %v as in the report", a.Attempt, attempts[a.Attempt], a.Categories)
		}
	}
}

func bounds(jobs []process) (from, to int64) {
	from, to = jobs[0].Start, jobs[0].LastSeen
	for i := range jobs {
		from, to = min(from, jobs[i].Start), max(to, jobs[i].LastSeen)
	}
	return from, to
}

func TestSumIsTheWallTime(t *testing.T) {
	seeds(t, 300, func(t *testing.T, r *rand.Rand) {
		jobs := randomJob(r)
		l := ledgerOf(jobs, nil, false)
		checkSums(t, l.Report(account.Query{}))
		checkStretches(t, l)
		from, to := bounds(jobs)
		for range 5 {
			a := from + r.Int64N(to-from+1)
			b := a + r.Int64N(to-from+10e9)
			asOf := a + r.Int64N(b-a+1)
			ex := from + r.Int64N(to-from+1)
			checkSums(t, l.Report(account.Query{From: a, To: b, AsOf: b}))
			checkSums(t, l.Report(account.Query{From: a, To: b, AsOf: asOf, Exclude: []account.Interval{{From: ex, To: ex + 5e9}, {From: ex + 3e9, To: ex + 6e9}}}))
		}
	})
}

func TestOrderIsIrrelevant(t *testing.T) {
	seeds(t, 150, func(t *testing.T, r *rand.Rand) {
		jobs := randomJob(r)
		_, to := bounds(jobs)
		for _, q := range []account.Query{{}, {AsOf: to - 10e9, To: to - 10e9}} {
			one, two := ledgerOf(jobs, nil, false).Report(q), ledgerOf(jobs, r, true).Report(q)
			if !reflect.DeepEqual(one, two) {
				t.Errorf("in order:\n%+v\nshuffled and repeated, want the same:\n%+v", one, two)
			}
		}
	})
}

// TestLargeProcess checks that sorting in a temporary file does not change the report.
func TestLargeProcess(t *testing.T) {
	seeds(t, 5, func(t *testing.T, r *rand.Rand) {
		jobs := randomJob(r)
		var l account.Ledger
		for i := range jobs {
			b := account.NewBuilder(jobs[i].Process)
			account.SetRowLimit(b, 10)
			for _, k := range r.Perm(len(jobs[i].spans)) {
				s := jobs[i].spans[k]
				s.SetName(s.Cat, s.Name)
				b.Span(&s)
			}
			for _, s := range jobs[i].saves {
				b.Saved(s[0], s[1])
			}
			mustAdd(&l, b)
		}
		if one, two := ledgerOf(jobs, nil, false).Report(account.Query{}), l.Report(account.Query{}); !reflect.DeepEqual(one, two) {
			t.Errorf("with a file:\n%+v\nwithout, want the same:\n%+v", one, two)
		}
	})
}

func TestBackgroundChangesNothing(t *testing.T) {
	seeds(t, 100, func(t *testing.T, r *rand.Rand) {
		jobs := randomJob(r)
		one := ledgerOf(jobs, nil, false).Report(account.Query{})
		for i := range jobs {
			p := &jobs[i]
			for k := range 3 {
				at := p.Start + r.Int64N(p.LastSeen-p.Start+1)
				p.spans = append(p.spans, job.Span{
					ID: 1e6 + uint64(k), Parent: uint64(r.IntN(len(p.spans) + 2)), Name: "beside", Start: at, End: at + r.Int64N(9e9),
					Step: job.Unknown, First: job.Unknown, Background: true,
				})
			}
		}
		two := ledgerOf(jobs, nil, false).Report(account.Query{})
		one.Overlapped, two.Overlapped = nil, nil
		for i := range one.Ranks {
			one.Ranks[i].Overlapped, two.Ranks[i].Overlapped = nil, nil
		}
		if !reflect.DeepEqual(one, two) {
			t.Errorf("without background spans:\n%+v\nwith them, want the same:\n%+v", one, two)
		}
	})
}

func TestWindowsAddUp(t *testing.T) {
	seeds(t, 150, func(t *testing.T, r *rand.Rand) {
		jobs := randomJob(r)
		l := ledgerOf(jobs, nil, false)
		from, to := bounds(jobs)
		cut := from + r.Int64N(to-from+1)
		asOf := to - r.Int64N(to-from+1)/2
		for _, asOf := range []int64{0, asOf} {
			whole := l.Report(account.Query{From: from, To: to, AsOf: asOf})
			left := l.Report(account.Query{From: from, To: cut, AsOf: asOf})
			right := l.Report(account.Query{From: cut, To: to, AsOf: asOf})
			if cut == from {
				continue
			}
			for _, part := range []func(*account.Report) account.Totals{
				func(r *account.Report) account.Totals { return r.Categories },
				func(r *account.Report) account.Totals { return r.Overlapped },
			} {
				sum := account.Totals{}
				for _, rep := range []*account.Report{left, right} {
					for c, v := range part(rep) {
						sum[c] += v
					}
				}
				if !reflect.DeepEqual(sum, part(whole)) {
					t.Errorf("windows %v and %v do not sum to the whole, want %v", part(left), part(right), part(whole))
				}
			}
			if left.AllProductive+right.AllProductive != whole.AllProductive {
				t.Error("all_productive does not add up")
			}
		}
	})
}

// TestPartition compares the sweep with a direct implementation of the rule, applied
// to every interval between two times at which a span begins or ends.
func TestPartition(t *testing.T) {
	seeds(t, 100, func(t *testing.T, r *rand.Rand) {
		jobs := randomJob(r)
		p := &jobs[0]
		p.End = p.LastSeen
		p.spans = slices.DeleteFunc(p.spans, func(s job.Span) bool {
			return s.End == job.NoEnd && s.Name != "application" && s.Name != "training_loop"
		})
		for i := range p.spans { // only the partition is tested, without usual times and lost work
			p.spans[i].Step = job.Unknown
			p.spans[i].End = min(p.spans[i].End, p.End)
			if p.spans[i].Name == "training_loop" {
				p.spans[i].First = job.Unknown
			}
		}
		var l account.Ledger
		mustAdd(&l, p.builder(r, true))
		rep := l.Report(account.Query{})
		have := account.Totals{}
		for c, v := range rep.Categories {
			if c == account.Warmup {
				c = account.Productive
			}
			have[c] += v
		}
		if w := byTheRule(p, rep.From); !reflect.DeepEqual(have, w) {
			t.Errorf("categories %v, want %v by the rule", have, w)
		}
	})
}

func byTheRule(p *process, start int64) account.Totals {
	rank := map[string]int{
		"model_initialization": 1, "distributed_code_initialization": 1, "checkpoint_save_sync": 2, "validation_loop": 4,
		"training_single_iteration": 6, "data_loading": 7, "application": 8, "training_loop": 8,
	}
	of := func(s *job.Span) (int, account.Category) {
		switch s.Name {
		case "model_initialization", "distributed_code_initialization":
			return 1, account.Init
		case "checkpoint_save_sync":
			return 2, account.CheckpointSave
		case "validation_loop":
			return 4, account.Validation
		case "training_single_iteration":
			return 6, account.Productive
		case "data_loading":
			return 7, account.DataWait
		case "application", "training_loop":
			return rank[s.Name], account.Other
		}
		return 5, "custom." + account.Category(s.Name)
	}
	byID := make(map[uint64]*job.Span)
	cuts := []int64{start, p.End}
	for i := range p.spans {
		s := &p.spans[i]
		byID[s.ID] = s
		cuts = append(cuts, max(s.Start, start), min(s.End, p.End))
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	var aside func(s *job.Span) bool // in the background, or a descendant of such a span
	aside = func(s *job.Span) bool {
		parent := byID[s.Parent]
		return s.Background || parent != nil && parent != s && parent.Start <= s.Start && parent.End > s.Start && aside(parent)
	}
	out := account.Totals{}
	for k := 0; k+1 < len(cuts); k++ {
		from, to := cuts[k], cuts[k+1]
		if to > p.End {
			break
		}
		open := func(s *job.Span) bool { return s.Start <= from && s.End > from }
		var best *job.Span
		bestRank, bestCat := 9, account.Other
		for i := range p.spans {
			s := &p.spans[i]
			if !open(s) || aside(s) {
				continue
			}
			leaf := true
			for j := range p.spans {
				c := &p.spans[j]
				if c.Parent == s.ID && c.ID != s.ID && open(c) && !aside(c) && c.Start >= s.Start {
					leaf = false
				}
			}
			if !leaf {
				continue
			}
			n, c := of(s)
			if s.Name == "model_forward" {
				n, c = 6, account.Productive
				if parent := byID[s.Parent]; parent != nil && open(parent) {
					n, c = of(parent)
				}
			}
			if n < bestRank || n == bestRank && best != nil && (s.Start > best.Start || s.Start == best.Start && s.ID > best.ID) {
				best, bestRank, bestCat = s, n, c
			}
		}
		out[bestCat] += to - from
	}
	return out
}
