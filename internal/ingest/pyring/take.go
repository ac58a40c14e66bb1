package pyring

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/pyring/ring"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/platform/proc"
	"github.com/trainspan/trainspan/internal/platform/redact"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/onelogger"
	"github.com/trainspan/trainspan/internal/tracefile/place"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
	"github.com/trainspan/trainspan/telemetry"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// call replays one callback.
func (p *process) call(name string, at int64, args []byte) {
	v := values{}
	if len(args) > 0 && json.Unmarshal(args, &v) != nil {
		p.log.Warn("cannot decode the arguments of a callback", "callback", name, "see", helptopic.PythonCalls)
		return
	}
	if p.calls == nil {
		p.calls = &calls{log: p.log, own: make(map[int64]*telemetry.Span)}
		p.relay.replays(p.calls)
	}
	c := p.calls
	c.n++
	c.now.Store(max(at, c.now.Load()))
	switch name {
	case "configure_provider": // it is made when it has something to record, after functions have returned their values
		c.given = v
		return
	case "values":
		for key, value := range v {
			c.answer.Store(key, value)
		}
		return
	}
	if !c.opened {
		c.opened = true
		if err := c.open(p.source); err != nil {
			p.log.Warn("cannot replay the callbacks of a Python process", "error", err, "see", helptopic.PythonCalls)
		} else {
			p.relay.use(c.tel, &c.sent, p.nodes.byID)
		}
	}
	if c.tel == nil {
		return
	}
	defer p.relay.flush(c.tel)
	err := c.replay(name, at, v, args)
	if line, ok := v["line"].(string); ok && !c.ended {
		p.log.Warn("invalid call of one-logger's API", "callback", name, "line", line, "error", err, "see", helptopic.PythonCalls)
	} else if err != nil && !errors.Is(err, telemetry.ErrClosed) {
		p.log.Debug("a callback of a Python process failed", "callback", name, "error", err)
	}
}

// iterated replays the callback at the end of an iteration, which is the end of
// its span.
func (p *process) iterated(r *ring.Record) {
	var args []byte
	if r.Failed {
		v := values{"exception_type": "Exception"}
		_ = json.Unmarshal(r.Args, &v) // without arguments, the number is all that is known
		args, _ = json.Marshal(v)      // texts and numbers: it never fails
	}
	p.call("on_training_single_iteration_end", r.End, args)
}

// take handles a record.
func (p *process) take(r *ring.Record) {
	p.last = max(p.last, r.Start, r.End)
	if r.Depth > maxDepth {
		p.limit("spans of a Python process nest deeper than 1,024 levels, often because a start has no stop: deeper spans are written on one level")
		r.Depth = maxDepth
	}
	t := p.thread(r.Thread)
	var n *node
	if r.Name != nil {
		n = p.nodes.nodeOf(r.Name)
	}
	switch r.Kind {
	case ring.KindFile:
		p.files.take(r.Value, r.Args)
	case ring.KindSpan:
		if r.Call {
			p.files.call(t, n, r)
			return
		}
		p.span(t, n, r)
		if r.Next >= 0 {
			p.places.set(r.End, -1, r.Next)
		}
		if n.iteration {
			p.iterated(r)
		}
	case ring.KindBegin:
		p.begin(t, span{node: n, start: r.Start, args: appendObject(nil, r.Args)}, r.Depth)
	case ring.KindPoint:
		p.end(t, span{node: n, start: r.Start, end: r.Start, thread: t, args: p.arguments(n, r.Start, p.args[:0], r.Args)}, r.Depth, false)
	case ring.KindPosition:
		if n != nil {
			n.update(r.Epoch, r.Value, nil)
		}
		if n == nil || tracefile.KeyCat(n.key) == rootCategory && !n.off {
			p.places.set(r.Start, r.Epoch, r.Value)
		}
	case ring.KindUpdate:
		if !n.update(-1, -1, appendObject(nil, r.Args)) {
			p.limit("a Python process passed more than 128 arguments, or more than 16 KiB, to update: further arguments are dropped")
		}
	case ring.KindState:
		n.eachNode(func(n *node) { n.off = r.Value == 0 })
	case ring.KindDrop:
		n.spanEnded(t, r.Start)
		p.drop(t, span{node: n, start: r.Start, end: r.End, thread: t}, r.Depth, r.Crossed)
	case ring.KindNote:
		if tracefile.KeyCat(n.key) == entityCategory {
			p.w.Write(&dftracer.Event{Phase: dftracer.PhaseMetadata, Cat: dftracer.CatDFTracer, Name: tracefile.KeyName(n.key), TID: p.ring.PID, Args: appendObject(nil, r.Args)})
			return
		}
		p.note(tracefile.KeyName(n.key), r)
	case ring.KindCall:
		if r.Value > 0 { // an iteration, with its number from 1
			p.places.set(r.Start, -1, r.Value-1)
		}
		p.call(tracefile.KeyName(n.key), r.Start, r.Args)
	}
}

