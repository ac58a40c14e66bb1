package account_test

import (
	"cmp"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/job"
)

// play tells a Live what happened in one process, in the order of time, and
// leaves it as the process did: closed, or dead.
func play(t *testing.T, p *process, dir string) *account.Live {
	t.Helper()
	l, err := account.NewLive(account.LiveOptions{Rank: p.Rank, Attempt: p.Attempt, Start: p.Start, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	type moment struct {
		at    int64
		kind  int // ends, then saves, then starts
		order int
		do    func()
	}
	var all []moment
	handles := make(map[uint64]account.Handle)
	for i := range p.spans {
		s := &p.spans[i]
		all = append(all, moment{s.Start, 2, i, func() {
			handles[s.ID] = l.Start(&account.LiveSpan{
				Parent: handles[s.Parent], Name: s.Name, Cat: s.Cat, Time: s.Start, Step: s.Step, First: s.First, Background: s.Background,
			})
		}})
		if s.End != job.NoEnd && s.End <= p.LastSeen {
			all = append(all, moment{s.End, 0, -i, func() { l.End(handles[s.ID], s.End) }})
		}
	}
	for i, s := range p.saves {
		if s[0] <= p.LastSeen {
			all = append(all, moment{s[0], 1, i, func() { l.Saved(s[0], s[1]) }})
		}
	}
	slices.SortStableFunc(all, func(a, b moment) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.kind, b.kind), cmp.Compare(a.order, b.order))
	})
	for _, m := range all {
		m.do()
	}
	last := l.Alive
	if p.End != job.NoEnd {
		last = l.Close
	}
	if err := last(p.LastSeen); err != nil {
		t.Fatal(err)
	}
	return l
}

// processes are those of a scenario.
func (s *scenario) processes() (out []process) {
	at := func(t int64) int64 { return (s.EpochMS + t) * ms }
	for _, a := range s.Attempts {
		rec, list := s.of(a.Rank, a.Attempt)
		p := process{Process: account.Process{Rank: a.Rank, Attempt: a.Attempt, Start: at(rec.Start), End: job.NoEnd, LastSeen: at(rec.LastSeen)}}
		if rec.End != nil {
			p.End = at(*rec.End)
		}
		for _, sp := range list {
			out := job.Span{ID: sp.ID, Name: sp.Name, Start: at(sp.Start), End: job.NoEnd, Background: sp.Attributes.Background,
				Step: number(sp.Attributes.Iteration, job.Unknown), First: number(sp.Attributes.First, job.Unknown)}
			if sp.Parent != nil {
				out.Parent = *sp.Parent
			}
			if sp.End != nil {
				out.End = at(*sp.End)
			}
			p.spans = append(p.spans, out)
			if sp.Name == "checkpoint_save_sync" && sp.End != nil {
				p.saves = append(p.saves, [2]int64{out.End, out.Step})
			}
		}
		out = append(out, p)
	}
	return out
}

// TestLiveScenarios: what the ledger says while a job runs, and after
// restarts, is what is right in the end.
func TestLiveScenarios(t *testing.T) {
	dirs := []string{"testdata/scenarios"}
	if _, err := os.Stat("../../../../shared/golden/goodput"); err == nil {
		dirs = goldenDirs(t)
	}
	for _, dir := range dirs {
		for _, path := range scenarioFiles(t, dir) {
			s := readScenario(t, path)
			list := s.processes()
			if len(list) == 0 || slices.ContainsFunc(list, func(p process) bool { return p.Rank > 0 }) {
				continue
			}
			t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
				state := t.TempDir()
				var l *account.Live
				for i := range list {
					l = play(t, &list[i], state)
				}
				last := list[len(list)-1].LastSeen
				have := l.Snapshot(last)
				var ledger = s.ledger()
				want := ledger.Report(account.Query{To: last, AsOf: last})
				if have.Wall != want.Wall {
					t.Errorf("wall %d, offline %d", have.Wall, want.Wall)
				}
				for _, d := range diffTotals("live", have.Categories, inMS(want.Categories)) {
					t.Error(d)
				}
				if atRisk := want.Iterations.AtRiskTime; want.Iterations.HasSaves && !sameNS(have.AtRisk, atRisk/ms) {
					t.Errorf("at risk %d, offline %d", have.AtRisk, atRisk)
				}
				if have.Late != 0 || have.LostWorkUnknown || have.Rough {
					t.Errorf("%+v", have)
				}
			})
		}
	}
}

