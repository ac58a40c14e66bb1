package main

import (
	"context"
	"strings"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/place"
)

// rewriter writes the events of one trace to another: ids are increased by a
// constant, so that they do not collide with those of the new trace, and hashes
// become those of the new dialect.
type rewriter struct {
	w     *dftracer.Writer
	from  *survey
	base  uint64
	pids  map[job.Key]int64 // new ids of processes; nil keeps them
	hosts map[string]string
	files map[string]rehashed
	args  []dftracer.Arg
	piece string // split's name of the new trace
}

type rehashed struct {
	hash tracefile.Hash
	ok   bool
}

func newRewriter(w *dftracer.Writer, from *survey, base uint64) *rewriter {
	return &rewriter{w: w, from: from, base: base, hosts: make(map[string]string), files: make(map[string]rehashed)}
}

// firstID returns a number above every id that a new trace assigns to its own
// records when it takes over those of the given traces.
func firstID(all ...*survey) uint64 {
	metadata := 0
	for _, s := range all {
		metadata += s.metadata
	}
	if metadata > 100_000 {
		return 1 << 40 // names may have to be written more than once
	}
	n := uint64(1000)
	for n < uint64(metadata)+200 {
		n *= 10
	}
	return n
}

// write writes one event.
func (r *rewriter) write(ev *dftracer.Event) {
	if ev.Phase == dftracer.PhaseMetadata {
		r.fact(ev)
		return
	}
	if ev.Cat == dftracer.CatDFTracer && (ev.Name == tracefile.NameStart || ev.Name == tracefile.NameEnd) {
		return // the new trace has its own
	}
	out := r.moved(ev)
	r.w.Write(&out)
}

// fact writes metadata that the new trace does not write itself.
func (r *rewriter) fact(ev *dftracer.Event) {
	key, value := ev.Meta()
	switch ev.Name {
	case tracefile.NameHostHash:
		r.hosts[value] = r.hostHash(key)
		return
	case tracefile.NameFileHash:
		r.files[value] = rehashed{r.w.Hash(tracefile.NameFileHash, key), true}
		return
	case tracefile.NameStringHash:
		r.files[value] = rehashed{r.w.Hash(tracefile.NameStringHash, key), true}
		return
	case tracefile.NameThreadName:
		if ev.PID == r.from.start.PID && r.pids == nil {
			return // written with the start
		}
	case tracefile.NameCustom:
		if key == tracefile.KeyTimeMetric {
			return // the reader has converted the times
		}
		if b, ok := tracefile.BeginOf(ev); ok {
			b.Args = cloneArgs(b.Args)
			out := r.moved(&b)
			tracefile.WriteBegin(r.w, &out)
			return
		}
	}
	out := r.moved(ev)
	out.ID = 0
	r.w.Write(&out)
}

func cloneArgs(args []dftracer.Arg) []dftracer.Arg { return append([]dftracer.Arg(nil), args...) }

// moved returns the event for the new trace. Its Args are valid until the next
// call.
func (r *rewriter) moved(ev *dftracer.Event) dftracer.Event {
	out := *ev
	if out.ID != 0 {
		out.ID += r.base
	}
	if out.Parent > 0 {
		out.Parent += int64(r.base)
	}
	if r.pids != nil {
		if pid, ok := r.pids[r.from.who.Key(ev)]; ok {
			out.PID = pid
		}
	}
	host := r.from.who.Key(ev).Host
	text, known := r.hosts[host]
	if !known {
		text = r.hostHash(r.from.hostName(host))
		r.hosts[host] = text
	}
	out.HostHash = text
	r.args = append(r.args[:0], ev.Args...)
	for i := range r.args {
		arg := &r.args[i]
		if isHashKey(arg.Key) {
			if h, ok := r.rehash(arg.Text()); ok {
				*arg = tracefile.HashArg(arg.Key, h)
			}
		} else if isIDOf(ev, arg.Key) {
			if id := tracefile.Uint64(*arg); id != 0 {
				*arg = dftracer.Int(arg.Key, int64(id+r.base))
			}
		}
	}
	out.Args = r.args
	return out
}

// hostHash returns the hash text for the events of a host.
func (r *rewriter) hostHash(name string) string {
	return tracefile.HashText(r.w.Hash(tracefile.NameHostHash, name), r.w.Dialect())
}

// isIDOf reports whether an argument of an event has the id of a span: the one
// that the event happened in, or a profile's forward operator of a backward one.
func isIDOf(ev *dftracer.Event, key string) bool {
	if ev.Phase == dftracer.PhaseMetadata {
		return key == place.ArgSpan && ev.Name == tracefile.NameCustom
	}
	return key == "fwd_id" && ev.Cat == "PP"
}

// isHashKey reports whether an argument refers to a hash record.
func isHashKey(key string) bool { return key == "cwd" || strings.HasSuffix(key, "hash") }

func (r *rewriter) rehash(text string) (tracefile.Hash, bool) {
	if h, ok := r.files[text]; ok {
		return h.hash, h.ok
	}
	var h rehashed
	if name, ok := r.from.hashes.File(text); ok {
		h = rehashed{r.w.Hash(tracefile.NameFileHash, name), true}
	} else if name, ok := r.from.hashes.String(text); ok {
		h = rehashed{r.w.Hash(tracefile.NameStringHash, name), true}
	}
	if len(r.files) < 1<<17 {
		r.files[text] = h
	}
	return h.hash, h.ok
}

// passThrough scans a surveyed trace and calls fn with every event.
func passThrough(ctx context.Context, s *survey, bar *ui.Progress, fn func(*dftracer.Event) error) error {
	bar.File(s.path, s.events)
	if p := s.who.Owner(); p.Named() {
		fn = s.withRank(p, fn)
	}
	_, err := dftracer.Scan(s.path, &dftracer.ReaderOptions{Stop: ctx.Err}, func(ev *dftracer.Event) error {
		bar.Step()
		if s.filter != nil && !s.filter.Has(s.path, ev) {
			return nil
		}
		return fn(ev)
	})
	bar.EndFile()
	return err
}

// withRank adds a record of the rank that only the name of the file has before
// the events of its process, because the new trace has another name.
func (s *survey) withRank(p *job.Process, fn func(*dftracer.Event) error) func(*dftracer.Event) error {
	first := true
	return func(ev *dftracer.Event) error {
		if first && s.who.Process(s.who.Key(ev)) == p {
			first = false
			err := fn(&dftracer.Event{Phase: dftracer.PhaseMetadata, Cat: dftracer.CatDFTracer, Name: tracefile.NameProcess, PID: ev.PID, HostHash: ev.HostHash,
				Parent: dftracer.NoParent, Args: []dftracer.Arg{dftracer.String("name", "rank"), dftracer.String("value", read.RankText(p))}})
			if err != nil {
				return err
			}
		}
		return fn(ev)
	}
}
