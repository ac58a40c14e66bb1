package optrace_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/optrace"
	"github.com/trainspan/trainspan/internal/replay"
)

// job makes the table of a pipeline of two stages that runs one forward, one backward.
type job struct {
	dp, batches, steps int
	compute            func(dp, stage, step, batch int, forward bool) float64
}

// table simulates the job. A message takes 1 ms, a collective 10.
func (j job) table() (rows []optrace.Row) {
	orders := [2][]int{} // of batches; backward ones are -1-batch
	orders[0] = []int{0}
	for b := range j.batches {
		if b > 0 {
			orders[0] = append(orders[0], b)
			orders[0] = append(orders[0], -b)
		}
		orders[1] = append(orders[1], b, -1-b)
	}
	orders[0] = append(orders[0], -j.batches)
	for step := range j.steps {
		done := make([][2]float64, j.dp)
		var all []optrace.Row
		add := func(dp, stage int, kind string, seq int, start, end float64) {
			all = append(all, optrace.Row{DP: int32(dp), Stage: int32(stage), Step: int64(10 * step), Type: kind, Seq: int32(seq), Start: float32(start), Duration: float32(end - start)})
		}
		for dp := range j.dp {
			var ends [2]map[int]float64 // of what each stage computed
			at, next := [2]float64{0.01, 0.01}, [2]int{}
			for stage := range 2 {
				ends[stage] = map[int]float64{}
				add(dp, stage, "params-all-gather", 0, 0, 0.01)
			}
			for next[0] < len(orders[0]) || next[1] < len(orders[1]) {
				for stage := range 2 {
					for next[stage] < len(orders[stage]) {
						what := orders[stage][next[stage]]
						forward, batch, kind := what >= 0, what, "forward"
						if !forward {
							batch, kind = -1-what, "backward"
						}
						if begin := at[stage]; forward == (stage == 1) { // it needs what the other stage made
							made, ok := ends[1-stage][what]
							if !ok {
								break
							}
							at[stage] = max(at[stage], made+0.001)
							add(dp, stage, kind+"-recv", batch, begin, at[stage])
							add(dp, 1-stage, kind+"-send", batch, made, at[stage])
						}
						end := at[stage] + j.compute(dp, stage, step, batch, forward)
						add(dp, stage, kind+"-compute", batch, at[stage], end)
						ends[stage][what], at[stage] = end, end
						next[stage]++
					}
				}
			}
			done[dp] = at
		}
		ready := [2]float64{} // of the gradients of a stage
		for dp := range j.dp {
			meet := max(done[dp][0], done[dp][1]) + 0.01
			for stage := range 2 {
				add(dp, stage, "gc", 0, done[dp][stage], done[dp][stage])
				add(dp, stage, "layernorm-grads-all-reduce", 0, done[dp][stage], done[dp][stage])
				add(dp, stage, "embedding-grads-all-reduce", 0, done[dp][stage], meet)
				ready[stage] = max(ready[stage], meet+0.01)
			}
		}
		for dp := range j.dp {
			for stage := range 2 {
				end := max(ready[0], ready[1]) + 0.01
				add(dp, stage, "grads-reduce-scatter", 0, max(done[dp][0], done[dp][1])+0.01, ready[stage])
				add(dp, stage, "optimizer-clip-main-grad", 0, ready[stage], end)
				add(dp, stage, "optimizer", 0, end, end+0.02)
			}
		}
		rows = append(rows, all...)
	}
	return rows
}

func write[T any](t *testing.T, name string, rows []T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := parquet.WriteFile(path, rows); err != nil {
		t.Fatal(err)
	}
	return path
}

// usual is the work of a worker with a little noise that is the same each time.
func usual(dp, stage, step, batch int, forward bool) float64 {
	d := 0.1
	if !forward {
		d = 0.2
	}
	return d * (1 + 0.004*float64((dp*7+stage*5+step*11+batch*3)%5-2))
}

