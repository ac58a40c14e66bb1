package browser_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// stretch makes the series of a report as long as those of a job of 100,000
// steps: no series grows beyond these lengths with the job, which package
// report tests.
func stretch(r *report.Report) {
	const points, columns, rows, checkpoints = 900, 240, 128, 1000
	rng := rand.New(rand.NewPCG(1, 2))
	longer := func(x report.Numbers) report.Numbers {
		out := make(report.Numbers, points)
		for i := range out {
			out[i] = x[i%len(x)] * (1 + 0.1*rng.Float64())
		}
		return out
	}
	s := r.Series.Steps
	s.Per, s.Median, s.Max, s.Wait, s.Transfer = 112, longer(s.Median), longer(s.Max), longer(s.Wait), longer(s.Transfer)
	for name, x := range s.Phases {
		s.Phases[name] = longer(x)
	}
	s.Step, s.Attempt = make([]int64, points), make([]int, points)
	for i := range points {
		s.Step[i], s.Attempt[i] = int64(i*s.Per), 1+i/300
	}
	h := r.Series.Heat
	h.Steps, h.Cells = make([]int64, columns), make([]byte, rows*columns)
	for i := range columns {
		h.Steps[i] = int64(i * 417)
	}
	for i := range h.Cells {
		h.Cells[i] = byte(rng.IntN(256))
	}
	for i := 0; len(r.Checkpoints) < checkpoints; i++ {
		c := r.Checkpoints[i]
		c.Step += 1000
		c.Blocking += rng.Int64N(1e6)
		r.Checkpoints = append(r.Checkpoints, c)
	}
	r.Steps.Count, r.Steps.Compared = 100_000, 100_000
}

// TestLargePage checks that the page of 1,024 ranks and 100,000 steps stays
// small, and draws all of its charts. It logs the time for that.
func TestLargePage(t *testing.T) {
	dir := t.TempDir()
	if _, err := (simjob.Attempt{Ranks: 1024, Steps: 40, Plain: true, Slow: 700, Extra: [4]float64{12}, Save: 10}).Write(filepath.Join(dir, "job")); err != nil {
		t.Fatal(err)
	}
	r := readReport(t, filepath.Join(dir, "job"), "1,024 ranks and 100,000 steps")
	stretch(r)
	if len(r.Series.Heat.Ranks) != 128 || len(r.Ranks) != 1024 {
		t.Fatalf("%d rows of the heat map, %d ranks; want 128, 1024", len(r.Series.Heat.Ranks), len(r.Ranks))
	}
	address := save(t, dir, r)
	info, err := os.Stat(filepath.Join(dir, "report.html"))
	if err != nil || info.Size() > 1<<20 {
		t.Errorf("page has %d bytes, want at most 1 MiB: %v", info.Size(), err)
	}
	ctx := browser(t)
	bad := watch(t, ctx)
	for range 3 {
		open(t, ctx, address)
		// From the start of the navigation until the last chart is drawn.
		ms := eval[float64](t, ctx, `Math.max(...performance.getEntriesByName("drawn").map(e => e.startTime))`)
		t.Logf("%d KB, all charts drawn after %v", info.Size()/1000, time.Duration(ms*float64(time.Millisecond)).Round(time.Millisecond))
	}
	if n := eval[int](t, ctx, `performance.getEntriesByName("drawn").length`); n != 7 {
		t.Errorf("%d charts were drawn, want 7", n)
	}
	for chart, colours := range eval[map[string]int](t, ctx, pictures) {
		if colours < 2 {
			t.Errorf("%s has not drawn: %d colours, want at least 2", chart, colours)
		}
	}
	for _, b := range bad() {
		t.Errorf("error in the browser: %s", b)
	}
}
