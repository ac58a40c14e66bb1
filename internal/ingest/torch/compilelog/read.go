// Package compilelog reads the structured logs that torch.compile writes when
// TORCH_TRACE names a directory (dedicated_log_torch_trace_*.log).
//
// Read reads a log once, one record at a time, calls a function with every
// compile phase and its wall-clock time, and returns the operator lists of the
// logged graphs, the cache keys and the table of fused kernels. Broken records
// are skipped and reported by byte offset.
//
// The logs have no run times of operators. Their estimates
// (estimated_runtime_ns) come from a model and are not read.
package compilelog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"time"

	"github.com/trainspan/trainspan/internal/ingest/torch/kineto"
	"github.com/trainspan/trainspan/internal/platform/fsread"
)

const (
	maxPayload = 64 << 20
	maxOps     = 1 << 20
)

// ErrNotLog is returned for input without a record in its first lines.
var ErrNotLog = errors.New("torchtrace: not a TORCH_TRACE log: no record at the start")

// IsLog reports whether a file begins like a log: a level letter, month and
// day, and a clock.
func IsLog(head []byte) bool { return fsread.IsLog(head) }

// Read reads the decompressed log in src and calls fn, which may be nil, with
// every finished phase. It returns what it has read together with the first
// error of src or fn. written is when the file was last written, zero if
// unknown: logs from before PyTorch 2.4 only have month, day and local time,
// and no phases without it.
func Read(src io.Reader, written time.Time, fn func(*Phase) error) (*Log, error) {
	rd := &reader{
		log:    &Log{Rank: -1, Records: map[string]int64{}, byID: map[string]*Compile{}},
		fn:     fn,
		stacks: map[int64][]Phase{},
		seenAt: map[string]int{},
	}
	err := rd.run(src)
	if err == nil {
		err = rd.undated(written)
	}
	for _, st := range rd.stacks {
		rd.log.Unmatched += int64(len(st))
	}
	if err == nil && rd.log.PID == 0 && len(rd.log.Records) == 0 {
		err = ErrNotLog
	}
	return rd.log, err
}

func (rd *reader) run(src io.Reader) error {
	rd.lines.Reset(src, nil)
	for {
		at := rd.lines.At()
		line, err := rd.lines.Line()
		switch {
		case err == nil:
			if err := rd.line(bytes.TrimRight(line, "\r"), at); err != nil {
				return err
			}
		case errors.Is(err, fsread.ErrLongLine):
			if rd.tooLong = true; !rd.open {
				rd.log.defect(at, err.Error())
			}
		case fsread.Torn(err):
			rd.log.defect(rd.lines.At(), "the log ends early: "+err.Error())
			return rd.finish()
		case errors.Is(err, io.EOF):
			return rd.finish()
		default:
			return fmt.Errorf("torchtrace: %w", err)
		}
	}
}

func (rd *reader) line(b []byte, offset int64) error {
	if len(b) > 0 && b[0] == '\t' {
		if !rd.open {
			return nil
		}
		if len(rd.payload)+len(b) > maxPayload {
			rd.tooLong = true
			return nil
		}
		if len(rd.payload) > 0 {
			rd.payload = append(rd.payload, '\n')
		}
		rd.payload = append(rd.payload, b[1:]...)
		return nil
	}
	if err := rd.finish(); err != nil {
		return err
	}
	tid, env, ok := splitRecord(b)
	if !ok {
		if len(bytes.TrimSpace(b)) > 0 && len(rd.log.Records) > 0 {
			rd.log.defect(offset, "neither a record nor a payload")
		}
		return nil
	}
	if !json.Valid(env) {
		rd.log.defect(offset, "the envelope is not valid JSON")
		return nil
	}
	if rd.log.PID == 0 {
		rd.log.PID = tid
	}
	rd.open, rd.offset, rd.tid, rd.tooLong = true, offset, tid, false
	if rd.log.Records["chromium_event"] == 0 {
		rd.clock(string(b[1:min(len(b), 21)]))
	}
	rd.envelope = append(rd.envelope[:0], env...)
	rd.payload = rd.payload[:0]
	return nil
}

// splitRecord splits "V0822 14:00:48.902000 1543231 file.py:12] {json}".
func splitRecord(b []byte) (tid int64, env []byte, ok bool) {
	if !IsLog(b) {
		return 0, nil, false
	}
	fields := bytes.SplitN(b, []byte(" "), 4)
	i := bytes.Index(b, []byte("] {"))
	if len(fields) < 4 || i < 0 {
		return 0, nil, false
	}
	tid, ok = kineto.ParseInt(fields[2])
	return tid, b[i+2:], ok
}