func inMS(t account.Totals) map[string]int64 {
	out := make(map[string]int64)
	for c, ns := range t {
		out[string(c)] = ns / ms
	}
	return out
}

// TestLiveIsOffline: of random jobs whose records say what they must.
func TestLiveIsOffline(t *testing.T) {
	seeds(t, 200, func(t *testing.T, r *rand.Rand) {
		jobs := slices.DeleteFunc(randomJob(r), func(p process) bool { return p.Rank > 0 })
		dir := t.TempDir()
		var last *account.Live
		for i := range jobs {
			p := &jobs[i]
			if i > 0 {
				p.Start = max(p.Start, jobs[i-1].LastSeen) // one clock
			}
			p.LastSeen = max(p.LastSeen, p.Start)
			if p.End != job.NoEnd {
				p.End = p.LastSeen
			}
			p.spans = slices.DeleteFunc(p.spans, func(s job.Span) bool {
				// What has no end, or begins before its parent, or an
				// iteration in an iteration, is for the offline ledger.
				return s.Name == "training_single_iteration" && s.Step < 0 || s.Start < p.Start || s.Start >= p.LastSeen || s.Name == "stray" ||
					s.End == job.NoEnd && s.Name != "application" && s.Name != "training_loop"
			})
			for k := range p.spans {
				if s := &p.spans[k]; s.Name == "training_loop" && s.First < 0 {
					s.First = 0
				}
			}
			last = play(t, p, dir)
		}
		to := jobs[len(jobs)-1].LastSeen
		have := last.Snapshot(to)
		want := ledgerOf(jobs, nil, false).Report(account.Query{To: to, AsOf: to})
		if have.Rough {
			return
		}
		for _, d := range diffTotals("live", have.Categories, inMS(want.Categories)) {
			t.Error(d)
		}
	})
}

