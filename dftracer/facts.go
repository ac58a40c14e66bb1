package dftracer

import (
	"strconv"

	"github.com/trainspan/trainspan/internal/identity"
	"github.com/trainspan/trainspan/internal/jsontext"
)

// FileHash returns the hash of a file name for HashArg("fhash", h). The first
// use of a name writes its FH record.
func (w *Writer) FileHash(path string) Hash { return w.nameHash(NameFileHash, path) }

// StringHash returns the hash of any string. The first use writes its SH record.
func (w *Writer) StringHash(s string) Hash { return w.nameHash(NameStringHash, s) }

// HostHash returns the text for Event.HostHash of an event that happened on
// another host. The first use of a host writes its HH record.
func (w *Writer) HostHash(host string) string {
	return w.nameHash(NameHostHash, host).Text(w.Dialect())
}

func (w *Writer) nameHash(kind, s string) Hash {
	if w == nil {
		return 0
	}
	h := w.opts.Dialect.Hash(s)
	if w.opts.NoMetadata && kind != NameHostHash {
		return h
	}
	key := nameKey{kind[0], h}
	n := &w.names
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.seen[key]; ok {
		return h
	}
	if n.seen == nil || len(n.seen) >= maxNames {
		n.seen = make(map[nameKey]struct{})
	}
	n.seen[key] = struct{}{}
	ev := meta(kind, s, HashArg("", h))
	ev.TID = w.enc.pid
	w.Write(&ev)
	n.remember(ev)
	return h
}

// SetRank writes the PR record of the process's rank and its display name.
func (w *Writer) SetRank(rank int) {
	text := strconv.Itoa(rank)
	w.fact(meta(NameProcess, identity.Word(identity.Rank, identity.Record), String("", text)))
	w.fact(meta(NameProcessName, "Rank "+text, String("", NameProcessName)))
}

// SetCoreAffinity writes the PR record of the processor cores that the
// process may run on.
func (w *Writer) SetCoreAffinity(cores []int) {
	list := []byte{'['}
	for i, c := range cores {
		if i > 0 {
			list = append(list, ',')
		}
		list = jsontext.AppendInt(list, int64(c))
	}
	w.fact(meta(NameProcess, "core_affinity", Raw("", string(append(list, ']')))))
}

func (w *Writer) fact(ev Event) {
	if w == nil {
		return
	}
	ev.TID = w.enc.pid
	w.Write(&ev)
	w.names.remember(ev)
}

// CM writes custom metadata: a key and a text, and further arguments, on the lane
// of the process itself. Readers expect text even for numbers.
func (w *Writer) CM(key, value string, args ...Arg) {
	if w == nil {
		return
	}
	all := append([]Arg{String("name", key), String("value", value)}, args...)
	w.Write(&Event{Phase: PhaseMetadata, Name: NameCustom, Cat: CatDFTracer, TID: w.enc.pid, Args: all})
}

// Begin writes a record that a span has begun, for spans that last: when the
// process dies, readers see it and Recover closes it. ev is the span as far as
// it is known; its ID must be the one that Write or WriteComplete will get at
// the end. The record is a CM line:
//
//	{"id":9,"name":"CM","cat":"dftracer","pid":1,"tid":1,"ph":"M","args":{"hhash":"…",
//	 "level":1,"p_idx":-1,"name":"span.begin","value":"train","begin_id":7,"begin_cat":"pipeline","begin_ts":1700000000000000}}
func (w *Writer) Begin(ev *Event) {
	if w == nil || ev == nil {
		return
	}
	args := make([]Arg, 0, 5+len(ev.Args))
	args = append(args, String("name", KeySpanBegin), String("value", ev.Name), Uint("begin_id", ev.ID),
		String("begin_cat", ev.Cat), Int("begin_ts", ev.TS))
	rec := Event{Phase: PhaseMetadata, Type: ev.Type, Name: NameCustom, Cat: CatDFTracer, PID: ev.PID, TID: ev.TID,
		Level: ev.Level, Parent: ev.Parent, HostHash: ev.HostHash, Args: append(args, ev.Args...)}
	Distinct(rec.Args, len(args), len(rec.Args), userPrefix)
	if w.enc.hasID(PhaseMetadata) {
		rec.ID = w.lastID.Add(1)
	}

	line, cuts := appendFitting(nil, &rec, func(dst []byte, ev *Event) []byte {
		return w.enc.appendMetadata(dst, ev, true)
	})
	w.cuts.Add(uint64(cuts))
	w.blocks.append(&w.blocks.metadata, line, 0)
}
