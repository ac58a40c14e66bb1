package torch

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/trainspan/trainspan/internal/ingest/torch/kineto"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// collective is what is known about one communication. Unknown numbers are -1.
type collective struct {
	op                  string // our name: all_reduce, bcast, ...; "" if unknown
	coll                string // PyTorch's name
	dtype               string
	pg, pgDesc          string
	members             string // ranks of the group, or a key for them
	groupSize           int64
	inElems, outElems   int64
	inBytes, outBytes   int64
	seq, src, dst       int64
	transfer, hasParams bool
}

func newCollective() collective {
	return collective{groupSize: -1, inElems: -1, outElems: -1, inBytes: -1, outBytes: -1, seq: -1, src: -1, dst: -1}
}

// commOp returns our name for a word such as "_allgather_base" or
// "alltoall_base_", or "" for one that is not a transfer (wait, init) or
// unknown.
func commOp(word string) string {
	if kind := vocab.CollectiveKind(word); kind != "wait" {
		return kind
	}
	return ""
}

// The backends that run collectives on the host, and on devices.
var (
	hostBackends   = []string{"gloo:", "mpi:", "ucc:"}
	deviceBackends = []string{"nccl:", "hccl:", "xccl:", "rccl:"}
)

// commAnnotation returns the word after "nccl:" and similar prefixes.
func commAnnotation(name string) (word string, ok bool) {
	if word, ok = wordAfter(name, deviceBackends); !ok {
		word, ok = wordAfter(name, hostBackends)
	}
	return word, ok
}

// wordAfter returns the word after one of the prefixes of a name.
func wordAfter(name string, prefixes []string) (word string, ok bool) {
	for _, p := range prefixes {
		if rest, found := strings.CutPrefix(name, p); found {
			word, _, _ = strings.Cut(rest, " ")
			return word, true
		}
	}
	return "", false
}

// commKernel reports whether a kernel belongs to a collective, and returns the
// word in its name: ncclDevKernel_AllReduce_Sum_f32_RING_LL(...) is allreduce.
func commKernel(name string) (word string, ok bool) {
	for _, p := range []string{"ncclKernel_", "ncclDevKernel_", "ncclSymkDevKernel_", "ncclSymDevKernel_"} {
		if rest, found := strings.CutPrefix(name, p); found {
			word, _, _ = strings.Cut(rest, "_")
			word, _, _ = strings.Cut(word, "(")
			return strings.ToLower(word), true
		}
	}
	return "", strings.HasPrefix(name, "nccl") && strings.Contains(name, "Kernel")
}

// commFrom returns the collective of a host row, based on that of its enclosing
// row, and whether there is one.
func commFrom(name string, r *row, outer *collective) (collective, bool) {
	c := newCollective()
	if outer != nil {
		c = *outer
	}
	switch {
	case name == "record_param_comms":
		if r.extra != "" {
			c.fromArgs(kineto.Args(r.extra))
		}
		c.hasParams = true
		c.elements(r)
		return c, true
	case strings.HasPrefix(name, "c10d::"):
		c.setWord(name[len("c10d::"):], false)
		c.elements(r)
		return c, c.op != ""
	case strings.HasPrefix(name, "_c10d_functional::"):
		c.setWord(name[len("_c10d_functional::"):], false)
		return c, c.op != ""
	}
	if word, ok := commAnnotation(name); ok {
		c.setWord(word, false)
		c.elements(r)
		if r.kind == kineto.KindUserAnnotation {
			c.peers(name)
		}
		return c, true
	}
	return c, false
}

// elements takes sizes from the shapes of a row if there are no counts.
func (c *collective) elements(r *row) {
	if r.a > 0 && c.inBytes < 0 {
		c.inElems = r.a
		if r.b > 0 {
			c.inBytes = r.b
		}
	}
}

// setWord sets the operation unless a more exact one is already known. sure
// means that PyTorch wrote the word as "Collective name".
func (c *collective) setWord(word string, sure bool) {
	op := commOp(word)
	if op == "" && !sure {
		return
	}
	// An all-reduce inside a barrier is the barrier.
	if c.op == "barrier" && op == "all_reduce" || c.op != "" && c.coll != "" && c.transfer && !sure {
		return
	}
	c.op, c.coll = op, word
	c.transfer = sure
}

// peers parses "nccl:send 0->1" and "nccl:recv 1<-0".
func (c *collective) peers(name string) {
	_, rest, ok := strings.Cut(name, " ")
	if !ok {
		return
	}
	if a, b, ok := strings.Cut(rest, "->"); ok {
		c.src, c.dst = number(a), number(b)
	} else if a, b, ok := strings.Cut(rest, "<-"); ok {
		c.dst, c.src = number(a), number(b)
	}
}

func number(s string) int64 {
	if v, ok := kineto.ParseInt([]byte(s)); ok {
		return v
	}
	return -1
}