// note writes metadata with a time.
func (p *process) note(name string, r *ring.Record) {
	args := appendObject(nil, r.Args)
	hideSecrets(args)
	tracefile.WriteCustom(p.w, name, fmt.Sprint(r.Start/1000), args...)
}

// hideSecrets replaces what may be a secret in an exception's message and
// source line.
func hideSecrets(args []dftracer.Arg) {
	for i := range args {
		if key := args[i].Key; key == onelogger.ExceptionMessage || key == vocab.ExceptionCode {
			args[i] = dftracer.String(key, redact.Text(tracefile.Str(args[i])))
		}
	}
}

// span handles an ended span.
func (p *process) span(t *thread, n *node, r *ring.Record) {
	n.spanEnded(t, r.Start)
	if n.group != "" && r.Value > p.numbers[n.group] {
		if p.numbers == nil {
			p.numbers = make(map[string]int64)
		}
		p.numbers[n.group] = r.Value
	}
	asked := r.Start
	if r.Thread.Lane {
		asked -= r.Value
	}
	args := p.arguments(n, asked, appendValue(p.args[:0], n, r), r.Args)
	if r.Failed {
		hideSecrets(args)
	}
	args = place.AppendStatus(args, r.Failed, false, "")
	if r.ArgsLost {
		args = append(args, dftracer.Int("args_lost", 1))
	}
	p.end(t, span{node: n, start: r.Start, end: r.End, thread: t, args: args}, r.Depth, r.Crossed)
}

// source is the ring buffer of a process, and the identity of the process.
type source struct {
	o     *Options
	log   *slog.Logger
	ring  *ring.Ring
	num   int64 // the process id as this process knows it; 0 if it is not visible
	plain bool  // the trace is not compressed
	id    outputs.Identity
	last  int64           // the latest time in the ring buffer
	told  map[string]bool // bounds that were logged
	news  func()          // reads new metadata of the process
	file  string          // the file name of its trace
	fails atomic.Bool     // the trace cannot be written at present

	mu    sync.Mutex
	stats Stats // guarded by mu
}

// name returns the file name of the trace. If the program named its log file
// and no folder for ring buffers was set, it is that name.
func (p *source) name() string {
	stem := strings.TrimSuffix(filepath.Base(p.ring.Path), ring.Ext)
	for range 2 { // pid and start
		stem = stem[:max(strings.LastIndexByte(stem, '-'), 0)]
	}
	if stem == "" || stem == "py" {
		stem = "trace"
	}
	if p.id.RankKnown && p.ring.Forks == 0 {
		stem = fmt.Sprintf("%s-rank%d", stem, p.id.Rank.Get())
	}
	ext := ".pfw.gz"
	if p.plain {
		ext = ".pfw"
	}
	return fmt.Sprintf("%s-%d%s", stem, p.id.PID, ext)
}

// identify determines the identity of the process from its launcher's
// variables.
func (p *source) identify(who ring.Who) {
	ranks, err := config.DetectRanks(func(name string) (string, bool) {
		v, ok := who.Env[name]
		return v, ok
	})
	if err != nil {
		p.log.Warn("cannot determine the rank of a Python process", "error", err, "see", helptopic.RankUnknown)
	}
	p.id = outputs.Identity{
		Host: who.Host, PID: int(p.ring.PID), Version: identity.Version, Ranks: ranks, RankKnown: ranks.Rank.IsSet(),
	}
	if p.id.Job == "" {
		p.id.Job = p.o.Job
	}
	if !p.id.Attempt.IsSet() && p.o.Attempt >= 0 {
		p.id.Attempt = config.Value(p.o.Attempt)
	}
}

// alive reports whether the process still runs.
func (p *source) alive() bool { return proc.Alive(int(p.num), p.ring.Ticks) }

// wrote notes a written file.
func (p *source) wrote(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Files = append(p.stats.Files, path)
}

// limit logs once that a bound was reached.
func (p *source) limit(what string) {
	if !p.told[what] {
		p.told[what] = true
		p.log.Warn(what, "see", helptopic.Python)
	}
}
