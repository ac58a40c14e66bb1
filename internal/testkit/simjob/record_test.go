package simjob_test

import (
	"cmp"
	"slices"
	"sync"
	"testing"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// kept has the spans of one process; an open one only if it never ended.
type kept struct {
	p     *job.Process
	spans map[uint64]job.Span
}

func (k *kept) Span(s *job.Span) {
	if old, ok := k.spans[s.ID]; !ok || old.End == job.NoEnd {
		k.spans[s.ID] = *s
	}
}
func (k *kept) Event(*job.Event) {}
func (k *kept) Close() error     { return nil }

// TestFeedEqualsFiles checks that sinks get the same spans from Feed as from
// the files.
func TestFeedEqualsFiles(t *testing.T) {
	for _, family := range simjob.Families() {
		for seed := range uint64(2) { // 1 has idle threads
			if testing.Short() && seed == 0 {
				continue
			}
			j := simjob.Draw(seed, family)
			j.Ranks, j.Idle = min(j.Ranks, 8), seed == 1
			j.Faults = slices.DeleteFunc(j.Faults, func(f simjob.Fault) bool { return len(f.Ranks) > 0 && slices.Max(f.Ranks) >= j.Ranks })
			dir := t.TempDir()
			if _, err := j.Write(dir); err != nil {
				t.Fatal(err)
			}
			set, err := job.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			gather := func(read func(func(*job.Process) job.Sink) (int, error)) []*kept {
				var all []*kept
				var lock sync.Mutex
				n, err := read(func(p *job.Process) job.Sink {
					k := &kept{p, map[uint64]job.Span{}}
					lock.Lock()
					defer lock.Unlock()
					all = append(all, k)
					return k
				})
				if err != nil || n != 1 {
					t.Fatalf("%s: %d jobs, want 1: %v", j.Name, n, err)
				}
				slices.SortFunc(all, func(a, b *kept) int { return cmp.Compare(a.p.Rank, b.p.Rank) })
				return all
			}
			read := gather(func(open func(*job.Process) job.Sink) (int, error) {
				jobs, err := set.Read(open)
				return len(jobs), err
			})
			fed := gather(func(open func(*job.Process) job.Sink) (int, error) {
				_, err := j.Feed(open)
				return 1, err
			})
			if len(read) != len(fed) {
				t.Fatalf("%s: %d processes in the files, want %d as fed", j.Name, len(read), len(fed))
			}
			for i, f := range fed {
				r := read[i]
				if f.p.Rank != r.p.Rank || f.p.Start != r.p.Start || f.p.End != r.p.End || f.p.LastSeen != r.p.LastSeen || f.p.WorldSize != r.p.WorldSize || f.p.Steps.Count != r.p.Steps.Count || f.p.Attempt != r.p.Attempt || r.p.Bad+r.p.Aside > 0 {
					t.Errorf("%s: fed %+v\nread %+v, want the same", j.Name, f.p, r.p)
				}
				if len(f.spans) == 0 {
					t.Errorf("%s: no spans were fed", j.Name)
				}
				// Ids differ by the other records in a file.
				if a, b := list(f), list(r); !slices.Equal(a, b) {
					n := 0
					for n < min(len(a), len(b))-1 && a[n] == b[n] {
						n++
					}
					t.Fatalf("%s rank %d: %d spans fed, %d read\nfed %+v\nread %+v, want the same", j.Name, f.p.Rank, len(a), len(b), a[n], b[n])
				}
			}
		}
	}
}

// list returns the spans in order, with the names of parents in place of their
// ids.
func list(k *kept) (out []job.Span) {
	for _, s := range k.spans {
		if s.Parent != 0 {
			s.Role += " in " + k.spans[s.Parent].Name
		}
		s.ID, s.Parent = 0, 0
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b job.Span) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Thread, b.Thread), cmp.Compare(b.End, a.End), cmp.Compare(a.Name, b.Name))
	})
	return out
}