// finish handles the collected record.
func (rd *reader) finish() error {
	if !rd.open {
		return nil
	}
	rd.open = false
	if rd.tooLong {
		rd.log.defect(rd.offset, "the payload is too long")
		return nil
	}
	env := kineto.Args(rd.envelope)
	var kind string
	var detail []byte
	var autograd, frame, compile, attempt int64 = -1, -1, -1, 0
	artifact := ""
	env.Each(func(key, raw []byte) bool {
		switch string(key) {
		case "compiled_autograd_id":
			autograd = intOr(raw, -1)
		case "frame_id":
			frame = intOr(raw, -1)
		case "frame_compile_id":
			compile = intOr(raw, -1)
		case "attempt":
			attempt = intOr(raw, 0)
		case "rank":
			if v, ok := kineto.ParseInt(raw); ok {
				rd.log.Rank = v
			}
		case "has_payload", "stack":
		default:
			if kind == "" {
				kind, detail = string(key), raw
				if kind == "artifact" {
					artifact, _ = kineto.Args(raw).Text("name")
				}
			}
		}
		return true
	})
	name := kind
	if artifact != "" {
		name = artifact
	}
	if len(rd.log.Records) < 1000 || rd.log.Records[name] > 0 {
		rd.log.Records[name]++
	}
	id := ""
	if frame >= 0 && compile >= 0 {
		id = strconv.FormatInt(frame, 10) + "/" + strconv.FormatInt(compile, 10)
		if autograd >= 0 {
			id = "!" + strconv.FormatInt(autograd, 10) + "/" + id
		}
		if attempt > 0 {
			id += "_" + strconv.FormatInt(attempt, 10)
		}
	}
	rd.dates(id)
	if kind == "compilation_metrics" {
		return rd.metrics(detail, id)
	}
	return rd.record(kind, artifact, id)
}

func intOr(raw []byte, def int64) int64 {
	if v, ok := kineto.ParseInt(raw); ok {
		return v
	}
	return def
}

func (rd *reader) record(kind, artifact, id string) error {
	switch kind {
	case "chromium_event":
		return rd.chromium()
	case "aot_forward_graph", "aot_backward_graph", "aot_inference_graph", "inductor_post_grad_graph":
		rd.graph(kind, id)
	case "artifact":
		switch artifact {
		case "after_post_grad_graph":
			rd.graph(artifact, id)
		case "fx_graph_cache_hit", "fx_graph_cache_miss":
			rd.cacheKey(id)
		case "inductor_provenance_tracking_node_mappings", "inductor_triton_kernel_to_post_grad_nodes":
			rd.kernels(id)
		case "graph_execution":
			rd.executions()
		case "fx_graph_runnable":
			if m := versionPattern.FindSubmatch(rd.payload); m != nil {
				rd.log.TorchVersion = string(m[1])
			}
		}
	}
	return nil
}

var versionPattern = regexp.MustCompile(`torch version: ([^\s]+)`)

var opPattern = regexp.MustCompile(`(?m)^\s*(\w+)(?::[^=\n]*)? = (?:torch\.ops\.(\w+)\.(\w+)\.(\w+)\(|\w+\[\d+\])`)

func (rd *reader) graph(kind, id string) {
	if id == "" {
		return
	}
	c := rd.log.compile(id)
	list := &c.Post
	switch kind {
	case "aot_forward_graph":
		list = &c.Forward
	case "aot_backward_graph":
		list = &c.Backward
	case "aot_inference_graph":
		list = &c.Inference
	}
	for _, m := range opPattern.FindAllSubmatch(rd.payload, maxOps) {
		op := Op{Node: string(m[1]), Namespace: string(m[2]), Name: string(m[3]), Overload: string(m[4])}
		if op.Name == "" {
			op.Name = "getitem"
		}
		if len(*list) < maxOps {
			*list = append(*list, op)
		}
	}
}

func (rd *reader) cacheKey(id string) {
	if !json.Valid(rd.payload) {
		rd.log.defect(rd.offset, "the payload is not valid JSON")
		return
	}
	if key, ok := kineto.Args(rd.payload).Text("key"); ok && id != "" {
		c := rd.log.compile(id)
		c.CacheKeys = append(c.CacheKeys, key)
	}
}

func (rd *reader) kernels(id string) {
	if id == "" {
		return
	}
	if !json.Valid(rd.payload) {
		rd.log.defect(rd.offset, "the payload is not valid JSON")
		return
	}
	table := kineto.Args(rd.payload)
	if raw, ok := table.Raw("cppCodeToPost"); ok {
		table = kineto.Args(raw)
	}
	c := rd.log.compile(id)
	if c.Kernels == nil {
		c.Kernels = map[string][]string{}
	}
	table.Each(func(key, raw []byte) bool {
		var nodes []string
		kineto.Elements(raw, func(e []byte) bool {
			nodes = append(nodes, kineto.UnquoteText(e))
			return true
		})
		if nodes != nil {
			name := kineto.UnquoteText(key)
			c.Kernels[name] = append(c.Kernels[name], nodes...)
		}
		return true
	})
}

func (rd *reader) executions() {
	if !json.Valid(rd.payload) {
		rd.log.defect(rd.offset, "the payload is not valid JSON")
		return
	}
	raw, _ := kineto.Args(rd.payload).Raw("graph_execution_order")
	kineto.Elements(raw, func(e []byte) bool {
		if id, ok := kineto.Args(e).Text("compile_id"); ok && len(rd.log.Executions) < maxOps {
			rd.log.Executions = append(rd.log.Executions, id)
		}
		return true
	})
}

type reader struct {
	log    *Log
	fn     func(*Phase) error
	stacks map[int64][]Phase

	// For logs without dates.
	at     time.Time // of the record, without a year
	seen   []seen
	seenAt map[string]int

	lines fsread.Lines

	// The current record.
	open     bool
	offset   int64
	tid      int64
	envelope []byte
	payload  []byte
	tooLong  bool
}

// seen holds the clocks in front of the records of one compilation.
type seen struct {
	id          string
	tid         int64
	first, last time.Time // without year and time zone
}

// maxDepth is how deep phases of a thread nest.
const maxDepth = 1000
