package pydrain

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/assemble"
	"github.com/trainspan/trainspan/internal/dft"
	"github.com/trainspan/trainspan/internal/grammar"
	"github.com/trainspan/trainspan/internal/ring"
	"github.com/trainspan/trainspan/internal/secret"
	"github.com/trainspan/trainspan/internal/see"
	"github.com/trainspan/trainspan/telemetry"
)

// call replays one callback.
func (p *process) call(name string, at int64, args []byte) {
	v := values{}
	if len(args) > 0 && json.Unmarshal(args, &v) != nil {
		p.log.Warn("the arguments of a callback cannot be read", "callback", name, "see", see.PythonCalls)
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
	case "configure_provider": // it is made when it has something to record: then functions have given their values
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
			p.log.Warn("callbacks of a Python process are not replayed", "error", err, "see", see.PythonCalls)
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
		p.log.Warn("a call of one-logger's API is wrong", "callback", name, "line", line, "error", err, "see", see.PythonCalls)
	} else if err != nil && !errors.Is(err, telemetry.ErrClosed) {
		p.log.Debug("callback of a Python process", "callback", name, "error", err)
	}
}

// iterated replays the callback at the end of an iteration, which the end of its span is.
func (p *process) iterated(r *ring.Record) {
	var args []byte
	if r.Failed {
		v := values{"exception_type": "Exception"}
		_ = json.Unmarshal(r.Args, &v) // without, that is all that is known
		args, _ = json.Marshal(v)      // of texts and numbers: it never fails
	}
	p.call("on_training_single_iteration_end", r.End, args)
}

// take takes a record.
func (p *process) take(r *ring.Record) {
	p.last = max(p.last, r.Start, r.End)
	if r.Depth > maxDepth {
		p.limit("spans of a Python process nest deeper than 1,024, as where starts have no stop: what is deeper is written side by side")
		r.Depth = maxDepth
	}
	t := p.thread(r.Thread)
	var n *node
	if r.Name != nil {
		n = p.nodes.of(r.Name)
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
		if n == nil || dft.KeyCat(n.key) == rootCategory && !n.off {
			p.places.set(r.Start, r.Epoch, r.Value)
		}
	case ring.KindUpdate:
		if !n.update(-1, -1, appendObject(nil, r.Args)) {
			p.limit("update was given more than 128 arguments, or more than 16 KiB, by a Python process: the further ones are left out")
		}
	case ring.KindState:
		n.each(func(n *node) { n.off = r.Value == 0 })
	case ring.KindDrop:
		n.over(t, r.Start)
		p.drop(t, span{node: n, start: r.Start, end: r.End, thread: t}, r.Depth, r.Crossed)
	case ring.KindNote:
		if dft.KeyCat(n.key) == entityCategory {
			p.w.Write(&dftracer.Event{Phase: dftracer.PhaseMetadata, Cat: dftracer.CatDFTracer, Name: dft.KeyName(n.key), TID: p.ring.PID, Args: appendObject(nil, r.Args)})
			return
		}
		p.note(dft.KeyName(n.key), r)
	case ring.KindCall:
		if r.Value > 0 { // an iteration, and its number from 1
			p.places.set(r.Start, -1, r.Value-1)
		}
		p.call(dft.KeyName(n.key), r.Start, r.Args)
	}
}

// note writes metadata with a time. What an exception says may hold a secret.
func (p *process) note(name string, r *ring.Record) {
	args := appendObject(nil, r.Args)
	for i := range args {
		if args[i].Key == grammar.ExceptionMessage {
			args[i] = dftracer.String(grammar.ExceptionMessage, secret.Text(dft.Str(args[i])))
		}
	}
	dft.WriteCustom(p.w, name, fmt.Sprint(r.Start/1000), args...)
}

// span takes a span that ended.
func (p *process) span(t *thread, n *node, r *ring.Record) {
	n.over(t, r.Start)
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
	args = assemble.AppendStatus(args, r.Failed, false, "")
	if r.ArgsLost {
		args = append(args, dftracer.Int("args_lost", 1))
	}
	p.end(t, span{node: n, start: r.Start, end: r.End, thread: t, args: args}, r.Depth, r.Crossed)
}