// fromArgs reads the arguments of record_param_comms and of the kernels linked
// to it.
func (c *collective) fromArgs(args kineto.Args) {
	first, stride := int64(-1), int64(-1)
	args.Each(func(key, raw []byte) bool {
		switch string(key) {
		case "Collective name":
			c.setWord(ref(kineto.UnquoteText(raw)), true)
		case "dtype":
			c.dtype = ref(kineto.UnquoteText(raw))
		case "In msg nelems":
			c.inElems = number(string(raw))
		case "Out msg nelems":
			c.outElems = number(string(raw))
		case "Group size":
			c.groupSize = number(string(raw))
		case "Process Group Name":
			c.pg = ref(kineto.UnquoteText(raw))
		case "Process Group Description":
			c.pgDesc = ref(kineto.UnquoteText(raw))
		case "Process Group Ranks":
			// The profiler cuts long lists, and is not consistent about spaces.
			c.members = membersKey(strings.ReplaceAll(kineto.UnquoteText(raw), " ", ""))
		case "Global rank start":
			first = number(string(raw))
		case "Global rank stride":
			stride = number(string(raw))
		case "Seq":
			c.seq = number(string(raw))
		case "Src Rank":
			c.src = number(string(raw))
		case "Dst Rank":
			c.dst = number(string(raw))
		}
		return true
	})
	if c.members == "" && first >= 0 && stride > 0 && c.groupSize > 0 {
		c.members = fmt.Sprintf("%d+%d*%d", first, stride, c.groupSize)
	}
	if size := dtypeSize(c.dtype); size > 0 {
		if c.inElems >= 0 {
			c.inBytes = c.inElems * size
		}
		if c.outElems >= 0 {
			c.outBytes = c.outElems * size
		}
	}
}

// membersKey returns a short key for a list of ranks.
func membersKey(ranks string) string {
	if len(ranks) <= maxRef {
		return ranks
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(ranks)))
}

// encode and decodeCollective store a collective in a spilled row.
func (c *collective) encode() string {
	b := make([]byte, 0, 128)
	for _, s := range [...]string{c.op, c.coll, c.dtype, c.pg, c.pgDesc, c.members} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	for _, v := range [...]int64{c.groupSize, c.inElems, c.outElems, c.inBytes, c.outBytes, c.seq, c.src, c.dst} {
		b = binary.AppendVarint(b, v)
	}
	flags := byte(0)
	if c.transfer {
		flags |= 1
	}
	if c.hasParams {
		flags |= 2
	}
	return string(append(b, flags))
}

func decodeCollective(s string) collective {
	d := rowReader{b: []byte(s)}
	c := collective{op: d.str(), coll: d.str(), dtype: d.str(), pg: d.str(), pgDesc: d.str(), members: d.str()}
	c.groupSize, c.inElems, c.outElems = d.int(), d.int(), d.int()
	c.inBytes, c.outBytes, c.seq, c.src, c.dst = d.int(), d.int(), d.int(), d.int(), d.int()
	if d.bad || len(d.b) != 1 {
		return newCollective()
	}
	c.transfer, c.hasParams = d.b[0]&1 != 0, d.b[0]&2 != 0
	return c
}

// symmetric reports whether all ranks leave the collective at the same time,
// which allows aligning clocks by it.
func (c *collective) symmetric() bool {
	switch c.op {
	case "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier":
		return true
	}
	return false
}

// hostBackendRow reports whether a row belongs to a backend that runs
// collectives on the host.
func hostBackendRow(name string) bool {
	word, ok := wordAfter(name, hostBackends)
	return ok && commOp(word) != ""
}

// deviceBackendRow reports whether a host row launches a collective of a
// device.
func deviceBackendRow(name string) bool {
	word, ok := wordAfter(name, deviceBackends)
	return ok && commOp(word) != ""
}

// waited adds what the other ranks show about a collective.
func (o *out) waited(c *collective, row int64) {
	w, ok := o.p.waits[row]
	if !ok {
		return
	}
	o.us(`,"wait_us":`, max(w.wait, 0))
	o.addIfKnown(`,"last_rank":`, w.lastRank)
	if c.groupSize > int64(w.ranks) {
		o.int(`,"ranks_compared":`, int64(w.ranks))
	}
}

// commArgs adds the known properties of a collective.
func (o *out) commArgs(c *collective) {
	o.text(`,"coll":`, c.coll)
	o.text(`,"pg":`, c.pg)
	o.text(`,"pg_desc":`, c.pgDesc)
	o.addIfKnown(`,"group_size":`, c.groupSize)
	o.text(`,"dtype":`, c.dtype)
	o.addIfKnown(`,"in_bytes":`, c.inBytes)
	o.addIfKnown(`,"out_bytes":`, c.outBytes)
	if c.inBytes < 0 {
		o.addIfKnown(`,"in_elements":`, c.inElems)
	}
	o.addIfKnown(`,"seq":`, c.seq)
	o.addIfKnown(`,"src":`, c.src)
	o.addIfKnown(`,"dst":`, c.dst)
}
