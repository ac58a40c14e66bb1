// Package optrace reads traces that hold one row for each operation of a worker: the
// format in which StragglerAnalysis publishes jobs, a table in Parquet with a file
// of YAML beside it. A worker is a rank of data parallelism on a stage of a pipeline.
// Such a trace has no spans of a host and needs no model of them, so that it becomes
// steps for internal/replay at once, and the slowdown by the definition of those who
// publish them stands beside the verdict.
package optrace

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/parquet-go/parquet-go"
)

// Row is an operation. Times are seconds since the step began on the first worker, by
// clocks that agree.
type Row struct {
	DP       int32   `parquet:"dp_rank,optional"`
	Stage    int32   `parquet:"stage,optional"`
	Step     int64   `parquet:"step,optional"`
	Type     string  `parquet:"optype,optional"`
	Start    float32 `parquet:"start_ts,optional"`
	Duration float32 `parquet:"duration,optional"`
	Seq      int32   `parquet:"seq_id,optional"`
	Chunk    int32   `parquet:"mc,optional"`
}

// columns are those that make a table one of operations.
var columns = []string{"dp_rank", "stage", "step", "optype", "start_ts", "duration", "seq_id", "mc"}

// ErrOther is why a table is not read: it holds something else.
var ErrOther = errors.New("a table in Parquet with other columns")

// Trace is the operations of a job.
type Trace struct {
	ops    []op
	dp, pp int
	steps  []int64
	shards int // workers that share the batch of one: data parallel within a worker
}

type op struct {
	dp, stage  int
	step       int // index
	kind       string
	seq        int
	start, end float64
}

// Read reads a table.
func Read(path string) (*Trace, error) {
	rows, err := readRows(path)
	if err != nil {
		return nil, err
	}
	t := &Trace{shards: 1}
	for i := range rows {
		t.steps = append(t.steps, rows[i].Step)
	}
	slices.Sort(t.steps)
	t.steps = slices.Compact(t.steps)
	for i := range rows {
		r := &rows[i]
		switch {
		case r.DP < 0 || r.Stage < 0 || r.DP > 1<<20 || r.Stage > 1<<12 || r.Seq < 0 || !(r.Start >= 0 && r.Start < 1e6) || !(r.Duration >= 0 && r.Duration < 1e6):
			return nil, fmt.Errorf("row %d cannot be: %+v", i+1, *r)
		case r.Chunk > 0:
			return nil, fmt.Errorf("row %d: stages with several chunks of the model are not supported", i+1)
		}
		t.dp, t.pp = max(t.dp, int(r.DP)+1), max(t.pp, int(r.Stage)+1)
		step, _ := slices.BinarySearch(t.steps, r.Step)
		t.ops = append(t.ops, op{int(r.DP), int(r.Stage), step, r.Type, int(r.Seq), float64(r.Start), float64(r.Start) + float64(r.Duration)})
	}
	if len(t.ops) == 0 {
		return nil, errors.New("the table has no rows")
	}
	if n := int64(t.dp) * int64(t.pp) * int64(len(t.steps)); n > int64(len(t.ops)) {
		return nil, fmt.Errorf("%d rows cannot be of %d x %d workers and %d steps", len(t.ops), t.dp, t.pp, len(t.steps))
	}
	return t, t.readMeta(path)
}

func readRows(path string) ([]Row, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	pf, err := parquet.OpenFile(f, info.Size())
	if err != nil {
		return nil, err
	}
	for _, c := range columns {
		if _, ok := pf.Schema().Lookup(c); !ok {
			return nil, fmt.Errorf("%w: %s is missing", ErrOther, c)
		}
	}
	return parquet.Read[Row](f, info.Size())
}

// readMeta reads the YAML beside trace-NAME.parquet: meta-NAME.yaml.
func (t *Trace) readMeta(path string) error {
	name, ok := strings.CutPrefix(strings.TrimSuffix(filepath.Base(path), ".parquet"), "trace-")
	if !ok {
		return nil
	}
	meta := filepath.Join(filepath.Dir(path), "meta-"+name+".yaml")
	text, err := os.ReadFile(meta)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var m struct {
		DP     int `yaml:"dp_size"`
		PP     int `yaml:"pp_size"`
		Shards int `yaml:"dsp_size"`
	}
	if err == nil {
		err = yaml.Unmarshal(text, &m)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", meta, err)
	case m.DP != 0 && m.DP != t.dp || m.PP != 0 && m.PP != t.pp:
		return fmt.Errorf("%s: says %d x %d workers, the table has %d x %d", meta, m.DP, m.PP, t.dp, t.pp)
	}
	t.shards = max(m.Shards, 1)
	return nil
}

// The operations.
const (
	forward        = "forward-compute"
	backward       = "backward-compute"
	forwardSend    = "forward-send"
	forwardRecv    = "forward-recv"
	backwardSend   = "backward-send"
	backwardRecv   = "backward-recv"
	gatherParams   = "params-all-gather"
	scatterGrads   = "grads-reduce-scatter"
	layerNorm      = "layernorm-grads-all-reduce"
	embedding      = "embedding-grads-all-reduce"
	separateGrads  = "separate-grads-all-reduce"
	clipGrads      = "optimizer-clip-main-grad"
	optimizer      = "optimizer"
	collectGarbage = "gc"
)

var messages = []string{forwardSend, forwardRecv, backwardSend, backwardRecv}

// worker returns a number to the stage of a rank of data parallelism.
func (t *Trace) worker(dp, stage int) int { return dp*t.pp + stage }

// byWorker returns the operations of each worker in a step, in the order of their start.
func (t *Trace) byWorker() [][][]*op {
	out := make([][][]*op, len(t.steps))
	for s := range out {
		out[s] = make([][]*op, t.dp*t.pp)
	}
	for i := range t.ops {
		o := &t.ops[i]
		list := &out[o.step][t.worker(o.dp, o.stage)]
		*list = append(*list, o)
	}
	for s := range out {
		for _, list := range out[s] {
			slices.SortStableFunc(list, func(a, b *op) int {
				return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.seq, b.seq), cmp.Compare(b.kind, a.kind))
			})
		}
	}
	return out
}
