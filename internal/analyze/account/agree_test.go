package account_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/straggler/fromjob"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// answers holds the ledger and the steps of one job.
type answers struct {
	mu       sync.Mutex
	builders map[*job.Process]*account.Builder
	steps    *fromjob.Collector
}

func newAnswers() *answers {
	return &answers{builders: make(map[*job.Process]*account.Builder), steps: fromjob.New(nil)}
}

func (a *answers) open(p *job.Process) job.Sink {
	s, b := account.OpenSink(p, nil, a.steps.Reader(p))
	a.mu.Lock()
	defer a.mu.Unlock()
	a.builders[p] = b
	return s
}

// compare checks that the ledger and the diagnosis have the same waits for each rank and
// each compared step, and returns the number of waits.
func (a *answers) compare(t *testing.T, j *job.Job) (waits int) {
	t.Helper()
	l := account.LedgerOf(j, func(p *job.Process) *account.Builder { return a.builders[p] }, nil)
	wrong := 0
	for _, at := range a.steps.Attempts(j) {
		_, table := at.State.Judge()
		if table == nil {
			continue
		}
		want := account.WaitsOf(l, at.Number)
		for s, number := range table.Steps {
			for r, rank := range table.Ranks {
				wait, _ := table.Communication(r, s)
				got, want := int64(0), want[account.RankStep{Rank: rank, Step: number}]
				if wait == wait { // NaN without a recorded meeting
					got = int64(wait)
				}
				if want > 0 {
					waits++
				}
				if got != want {
					if wrong++; wrong <= 3 {
						t.Errorf("attempt %d, rank %d, step %d: the diagnosis has a wait of %d ns, want %d as in the ledger", at.Number, rank, number, got, want)
					}
				}
			}
		}
	}
	if wrong > 3 {
		t.Errorf("%d waits differ, want at most 3", wrong)
	}
	return waits
}

// otherWaits lists the layouts whose waits the diagnosis infers and the ledger does not; see
// docs/explain/goodput.md.
var otherWaits = map[simjob.Layout]string{
	simjob.Buckets: "a host that waits for collectives of another thread, in no span",
	simjob.GPU:     "devices", simjob.GPUTP: "devices",
}

// TestWaitsAgree generates random jobs and checks that the waits of the ledger equal those of
// the diagnosis, to the nanosecond.
func TestWaitsAgree(t *testing.T) {
	most := 4
	if testing.Short() {
		most = 2
	}
	waits := 0
	for i, family := range simjob.Families() {
		if family == "unrecorded" {
			continue // the diagnosis infers collectives that have no records
		}
		for k := range most {
			j := simjob.Draw(uint64(100+most*i+k), family)
			if _, other := otherWaits[j.Layout]; other {
				continue
			}
			t.Run(j.Name, func(t *testing.T) {
				a := newAnswers()
				of, err := j.Feed(a.open)
				if err != nil {
					t.Fatal(err)
				}
				waits += a.compare(t, of)
			})
		}
	}
	if waits < 1000 {
		t.Errorf("%d waits were compared, want 1000", waits)
	}
}

// TestWaitsAgreeOnCorpora makes the same check on jobs of programs that share no code with
// this project.
func TestWaitsAgreeOnCorpora(t *testing.T) {
	otherwise := map[string]string{
		"kineto6-device":    "a profile",
		"nospans-compute15": "the diagnosis concludes that backward holds a wait", "second-ddp-nowait-input": "the same",
	}
	jobs, err := filepath.Glob("../../../../shared/data/[fw]*/jobs/*")
	if err != nil || len(jobs) == 0 {
		t.Skip("the corpora are not here")
	}
	for _, path := range jobs {
		name := filepath.Base(path)
		if info, err := os.Stat(path); err != nil || !info.IsDir() || otherwise[name] != "" || strings.HasPrefix(name, "jsonl") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			set, err := job.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			a := newAnswers()
			of, err := set.Read(a.open)
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range of {
				a.compare(t, j)
			}
		})
	}
}
