package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// operation is a row of the tables that StragglerAnalysis publishes: an
// operation of one pipeline stage of one data parallel rank. Times are seconds
// since the start of the step.
type operation struct {
	DP       int     `parquet:"dp_rank,optional"`
	Stage    int     `parquet:"stage,optional"`
	Step     int64   `parquet:"step,optional"`
	Type     string  `parquet:"optype,optional"`
	Start    float32 `parquet:"start_ts,optional"`
	Duration float32 `parquet:"duration,optional"`
	Seq      int     `parquet:"seq_id,optional"`
}

// operationStep simulates a step of a table without the delays of launches, as
// its authors define it: an operation starts when the previous one on its worker
// has ended, and a collective or a message takes its recorded time from the
// arrival of its last member. Worker w is the stage w mod stages of the data
// parallel rank w / stages.
type operationStep struct {
	dps, stages int
	ops         [][]waiting            // of each worker, by start
	messages    map[string]operation   // by message
	meetings    map[string][]operation // by the key of meet
	now         []float64              // of each worker
	arrived     map[string][]float64   // at a synchronization point or a message
	spans       [][]straggler.Span
}

// waiting is an operation that is not simulated yet.
type waiting struct {
	operation
	arrived bool // at its synchronization point
}

// message returns the key of a message.
func message(o operation, kind string) string {
	return fmt.Sprint(kind, o.Seq, " ", o.DP, " ", o.Stage)
}

// meet returns the key of a collective with its group and the size of the
// group. The size is 0 if o is not a collective.
func (s *operationStep) meet(o operation) (meeting, group string, size int) {
	switch o.Type {
	case "params-all-gather", "grads-reduce-scatter", "separate-grads-all-reduce":
		group, size = fmt.Sprintf("data parallel, stage %d", o.Stage), s.dps
	case "embedding-grads-all-reduce":
		if s.stages > 1 && (o.Stage == 0 || o.Stage == s.stages-1) {
			group, size = fmt.Sprintf("embedding %d", o.DP), 2
		}
	case "optimizer-clip-main-grad":
		size = s.dps * s.stages
	}
	return fmt.Sprint(o.Type, o.Seq, group), group, size
}

// span adds a span of worker w that lasts until end. Spans are two nanoseconds
// apart, so that a message follows the operation that ends when the message
// begins.
func (s *operationStep) span(w int, end float64, sp straggler.Span) {
	sp.Start, sp.End = int64(math.Round(s.now[w]*1e9))+1, int64(math.Round(end*1e9))-1
	sp.End = max(sp.Start, sp.End)
	s.now[w] = end
	s.spans[w] = append(s.spans[w], sp)
}

// transfer returns the time of o after the last of the group had started.
func transfer(o operation, group ...operation) float64 {
	last := o.Start
	for i := range group {
		last = max(last, group[i].Start)
	}
	return max(0, float64(o.Start)+float64(o.Duration)-float64(last))
}

// advance simulates the next operation of worker w. It returns false if the
// operation waits for another worker.
func (s *operationStep) advance(w int) bool {
	o := &s.ops[w][0]
	sp := straggler.Span{Phase: straggler.Other}
	if meeting, group, size := s.meet(o.operation); size > 0 {
		if !o.arrived {
			o.arrived, s.arrived[meeting] = true, append(s.arrived[meeting], s.now[w])
		}
		if len(s.arrived[meeting]) < size {
			return false
		}
		sp.Phase, sp.Group, sp.GroupSize = straggler.Communication, group, size
		s.span(w, slices.Max(s.arrived[meeting])+transfer(o.operation, s.meetings[meeting]...), sp)
		s.ops[w] = s.ops[w][1:]
		return true
	}
	pass, compute := strings.CutSuffix(o.Type, "-compute")
	if received, ok := s.messages[message(o.operation, pass+"-recv")]; ok && compute {
		sent := o.operation
		if sent.Stage--; pass == "backward" {
			sent.Stage += 2
		}
		key := message(sent, pass+"-send")
		if len(s.arrived[key]) == 0 {
			return false
		}
		s.span(w, max(s.now[w], s.arrived[key][0])+transfer(received, s.messages[key]), straggler.Span{Phase: straggler.Communication, Meeting: straggler.Receive})
	}
	if phase, ok := map[string]straggler.Phase{"forward-compute": straggler.Forward, "backward-compute": straggler.Backward, "optimizer": straggler.Optimizer}[o.Type]; ok {
		sp.Phase = phase
	}
	s.span(w, s.now[w]+float64(o.Duration), sp)
	if key := message(o.operation, pass+"-send"); compute && s.messages[key].Type != "" {
		s.arrived[key] = []float64{s.now[w]}
		s.span(w, s.now[w], straggler.Span{Phase: straggler.Communication, Meeting: straggler.Send})
	}
	s.ops[w] = s.ops[w][1:]
	return true
}

