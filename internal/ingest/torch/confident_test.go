package torch_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/ingest/torch"
)

// simJob is a job of two ranks; the clock of the second one differs.
type simJob struct {
	steps, numbered bool
	perStep, nSteps int
	gap, jitter     int // microseconds between collectives, and their variation
	pause, unsteady int // the same between steps
	offset, ppm     int
	lost            [2]map[int]bool

	late  map[int64]int // by the true start in microseconds: 1 or 0, -1 if it is too close
	first int
	span  int
}

func pick(rng *jitter, list ...int) int { return list[rng.next(len(list))] }

func newSimJob(rng *jitter) *simJob {
	j := &simJob{
		steps: rng.next(2) == 0, numbered: rng.next(4) == 0, perStep: 1 + rng.next(8), nSteps: 1 + rng.next(12),
		gap: pick(rng, 60, 300, 2000), jitter: pick(rng, 1, 5, 50, 1000), pause: pick(rng, 500, 10_000, 100_000), unsteady: pick(rng, 1, 20, 500, 5000),
		offset: pick(rng, 0, 30, 400, 5000, 2_000_000), ppm: pick(rng, 0, 20, 100), lost: [2]map[int]bool{{}, {}}, late: map[int64]int{}, first: 1000,
	}
	total := j.perStep * j.nSteps
	for range rng.next(4) {
		j.lost[rng.next(2)][rng.next(total)] = true
	}
	if !j.steps && rng.next(3) == 0 { // the profilers did not start together
		for i := range 1 + rng.next(3) {
			j.lost[1][i], j.lost[0][total-1-i] = true, true
		}
	}
	return j
}

// clock returns what a rank's clock shows at a true time.
func (j *simJob) clock(rank, t int) int {
	if rank == 0 {
		return t
	}
	return t + j.offset + (t-j.first)*j.ppm/1_000_000
}

func (j *simJob) sources(rng *jitter) []torch.Source {
	rows := make([][]string, 2)
	at, n := j.first, 0
	for s := range j.nSteps {
		begin := at
		for k := range j.perStep {
			at += j.gap + rng.next(j.jitter+1)
			end, late, by := at+200, rng.next(2), rng.next(150)
			j.late[stepStart+int64(at)] = late
			if by < 15 {
				j.late[stepStart+int64(at)] = -1
			}
			for rank := range 2 {
				start := at
				if rank == late {
					start += by
				}
				if j.lost[rank][n] {
					continue
				}
				args := fmt.Sprintf(`"Collective name":"allreduce","dtype":"Float","In msg nelems":%d,"Process Group Name":"0","correlation":%d`, 64<<(k%3), n+1)
				if j.numbered {
					args += fmt.Sprintf(`,"Seq":%d`, n)
				}
				b, e := j.clock(rank, start), j.clock(rank, end+rng.next(4))
				rows[rank] = append(rows[rank], commRow(b, e-b, args),
					hostRow("cuda_runtime", "cudaLaunchKernel", 100, j.clock(rank, at)-20, 3, fmt.Sprintf(`"correlation":%d`, n+1)))
			}
			at, n = end, n+1
		}
		for rank := range 2 {
			if j.steps {
				b, e := j.clock(rank, begin), j.clock(rank, at+50)
				rows[rank] = append(rows[rank], hostRow("user_annotation", fmt.Sprintf("ProfilerStep#%d", s+1), 100, b, e-b, ""))
			}
		}
		at += j.pause + rng.next(j.unsteady+1)
	}
	j.span = at - j.first
	return []torch.Source{rankTrace(0, 2, rows[0]...), rankTrace(1, 2, rows[1]...)}
}

// For any losses and however regular a job is: a rank is moved to the right
// position, or not at all, and no rank is blamed that was not last.
func TestAlignmentIsNeverConfidentlyWrong(t *testing.T) {
	rng := jitter(42)
	placed := 0
	const trials = 400 / raceSlow
	for trial := range trials {
		j := newSimJob(&rng)
		srcs := j.sources(&rng)
		if j.perStep*j.nSteps < 8 {
			continue
		}
		_, rep := importAll(t, srcs...)
		if len(rep.Ranks) == 0 || rep.Ranks[0].Confidence[1] == "none" {
			continue
		}
		placed++
		r := rep.Ranks[0]
		want := -time.Duration(j.offset+j.span/2*j.ppm/1_000_000) * time.Microsecond
		if !near(r.Estimated[1], want, time.Duration(20+j.span*j.ppm/1_000_000/3)*time.Microsecond) {
			t.Errorf("trial %d: estimated %s, want %s, %d matched, residual %s\n%+v", trial, r.Estimated[1], want, r.Matched, r.Residuals[1], *j)
		}
		for _, c := range r.Collectives {
			for at, late := range j.late {
				if d := c.Start.UnixMicro() - at; d > -15 && d < 15 && late >= 0 && c.LastRank >= 0 && c.LastRank != int64(late) {
					t.Errorf("trial %d: rank %d is blamed at %d, want %d\n%+v", trial, c.LastRank, at, late, *j)
				}
			}
		}
	}
	if placed*2 < trials {
		t.Errorf("%d of %d jobs were aligned, want half or more", placed, trials)
	}
}
