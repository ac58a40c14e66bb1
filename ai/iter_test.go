package ai_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/ai"
	"github.com/trainspan/trainspan/dftracer"
)

// described returns events as "name" and "name#count".
func described(events []dftracer.Event) string {
	var list []string
	for _, ev := range events {
		if c := arg(ev, "count"); c != "-" {
			list = append(list, ev.Name+"#"+c)
		} else {
			list = append(list, ev.Name)
		}
	}
	return strings.Join(list, " ")
}

func three(yield func(int) bool) { _ = yield(0) && yield(1) && yield(2) }

func TestIteratorsRecordWaitsAndBlocks(t *testing.T) {
	const all = "fetch.iter#1 fetch.block#1 fetch.iter#2 fetch.block#2 fetch.iter#3 fetch.block#3"
	errPair := errors.New("bad pair")
	for name, c := range map[string]struct {
		run  func(context.Context, *ai.Tree)
		want string
	}{
		"seq": {func(ctx context.Context, t *ai.Tree) {
			for range ai.Iter(ctx, t.DataLoader.Fetch, three) {
			}
		}, all},
		"empty": {func(ctx context.Context, t *ai.Tree) {
			for range ai.Iter(ctx, t.DataLoader.Fetch, func(func(int) bool) {}) {
			}
		}, ""},
		"seq with context": {func(ctx context.Context, t *ai.Tree) {
			for ctx := range ai.IterContext(ctx, t.DataLoader.Fetch, three) {
				t.Compute.Start(ctx).End()
			}
		}, "fetch.iter#1 fetch.block#1 compute fetch.iter#2 fetch.block#2 compute fetch.iter#3 fetch.block#3 compute"},
		"seq2": {func(ctx context.Context, t *ai.Tree) {
			for range ai.Iter2(ctx, t.DataLoader.Fetch, slices.All([]string{"a", "b", "c"})) {
			}
		}, all},
		"slice": {func(ctx context.Context, t *ai.Tree) {
			for i, s := range ai.IterSlice(ctx, t.DataLoader.Fetch, []string{"0", "1", "2"}) {
				if s != string(rune('0'+i)) {
					panic("wrong element")
				}
			}
		}, all},
		"channel": {func(ctx context.Context, t *ai.Tree) {
			ch := make(chan int, 3)
			ch <- 1
			ch <- 2
			ch <- 3
			close(ch)
			for range ai.IterChan(ctx, t.DataLoader.Fetch, ch) {
			}
		}, all},
		"count": {func(ctx context.Context, t *ai.Tree) {
			for range t.DataLoader.Fetch.Range(ctx, 3) {
			}
		}, all},
		"count with context": {func(ctx context.Context, t *ai.Tree) {
			for range t.DataLoader.Fetch.RangeContext(ctx, 3) {
			}
		}, all},
		"twice": {func(ctx context.Context, t *ai.Tree) {
			seq := t.DataLoader.Fetch.Range(ctx, 1)
			for range seq {
			}
			for range seq {
			}
			t.DataLoader.Fetch.Start(ctx).End() // without a count
		}, "fetch.iter#1 fetch.block#1 fetch.iter#1 fetch.block#1 fetch"},
		"break": {func(ctx context.Context, t *ai.Tree) {
			for i := range t.DataLoader.Fetch.Range(ctx, 3) {
				if i == 1 {
					break
				}
			}
		}, "fetch.iter#1 fetch.block#1 fetch.iter#2 fetch.block#2"},
		"return": {func(ctx context.Context, t *ai.Tree) {
			for range t.DataLoader.Fetch.Range(ctx, 3) {
				return
			}
		}, "fetch.iter#1 fetch.block#1"},
		"outer break": {func(ctx context.Context, t *ai.Tree) {
		outer:
			for range t.Pipeline.Epoch.Range(ctx, 2) {
				for range t.DataLoader.Fetch.Range(ctx, 2) {
					break outer
				}
			}
		}, "epoch.iter#1 epoch.block#1 fetch.iter#1 fetch.block#1"},
		"panic": {func(ctx context.Context, t *ai.Tree) {
			defer func() { _ = recover() }()
			for range t.DataLoader.Fetch.Range(ctx, 3) {
				panic("body")
			}
		}, "fetch.iter#1 fetch.block#1"},
		"pulled and stopped": {func(ctx context.Context, t *ai.Tree) {
			next, stop := iter.Pull(t.DataLoader.Fetch.Range(ctx, 3))
			next()
			stop()
		}, "fetch.iter#1 fetch.block#1"},
		"no waits": {func(ctx context.Context, t *ai.Tree) {
			for range t.Pipeline.Epoch.Range(ctx, 2, &ai.IterOptions{NoIter: true}) {
			}
		}, "epoch.block#1 epoch.block#2"},
		"no blocks": {func(ctx context.Context, t *ai.Tree) {
			for range t.Pipeline.Epoch.Range(ctx, 2, &ai.IterOptions{NoBlock: true}) {
			}
		}, "epoch.iter#1 epoch.iter#2"},
		"renamed": {func(ctx context.Context, t *ai.Tree) {
			for range t.Pipeline.Epoch.Range(ctx, 1, &ai.IterOptions{IterName: "wait", BlockName: "yield"}) {
			}
		}, "wait#1 yield#1"},
		"disabled": {func(ctx context.Context, t *ai.Tree) {
			t.DataLoader.Disable()
			for range t.DataLoader.Fetch.Range(ctx, 2) {
			}
		}, ""},
		"disabled in between": {func(ctx context.Context, t *ai.Tree) {
			for i := range t.DataLoader.Fetch.Range(ctx, 3) {
				if i == 0 {
					t.DataLoader.Disable()
				} else {
					t.DataLoader.Enable()
				}
			}
		}, "fetch.iter#1 fetch.block#1 fetch.iter#3 fetch.block#3"},
		"error of a pair": {func(ctx context.Context, t *ai.Tree) {
			for range ai.Iter2(ctx, t.DataLoader.Fetch, func(yield func(int, error) bool) {
				_ = yield(1, nil) && yield(2, errPair)
			}) {
			}
		}, "fetch.iter#1 fetch.block#1 fetch.iter#2 fetch.block#2"},
	} {
		t.Run(name, func(t *testing.T) {
			got := record(t, c.run)
			if described(got) != c.want {
				t.Errorf("events are %s, want %s", described(got), c.want)
			}
			for _, ev := range got {
				failed := name == "panic" && ev.Name == "fetch.block" || name == "error of a pair" && ev.Name == "fetch.block" && arg(ev, "count") == "2"
				if status := arg(ev, "otel.status_code"); (status == "ERROR") != failed {
					t.Errorf("%s#%s has status %s, want ERROR: %v", ev.Name, arg(ev, "count"), status, failed)
				}
			}
		})
	}
}

