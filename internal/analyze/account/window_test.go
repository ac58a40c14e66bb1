package account_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/job"
)

// steady is a process of many iterations with saves. One iteration is far longer.
func steady(rank, attempt int, from, to int64, start int64, r *rand.Rand) *account.Builder {
	p := account.Process{Rank: rank, Attempt: attempt, Start: start, End: job.NoEnd}
	at, id := start+1e9, uint64(10)
	var all []job.Span
	span := func(name string, parent uint64, from, to, step int64) {
		id++
		all = append(all, job.Span{ID: id, Parent: parent, Name: name, Start: from, End: to, Step: step, First: job.Unknown, Thread: 1})
	}
	var saves [][2]int64
	begin := at
	for i := from; i < to; i++ {
		fetched := at + 2e6 + r.Int64N(1e6)
		span("data_loading", 2, at, fetched, job.Unknown)
		took := 40e6 + r.Int64N(4e6)
		if i == from || i == from+777 {
			took *= 12
		}
		end := fetched + took
		span("training_single_iteration", 2, fetched, end, i)
		at = end
		if (i+1)%275 == 0 {
			span("checkpoint_save_sync", 2, at, at+30e6, i+1)
			at += 30e6
			saves = append(saves, [2]int64{at, i})
		}
	}
	all = append(all, job.Span{ID: 2, Parent: 1, Name: "training_loop", Start: begin, End: job.NoEnd, Step: job.Unknown, First: from, Thread: 1},
		job.Span{ID: 1, Name: "application", Start: start, End: job.NoEnd, Step: job.Unknown, First: job.Unknown, Thread: 1})
	p.LastSeen = at
	b := account.NewBuilder(p)
	for i := range all {
		all[i].SetName(all[i].Cat, all[i].Name)
		b.Span(&all[i])
	}
	for _, s := range saves {
		if rank == 0 { // it saves for all
			b.Saved(s[0], s[1])
		}
	}
	return b
}

// TestWindows checks that sums, counts and disruptions of windows equal those of
// iterations.
func TestWindows(t *testing.T) {
	ledger := func(window bool) (*account.Ledger, int) {
		l := &account.Ledger{}
		bytes := 0
		ends := make(map[int64]bool)
		var all [3][2]*account.Builder
		for rank := range all {
			r := rand.New(rand.NewPCG(uint64(rank), 1))
			for attempt, from := range []int64{0, 3025} {
				b := steady(rank, attempt+1, from, from+3100, 1e15+int64(attempt)*4e11, r)
				if err := b.AddEnds(ends); err != nil {
					t.Fatal(err)
				}
				all[rank][attempt] = b
			}
		}
		for rank := range all {
			for attempt, b := range all[rank] {
				if window {
					var err error
					if b, err = b.Windows(ends); err != nil {
						t.Fatal(err)
					}
				}
				packed, err := b.AppendBinary(nil)
				if err != nil {
					t.Fatal(err)
				}
				bytes += len(packed)
				again := &account.Builder{}
				if err := again.UnmarshalBinary(packed); err != nil {
					t.Fatal(err)
				}
				mustAdd(l, account.Numbered(again, rank, attempt+1))
			}
		}
		return l, bytes
	}
	exact, full := ledger(false)
	windows, small := ledger(true)
	t.Logf("%.2f bytes an iteration, %.2f without windows", float64(small)/3/6200, float64(full)/3/6200)
	if 8*small > full {
		t.Errorf("%d bytes with windows, want at most an eighth of the %d without", small, full)
	}
	want, have := exact.Report(account.Query{}), windows.Report(account.Query{})
	if d := want.Disruptions; len(d) != 1 || d[0].Iterations != 75 {
		t.Fatalf("disruptions %+v, want one of 75 iterations", d)
	}
	// The median is a median of medians: figures derived from it may differ slightly.
	near := func(name string, a, b int64) {
		t.Helper()
		if d := a - b; d > a/200 || -d > a/200 {
			t.Errorf("%s: %d, want %d", name, b, a)
		}
	}
	for i := range want.Attempts {
		near("usual", want.Attempts[i].Usual, have.Attempts[i].Usual)
		want.Attempts[i].Usual, have.Attempts[i].Usual = 0, 0
	}
	for _, c := range []account.Category{account.Warmup, account.Productive, account.LostWork} {
		near(string(c), want.Categories[c], have.Categories[c])
	}
	if want.Categories.Sum() != have.Categories.Sum() {
		t.Errorf("%d in all, want %d", have.Categories.Sum(), want.Categories.Sum())
	}
	for _, c := range []account.Category{account.DataWait, account.CheckpointSave, account.Downtime, account.Other, account.Stall} {
		if want.Categories[c] != have.Categories[c] {
			t.Errorf("%s: %d, want %d", c, have.Categories[c], want.Categories[c])
		}
	}
	if !reflect.DeepEqual(want.Iterations, have.Iterations) {
		t.Errorf("%+v\nwant %+v", have.Iterations, want.Iterations)
	}
	if d := have.Disruptions; len(d) != 1 || d[0].Iterations != 75 || d[0].Down != want.Disruptions[0].Down {
		t.Errorf("%+v\nwant %+v", d, want.Disruptions)
	}
	if got := fmt.Sprint(have.Flags); got != fmt.Sprint(want.Flags) {
		t.Errorf("%s\nwant %v", got, want.Flags)
	}
}

// A timeline with a flipped bit is rejected, or a report can be made from it (digests also
// have a checksum). A truncated timeline is rejected.
func TestDamagedTimeline(t *testing.T) {
	for _, windows := range []bool{false, true} {
		r := rand.New(rand.NewPCG(3, 4))
		b := steady(0, 1, 0, 700, 1e15, r)
		if windows {
			var err error
			if b, err = b.Windows(nil); err != nil {
				t.Fatal(err)
			}
		}
		text, err := b.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		refused, n := 0, 0
		for at := 0; at < len(text); at += 1 + len(text)/1000 {
			if (&account.Builder{}).UnmarshalBinary(text[:at]) == nil {
				t.Errorf("UnmarshalBinary of %d of %d bytes: no error, want one", at, len(text))
			}
			broken := bytes.Clone(text)
			broken[at] ^= 1 << r.IntN(8)
			var again account.Builder
			n++
			if again.UnmarshalBinary(broken) != nil {
				refused++
				continue
			}
			var l account.Ledger
			if l.Add(&again) != nil {
				refused++
				continue
			}
			l.Report(account.Query{}) // does not panic
		}
		if refused == 0 || refused == n {
			t.Errorf("%d of %d damaged timelines are refused, want some but not all", refused, n)
		}
	}
}