// replayOperations returns the steps of a table.
func replayOperations(t *testing.T, rows []operation) *straggler.State {
	t.Helper()
	dps, stages, steps := 0, 0, map[int64][]operation{}
	for _, o := range rows {
		dps, stages, steps[o.Step] = max(dps, o.DP+1), max(stages, o.Stage+1), append(steps[o.Step], o)
	}
	n := dps * stages
	st := straggler.New(&straggler.Options{WorldSize: n})
	begin := 1.0
	for _, number := range slices.Sorted(maps.Keys(steps)) {
		s := operationStep{dps: dps, stages: stages, ops: make([][]waiting, n), messages: map[string]operation{}, meetings: map[string][]operation{},
			now: slices.Repeat([]float64{begin}, n), arrived: map[string][]float64{}, spans: make([][]straggler.Span, n)}
		slices.SortStableFunc(steps[number], func(a, b operation) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Seq, b.Seq)) })
		for _, o := range steps[number] {
			if strings.HasSuffix(o.Type, "-send") || strings.HasSuffix(o.Type, "-recv") {
				s.messages[message(o, o.Type)] = o
				continue
			}
			if meeting, _, size := s.meet(o); size > 0 {
				s.meetings[meeting] = append(s.meetings[meeting], o)
			}
			w := o.DP*stages + o.Stage
			s.ops[w] = append(s.ops[w], waiting{operation: o})
		}
		for moved := true; moved; {
			moved = false
			for w := range n {
				for len(s.ops[w]) > 0 && s.advance(w) {
					moved = true
				}
			}
		}
		for w := range n {
			if len(s.ops[w]) > 0 {
				t.Fatalf("step %d: worker %d waits in %+v, which never ends", number, w, s.ops[w][0])
			}
			st.SetRank(w, straggler.Rank{Role: fmt.Sprintf("stage %d", w%stages)})
			st.Add(&straggler.Step{Rank: w, Number: number, Start: int64(begin * 1e9), End: int64(s.now[w] * 1e9), Spans: s.spans[w]})
		}
		begin = slices.Max(s.now)
	}
	return st
}

// pipeline returns the operations of two stages of four data parallel ranks.
// Each stage alternates forward and backward. The starts only determine the
// order of a worker's operations.
func pipeline(compute func(dp, stage int, step int64, batch int) float64) (rows []operation) {
	orders := [2][]string{{"f0", "f1", "b0", "f2", "b1", "f3", "b2", "b3"}, {"f0", "b0", "f1", "b1", "f2", "b2", "f3", "b3"}}
	for i := range 32 * 4 * 2 {
		step, dp, stage, at := int64(i/8), i/2%4, i%2, float32(0)
		add := func(kind string, seq int, duration float64) {
			rows = append(rows, operation{DP: dp, Stage: stage, Step: step, Type: kind, Start: at, Duration: float32(duration), Seq: seq})
		}
		for _, word := range orders[stage] {
			at++
			pass, batch, sends := "forward", int(word[1]-'0'), 0
			if word[0] == 'b' {
				pass, sends = "backward", 1
			}
			add(pass+"-compute", batch, compute(dp, stage, step, batch))
			at = float32(100 + batch) // of both ends of a message
			if stage == sends {
				add(pass+"-send", batch, 0.001)
			} else {
				add(pass+"-recv", batch, 0.001)
			}
			at = float32(len(rows))
		}
		for k, kind := range []string{"embedding-grads-all-reduce", "grads-reduce-scatter", "optimizer-clip-main-grad", "optimizer"} {
			at = float32(1e6 + k)
			add(kind, 0, 0.01)
		}
	}
	return rows
}

// TestOperations checks the replay of tables of pipeline operations: three that
// StragglerAnalysis publishes, whose authors name a worker, the sequences and a
// stage as the cause, and some that pipeline makes.
func TestOperations(t *testing.T) {
	published := func(name string) func(t *testing.T) []operation {
		return func(t *testing.T) []operation {
			t.Helper()
			path := filepath.Join("..", "..", "..", "shared", "data", "operations", "trace-"+name+".parquet")
			if _, err := os.Stat(path); err != nil {
				t.Skip("the published tables are absent: ", err)
			}
			rows, err := parquet.ReadFile[operation](path)
			if err != nil {
				t.Fatal(err)
			}
			return rows
		}
	}
	made := func(slow func(dp, stage int, step int64) float64) func(t *testing.T) []operation {
		return func(*testing.T) []operation {
			return pipeline(func(dp, stage int, step int64, batch int) float64 {
				return 0.1 * slow(dp, stage, step) * (1 + 0.004*float64((int64(dp*7+stage*5+batch*3)+step*11)%5-2))
			})
		}
	}
	for _, c := range []struct {
		name  string
		rows  func(t *testing.T) []operation
		kind  finding.Kind
		ranks []int
		cause string
		gain  float64
	}{
		{"published: a worker is slow", published("AR"), finding.SlowRanks, []int{0}, "compute", 2.02},
		{"published: sequences of different length", published("SE"), finding.Imbalance, nil, "backward", 1.24},
		{"published: a long last stage", published("ST"), finding.Fine, nil, "", 0},
		{"no fault", made(func(int, int, int64) float64 { return 1 }), finding.Fine, nil, "", 0},
		{"a worker is slow", made(func(dp, stage int, _ int64) float64 {
			if dp == 1 && stage == 0 {
				return 2
			}
			return 1
		}), finding.SlowRanks, []int{2}, "compute", 1.57},
		{"another worker in each step", made(func(dp, _ int, step int64) float64 {
			if step*7%4 == int64(dp) {
				return 1.5
			}
			return 1
		}), finding.Imbalance, nil, "compute", 1.32},
		{"a long last stage", made(func(_, stage int, _ int64) float64 { return 1 + 0.5*float64(stage) }), finding.Fine, nil, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := replayOperations(t, c.rows(t)).Verdict()
			if v.Kind != c.kind || !slices.Equal(v.Ranks, c.ranks) || string(v.Cause) != c.cause || math.Abs(v.Gain-c.gain) > 0.01 {
				t.Errorf("got %s of ranks %v, cause %q, gain %.2f (%s); want %s of ranks %v, cause %q, gain %.2f", v.Kind, v.Ranks, v.Cause, v.Gain, v.Sentence, c.kind, c.ranks, c.cause, c.gain)
			}
			if v.Coverage.ReplayError > 0.01 {
				t.Errorf("the replay differs from the steps by %.3f, want at most 0.01", v.Coverage.ReplayError)
			}
		})
	}
}