// TestReplay: the slowdown is that of the definition, and the verdict names who makes it.
func TestReplay(t *testing.T) {
	for _, c := range []struct {
		name    string
		compute func(dp, stage, step, batch int, forward bool) float64
		kind    replay.Kind
		ranks   []int
		low, s  float64 // bounds
		stage   string  // that makes most
	}{
		{"nothing", usual, replay.Fine, nil, 0.99, 1.03, ""},
		{"a worker is twice as slow", func(dp, stage, step, batch int, forward bool) float64 {
			d := usual(dp, stage, step, batch, forward)
			if dp == 1 && stage == 0 {
				d *= 2
			}
			return d
		}, replay.SlowRanks, []int{2}, 1.4, 1.5, "0"},
		{"the last stage has more to do", func(dp, stage, step, batch int, forward bool) float64 {
			return usual(dp, stage, step, batch, forward) * (1 + 0.5*float64(stage))
		}, replay.Fine, nil, 1.1, 1.25, "1"},
		{"another one each time", func(dp, stage, step, batch int, forward bool) float64 {
			d := usual(dp, stage, step, batch, forward)
			if step*7%4 == dp {
				d *= 1.5
			}
			return d
		}, replay.Imbalance, nil, 1.25, 1.4, ""},
	} {
		tr, err := optrace.Read(write(t, "trace-x.parquet", job{dp: 4, batches: 4, steps: 32, compute: c.compute}.table()))
		if err != nil {
			t.Fatal(err)
		}
		s, st, err := tr.Replay()
		if err != nil {
			t.Fatal(err)
		}
		v := st.Verdict()
		if s.S < c.low || s.S > c.s || math.Abs(s.Step/s.Recorded-1) > 0.005 || c.stage != "" && s.Stages[0].Name != c.stage {
			t.Errorf("%s: slowdown %.3f, want %.2f to %.2f, a step %.4f s and as recorded %.4f, stages %v", c.name, s.S, c.low, c.s, s.Step, s.Recorded, s.Stages)
		}
		if v.Kind != c.kind || !slices.Equal(v.Ranks, c.ranks) || v.Coverage.ReplayError > 0.01 {
			t.Errorf("%s: %s (error of the replay %.3f)", c.name, v.Sentence, v.Coverage.ReplayError)
		}
	}
}

// TestByHand: two ranks without a pipeline, of which one takes a second longer in
// forward: (0.1 + 2 + 2 + 0.1 + 0.1) / (0.1 + 1.5 + 2 + 0.1 + 0.1).
func TestByHand(t *testing.T) {
	var rows []optrace.Row
	for dp := range int32(2) {
		at := float32(0)
		forward := 1 + float32(dp)
		for _, o := range []struct {
			kind string
			end  float32
		}{{"params-all-gather", 0.1}, {"forward-compute", 0.1 + forward}, {"backward-compute", 2.1 + forward}, {"grads-reduce-scatter", 4.2}, {"optimizer-clip-main-grad", 4.2}, {"optimizer", 4.3}} {
			rows = append(rows, optrace.Row{DP: dp, Step: 3, Type: o.kind, Start: at, Duration: o.end - at})
			at = o.end
		}
	}
	tr, err := optrace.Read(write(t, "t.parquet", rows))
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := tr.Replay()
	if err != nil || math.Abs(s.S-4.3/3.8) > 1e-4 || s.Kinds[0].Name != "forward-compute" || s.Ranks[0].Name != "1" {
		t.Errorf("%v, %+v", err, s)
	}
}

func TestRefused(t *testing.T) {
	good := job{dp: 2, batches: 2, steps: 2, compute: usual}.table()
	other := write(t, "t.parquet", []struct {
		A int64 `parquet:"a"`
	}{{1}})
	if _, err := optrace.Read(other); !errors.Is(err, optrace.ErrOther) {
		t.Errorf("other columns: %v", err)
	}
	chunks := slices.Clone(good)
	chunks[5].Chunk = 1
	if _, err := optrace.Read(write(t, "t.parquet", chunks)); err == nil || !strings.Contains(err.Error(), "row 6") {
		t.Errorf("chunks of a model: %v", err)
	}
	wrong := slices.Clone(good)
	wrong[3].Duration = float32(math.NaN())
	if _, err := optrace.Read(write(t, "t.parquet", wrong)); err == nil || !strings.Contains(err.Error(), "row 4") {
		t.Errorf("a duration that is no number: %v", err)
	}
	if _, err := optrace.Read(write(t, "t.parquet", good[:0])); err == nil {
		t.Error("a table without rows is read")
	}
	path := write(t, "trace-a.parquet", good)
	for text, want := range map[string]string{"dp_size: 2\npp_size: 2\ndsp_size: 2\n": "", "dp_size: 3\n": "says 3 x 0", "dp_size: [": "meta-a.yaml"} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), "meta-a.yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := optrace.Read(path); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	twice := slices.Clone(good)
	twice[len(twice)-1] = twice[len(twice)-2]
	for name, rows := range map[string][]optrace.Row{"one is there twice, another not": twice, "one is missing": good[:len(good)-1], "nothing is computed": slices.DeleteFunc(slices.Clone(good), func(r optrace.Row) bool { return strings.HasSuffix(r.Type, "-compute") })} {
		tr, err := optrace.Read(write(t, "t.parquet", rows))
		if err == nil {
			_, _, err = tr.Replay()
		}
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