func TestLiveWindow(t *testing.T) {
	l, err := account.NewLive(account.LiveOptions{Start: 1000 * sec, Resolution: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	at := int64(1000 * sec)
	unknown := account.LiveSpan{Step: job.Unknown, First: job.Unknown}
	open := func(name string, parent account.Handle) account.Handle {
		s := unknown
		s.Name, s.Parent, s.Time = name, parent, at
		if name == "training_loop" {
			s.First = 0
		}
		return l.Start(&s)
	}
	app := open("application", 0)
	loop := open("training_loop", app)
	step := func(wait, work int64) {
		load := open("data_loading", loop)
		at += wait * sec
		l.End(load, at)
		it := open("training_single_iteration", loop)
		at += work * sec
		l.End(it, at)
		if err := l.Alive(at); err != nil {
			t.Fatal(err)
		}
	}
	step(1, 14) // the first compiles
	for range 10 {
		step(1, 4)
	}
	for range 10 {
		step(6, 4)
	}
	from, totals := l.Window(at, 100*time.Second)
	if from != at-100*sec {
		t.Errorf("the window is %d s long", (at-from)/sec)
	}
	want(t, "window", totals, account.Totals{account.Productive: 40 * sec, account.DataWait: 60 * sec})
	_, totals = l.Window(at, time.Hour)
	want(t, "all", totals, account.Totals{account.Productive: 84 * sec, account.DataWait: 71 * sec, account.Warmup: 10 * sec})
	l.End(loop, at)
	s := unknown
	s.Name, s.Parent, s.Time, s.First = "training_loop", app, at, 19 // two iterations back
	loop = l.Start(&s)
	_, totals = l.Window(at, 100*time.Second)
	want(t, "after a roll-back", totals, account.Totals{account.Productive: 32 * sec, account.LostWork: 8 * sec, account.DataWait: 60 * sec})
	s.Name, s.Parent, s.First = "training_single_iteration", loop, job.Unknown
	l.Start(&s)
	at += 30 * sec // it hangs
	_, totals = l.Window(at, 30*time.Second)
	want(t, "hanging", totals, account.Totals{account.Productive: 4 * sec, account.Stall: 26 * sec})
}

// TestLiveRestarts: totals survive restarts, and so does what they undo.
func TestLiveRestarts(t *testing.T) {
	dir := t.TempDir()
	unknown := account.LiveSpan{Step: job.Unknown, First: job.Unknown}
	at := int64(1000 * sec)
	attempt := func(first, n int64, saves ...int64) *account.Live {
		l, err := account.NewLive(account.LiveOptions{Start: at, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		s := unknown
		s.Name, s.Time, s.First = "training_loop", at, first
		loop := l.Start(&s)
		for i := range n {
			s := unknown
			s.Name, s.Time, s.Parent = "training_single_iteration", at, loop
			h := l.Start(&s)
			at += sec
			l.End(h, at)
			if slices.Contains(saves, first+i) {
				l.Saved(at, first+i)
			}
		}
		if err := l.Alive(at); err != nil {
			t.Fatal(err)
		}
		at += 10 * sec
		return l
	}
	attempt(0, 10000, 3999, 4999)
	attempt(5000, 3000, 6999)
	attempt(7000, 10)
	l := attempt(4000, 100)
	snap := l.Snapshot(at - 10*sec)
	want(t, "restarts", snap.Categories, account.Totals{
		account.Productive: 4100 * sec, account.LostWork: 9010 * sec, account.Downtime: 30 * sec,
	})
	if snap.Attempt != 4 || snap.Committed != 7000*sec || snap.LostWorkUnknown {
		t.Errorf("%+v", snap)
	}
	for given, want := range map[int]int{0: 5, 4: 5, 5: 5, 9: 9} { // numbers grow, whatever is given
		l, err := account.NewLive(account.LiveOptions{Start: at, Dir: dir, Attempt: given})
		if err != nil || l.Snapshot(at).Attempt != want {
			t.Errorf("attempt %d after 4 is %d, want %d, %v", given, l.Snapshot(at).Attempt, want, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "goodput-rank0.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := account.NewLive(account.LiveOptions{Start: at, Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "goodput-rank0.json is damaged") {
		t.Errorf("a damaged state: %v", err)
	}
	if l.Snapshot(at+sec).Wall != sec {
		t.Error("without the state there is no ledger")
	}
}

// More iterations than are kept for their median change nothing.
func TestLiveOfManyIterations(t *testing.T) {
	at := int64(1000 * sec)
	l, err := account.NewLive(account.LiveOptions{Start: at})
	if err != nil {
		t.Fatal(err)
	}
	loop := l.Start(&account.LiveSpan{Name: "training_loop", Time: at, Step: job.Unknown, First: 0})
	const n = 150_000
	for range n {
		h := l.Start(&account.LiveSpan{Name: "training_single_iteration", Time: at, Parent: loop, Step: job.Unknown, First: job.Unknown})
		at += sec
		l.End(h, at)
	}
	snap := l.Snapshot(at)
	want(t, "many", snap.Categories, account.Totals{account.Productive: n * sec})
}

// TestLiveResumeBeforeTheSave: after a resume, what was saved counts as committed
// up to the iteration before the one that the loop begins with, also where the
// numbers of its iterations leave that one out.
func TestLiveResumeBeforeTheSave(t *testing.T) {
	dir := t.TempDir()
	at := int64(1000 * sec)
	start := func() *account.Live {
		t.Helper()
		l, err := account.NewLive(account.LiveOptions{Start: at, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := start()
	train := func(first, from, to, long int64) {
		loop := l.Start(&account.LiveSpan{Name: "training_loop", Time: at, Step: job.Unknown, First: first})
		for n := from; n <= to; n++ {
			h := l.Start(&account.LiveSpan{Name: "training_single_iteration", Parent: loop, Time: at, Step: n, First: job.Unknown})
			at += long
			l.End(h, at)
		}
		l.End(loop, at)
	}
	train(0, 0, 9, sec)
	l.Saved(at, 9)
	train(5, 6, 8, 100*sec)
	if err := l.Alive(at); err != nil {
		t.Fatal(err)
	}
	if got := start().Snapshot(at).Committed; got != 10*sec { // what was said once is not taken back
		t.Errorf("%d s are committed, after a save of 10 s and a resume from its middle", got/sec)
	}
}

func TestLiveNil(t *testing.T) {
	var l *account.Live
	l.End(l.Start(&account.LiveSpan{}), 1)
	l.Saved(1, 1)
	if l.Alive(1) != nil || l.Close(1) != nil || len(l.Snapshot(1).Categories) != 0 {
		t.Error("a nil Live does something")
	}
}

// liveLoop prepares a Live in its training loop and gives a function that
// tells it of one iteration: six spans.
func liveLoop(tb testing.TB) func() {
	l, err := account.NewLive(account.LiveOptions{Start: 1000})
	if err != nil {
		tb.Fatal(err)
	}
	at := int64(1000)
	app := l.Start(&account.LiveSpan{Name: "application", Time: at, Step: job.Unknown, First: job.Unknown})
	loop := l.Start(&account.LiveSpan{Name: "training_loop", Parent: app, Time: at, Step: job.Unknown})
	n := int64(0)
	span := func(name string, parent account.Handle) {
		h := l.Start(&account.LiveSpan{Name: name, Parent: parent, Time: at, Step: job.Unknown, First: job.Unknown})
		at += 1000
		l.End(h, at)
	}
	return func() {
		span("data_loading", loop)
		it := l.Start(&account.LiveSpan{Name: "training_single_iteration", Parent: loop, Time: at, Step: n, First: job.Unknown})
		for _, name := range [...]string{"model_forward", "model_backward", "optimizer_update", "audit"} {
			span(name, it)
		}
		l.End(it, at)
		n++
	}
}

func TestLiveAllocatesNothing(t *testing.T) {
	step := liveLoop(t)
	step()
	if n := testing.AllocsPerRun(20000, step); n != 0 {
		t.Errorf("%v allocations for an iteration", n)
	}
}

// BenchmarkLive is the cost of one span, its start and its end.
func BenchmarkLive(b *testing.B) {
	step := liveLoop(b)
	step()
	b.ReportAllocs()
	for b.Loop() {
		step()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/6, "ns/span")
}

// BenchmarkLiveEnd is the cost of the end of a span, nested as they are in
// training.
func BenchmarkLiveEnd(b *testing.B) {
	l, err := account.NewLive(account.LiveOptions{Start: 1000})
	if err != nil {
		b.Fatal(err)
	}
	var handles [8]account.Handle
	at, spent, n := int64(1000), time.Duration(0), 0
	for b.Loop() {
		parent := account.Handle(0)
		for i := range handles {
			parent = l.Start(&account.LiveSpan{Name: "training_loop", Parent: parent, Time: at, Step: job.Unknown})
			handles[i] = parent
		}
		start := time.Now()
		for i := len(handles) - 1; i >= 0; i-- {
			at += 10
			l.End(handles[i], at)
		}
		spent += time.Since(start)
		n += len(handles)
	}
	b.ReportMetric(float64(spent.Nanoseconds())/float64(n), "ns/end")
}

// The state is written now and then, so that an attempt that is killed may have lived
// on after it: that time is unobserved and not downtime, as in the ledger from files.
func TestLiveAfterAKill(t *testing.T) {
	const sec, at = int64(1e9), int64(1e18)
	for name, tt := range map[string]struct {
		every            time.Duration
		ended            bool
		back             int64 // seconds after the state was written
		unobserved, down int64
	}{
		"not known":    {0, false, 15, 0, 15},
		"killed":       {10 * time.Second, false, 15, 10, 5},
		"back at once": {10 * time.Second, false, 4, 4, 0},
		"ended":        {10 * time.Second, true, 15, 0, 15},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			first, err := account.NewLive(account.LiveOptions{Start: at, Dir: dir, Every: tt.every})
			if err == nil {
				err = first.Alive(at + 20*sec)
			}
			if err == nil && tt.ended {
				err = first.Close(at + 20*sec)
			}
			if err != nil {
				t.Fatal(err)
			}
			start := at + (20+tt.back)*sec
			second, err := account.NewLive(account.LiveOptions{Start: start, Dir: dir, Every: tt.every})
			if err != nil {
				t.Fatal(err)
			}
			s := second.Snapshot(start + sec)
			if got := [2]int64{s.Categories[account.Unobserved] / sec, s.Categories[account.Downtime] / sec}; got != [2]int64{tt.unobserved, tt.down} || s.Wall != (21+tt.back)*sec {
				t.Errorf("unobserved and down are %v of %d s, want %v of %d", got, s.Wall/sec, [2]int64{tt.unobserved, tt.down}, 21+tt.back)
			}
			if _, w := second.Window(start+sec, time.Hour); w[account.Unobserved] != tt.unobserved*sec || w[account.Downtime] != tt.down*sec {
				t.Errorf("the window says %v, want %d and %d s", w, tt.unobserved, tt.down)
			}
		})
	}
}