func TestIteratorPassesContextAndTime(t *testing.T) {
	got := record(t, func(ctx context.Context, tree *ai.Tree) {
		for ctx, epoch := range tree.Pipeline.Epoch.RangeContext(ctx, 2) {
			for ctx := range ai.IterContext(ctx, tree.DataLoader.Fetch, three) {
				tree.Compute.Start(ctx, ai.Epoch(epoch)).End()
			}
		}
	})
	blocks := make(map[int64]dftracer.Event)
	for _, ev := range got {
		blocks[int64(ev.ID)] = ev
	}
	for _, ev := range got {
		if ev.Name != "compute" {
			continue
		}
		fetch := blocks[ev.Parent]
		epoch := blocks[fetch.Parent]
		if fetch.Name != "fetch.block" || epoch.Name != "epoch.block" || ev.Level != 3 || ev.TID != epoch.TID {
			t.Errorf("ancestors of compute are %s, %s on level %d; want fetch.block, epoch.block, 3, on one lane", fetch.Name, epoch.Name, ev.Level)
		}
	}
	var before dftracer.Event
	for _, ev := range got {
		if ev.Name == "fetch.block" && before.Name == "fetch.iter" && before.End() > ev.TS {
			t.Error("a block begins before the end of the wait, want after")
		}
		before = ev
	}
}
