package simjob

import (
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// epoch is the start of the steps, in microseconds since the Unix epoch.
const epoch int64 = 1793491201_000000

// clock returns what the clock of a rank shows at a time of the job.
func (j *Job) clock(rank int) func(int64) int64 {
	offset, drift := int64(0), 0.0
	if j.Offset != nil {
		offset = j.Offset(rank)
	}
	if j.Drift != nil {
		drift = j.Drift(rank) * 1e-6
	}
	return func(t int64) int64 { return epoch + t + offset + int64(math.Round(float64(t)*drift)) }
}

// process holds the records of one rank, on its own clock, roots first.
type process struct {
	rank       int
	host       string
	spans      []Span
	start, end int64 // end is Open if it was killed
	seen       int64
}

// The first spans of a process.
const (
	rootSpan = iota
	initSpan
	trainSpan
	firstSpan
)

func (j *Job) process(res *Result, rank int) *process {
	show := j.clock(rank)
	perHost := j.PerHost
	if perHost == 0 {
		perHost = 8
	}
	p := &process{rank: rank, host: fmt.Sprintf("node%02d", rank/perHost), start: show(-1_000_000), end: Open}
	last := res.Ends[len(res.Ends)-1]
	over, done := Open, Open
	if res.Killed != Open {
		last = max(last, res.Killed)
	} else {
		done, over = show(last+1000), show(last+2000)
		p.end = over
	}
	p.seen = show(last)
	args := []arg{{"train_iterations_start", 0}}
	if j.Layout == PP && rank < j.Ranks {
		args = append([]arg{{"pipeline_stage", rank % j.inner()}}, args...)
	}
	p.spans = append(p.spans,
		Span{ID: rootSpan, Parent: -1, Cat: "ai_root", Name: "ai_root", Start: p.start, End: over, Launch: -1, Thread: hostTID, Step: -1, Deep: 1},
		Span{ID: initSpan, Parent: rootSpan, Cat: "compute", Name: "compute.init", Start: show(-900_000), End: show(-100_000), Launch: -1, Thread: hostTID, Step: -1, Deep: 2},
		Span{ID: trainSpan, Parent: rootSpan, Cat: "pipeline", Name: "train", Start: show(0), End: done, Launch: -1, Thread: hostTID, Step: -1, Deep: 2, args: args})
	if rank >= len(res.Spans) { // it has no work
		return p
	}
	for _, s := range res.Spans[rank] {
		s.ID += firstSpan
		switch {
		case s.Parent >= 0:
			s.Parent += firstSpan
		case s.Thread == hostTID:
			s.Parent = trainSpan
		}
		if s.Thread == hostTID {
			s.Deep += 2
		}
		s.Start = show(s.Start)
		if s.End != Open {
			s.End = show(s.End)
		}
		if s.Launch >= 0 {
			s.Launch = show(s.Launch)
		}
		p.spans = append(p.spans, s)
	}
	return p
}

// processes returns the number of processes of the job.
func (j *Job) processes() int {
	if j.Idle {
		return j.Ranks + 1
	}
	return j.Ranks
}

// Feed runs the job and passes the spans of each process to a sink, as a reader
// of its files would, in the order of their starts.
func (j *Job) Feed(open func(*job.Process) job.Sink) (*job.Job, error) {
	res := j.Run()
	out := &job.Job{Ranks: j.processes()}
	for r := range j.processes() {
		rec := j.process(res, r)
		p := &job.Process{Rank: r, RankKnown: true, Attempt: 1, AttemptKnown: true, WorldSize: j.processes(), Host: rec.host, PID: int64(100 + r),
			Start: rec.start * 1000, End: job.NoEnd, LastSeen: rec.seen * 1000, Heartbeats: true, Training: true}
		if rec.end != Open {
			p.End, p.LastSeen = rec.end*1000, rec.end*1000
		}
		sink := open(p)
		for i := range rec.spans {
			sp := rec.spans[i].run()
			p.Steps.Add(&sp)
			p.Spans++
			sink.Span(&sp)
		}
		p.Steps.All()
		if err := sink.Close(); err != nil {
			return nil, err
		}
		out.Processes = append(out.Processes, p)
	}
	return out, nil
}

func (s *Span) run() job.Span {
	sp := job.Span{ID: uint64(s.ID + 1), Parent: uint64(s.Parent + 1), Start: s.Start * 1000, End: job.NoEnd, Step: job.Unknown, Epoch: job.Unknown, First: job.Unknown, Thread: s.Thread}
	sp.SetName(s.Cat, s.Name)
	if s.End != Open {
		sp.End = s.End * 1000
	}
	if s.Step >= 0 {
		sp.SetStep(int64(s.Step))
	}
	if s.Launch >= 0 && sp.Class == vocab.ClassDeviceWork {
		sp.Launch = (s.Start - s.lag()) * 1000
	}
	for _, a := range s.args {
		switch a.name {
		case "pg":
			sp.Group = a.value.(string)
		case "group_size":
			sp.GroupSize = a.value.(int)
		case "pipeline_stage":
			sp.Role = "stage " + strconv.Itoa(a.value.(int))
		case "train_iterations_start":
			sp.First = int64(a.value.(int))
		case "tokens":
			sp.Tokens = int64(a.value.(int))
		case "background":
			sp.Background = true
		case "current_iteration":
			sp.Step = int64(a.value.(int))
		}
	}
	return sp
}

// lag returns the time from the launch to the start of a device span, as the
// client records it.
func (s *Span) lag() int64 { return max(s.Start-s.Launch, 1) }

// Write runs the job and writes a trace file for each process. The same job gives the
// same bytes.
func (j *Job) Write(dir string) (*Result, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	res := j.Run()
	for r := range j.processes() {
		path := filepath.Join(dir, fmt.Sprintf("a0-rank%d.pfw", r))
		if err := os.WriteFile(path, j.process(res, r).text(j.processes()), 0o644); err != nil {
			return nil, err
		}
	}
	return res, nil
}

// text returns the trace file of a process.
func (p *process) text(world int) []byte {
	h := fnv.New64a()
	h.Write([]byte(p.host))
	hash, pid := fmt.Sprintf("%016x", h.Sum64()), 100+p.rank
	// Ids of spans begin at 2; other records get ids after them.
	var b strings.Builder
	id := len(p.spans) + 1
	line := func(n int, name, cat string, tid int64, rest string, args string) {
		fmt.Fprintf(&b, "{\"id\":%d,\"name\":%q,\"cat\":%q,\"pid\":%d,\"tid\":%d,%s,\"args\":{\"hhash\":%q%s}}\n", n, name, cat, pid, tid, rest, hash, args)
	}
	meta := func(name, args string) {
		id++
		line(id, name, "dftracer", int64(pid), `"ph":"M"`, args)
	}
	b.WriteString("[\n")
	meta("HH", fmt.Sprintf(`,"name":%q,"value":%q`, p.host, hash))
	line(1, "start", "dftracer", int64(pid), fmt.Sprintf(`"ts":%d,"dur":0,"ph":"X"`, p.start),
		fmt.Sprintf(`,"level":1,"p_idx":-1,"version":"2.0.0","ppid":1,"attempt":0,"job_id":"j","session_tag":"job","world_size":%d`, world))
	meta("PR", fmt.Sprintf(`,"name":"rank","value":"%d"`, p.rank))
	for i := range p.spans {
		s := &p.spans[i]
		parent := -1
		if s.Parent >= 0 {
			parent = s.Parent + 2
		}
		tail := ""
		if s.Step >= 0 {
			tail += fmt.Sprintf(`,"step":%d`, s.Step)
		}
		for _, a := range s.args {
			switch v := a.value.(type) {
			case string:
				tail += fmt.Sprintf(",%q:%q", a.name, v)
			case int:
				tail += fmt.Sprintf(",%q:%d", a.name, v)
			}
		}
		if s.Launch >= 0 {
			tail += fmt.Sprintf(`,"lag_us":%d`, s.lag())
		}
		at := fmt.Sprintf(`,"level":%d,"p_idx":%d`, s.Deep, parent)
		if s.End == Open {
			id++
			line(id, "CM", "dftracer", s.Thread, `"ph":"M"`, at+fmt.Sprintf(`,"name":"span.begin","value":%q,"begin_id":%d,"begin_cat":%q,"begin_ts":%d`, s.Name, s.ID+2, s.Cat, s.Start)+tail)
			continue
		}
		line(s.ID+2, s.Name, s.Cat, s.Thread, fmt.Sprintf(`"ts":%d,"dur":%d,"ph":"X"`, s.Start, s.End-s.Start), at+tail)
	}
	meta("CM", fmt.Sprintf(`,"name":"heartbeat","value":"%d"`, p.seen))
	if p.end != Open {
		id++
		line(id, "end", "dftracer", int64(pid), fmt.Sprintf(`"ts":%d,"dur":0,"ph":"X"`, p.end), fmt.Sprintf(`,"level":1,"p_idx":-1,"num_events":%d`, id))
		b.WriteString("]\n")
	}
	return []byte(b.String())
}
