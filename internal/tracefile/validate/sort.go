package validate

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/trainspan/trainspan/internal/platform/columns"
	"github.com/trainspan/trainspan/internal/platform/extsort"
	"github.com/trainspan/trainspan/internal/tracefile/nest"
)

const defaultValidateMemory = 32 << 20

func (v *validator) begin() {
	memory := int(v.opts.Memory)
	if memory <= 0 {
		memory = defaultValidateMemory
	}
	v.lanes = make(map[lane]uint32)
	v.known = extsort.New(extsort.Codec[known]{Append: appendKnown, Decode: decodeKnown, Key: func(k *known) extsort.Key {
		if k.kind == refParent {
			return extsort.Key{First: k.parent, Second: 1}
		}
		return extsort.Key{First: int64(k.id)}
	}}, memory*2/3, v.opts.TempDir)
	v.placed = extsort.New(extsort.Codec[known]{Append: appendKnown, Decode: decodeKnown, Key: func(k *known) extsort.Key {
		return extsort.Key{Group: k.lane, First: k.start, Second: -k.end}
	}}, memory/3, v.opts.TempDir)
}

func (v *validator) release() {
	_ = v.known.Close() // its rows are no longer needed
	_ = v.placed.Close()
}

func (v *validator) keep(to *extsort.Sorter[known], k *known) {
	if err := to.Add(k); err != nil && v.failed == nil {
		v.failed = err
	}
}

// define stores a record that has an id.
func (v *validator) define(k *known) {
	if k.id != 0 {
		v.keep(v.known, k)
	}
}

// refer stores a span under the id of its parent.
func (v *validator) refer(k *known) {
	if k.parent > 0 {
		ref := *k
		ref.kind = refParent
		v.keep(v.known, &ref)
	}
}

// place stores a span under its lane.
func (v *validator) place(k *known, at lane) {
	n, ok := v.lanes[at]
	if !ok {
		n = uint32(len(v.lanes))
		v.lanes[at] = n
	}
	if v.opts.AllowForeign {
		return
	}
	k.lane = n
	v.keep(v.placed, k)
}

// findings counts problems and keeps those of the first lines.
type findings struct {
	count  int
	first  []Problem
	groups []ProblemGroup // in the order of arrival; there are few
}

func (f *findings) add(line int, rule, format string, args ...any) {
	f.count++
	at := slices.IndexFunc(f.groups, func(g ProblemGroup) bool { return g.Rule == rule })
	if at < 0 {
		at = len(f.groups)
		f.groups = append(f.groups, ProblemGroup{Rule: rule})
	}
	g := &f.groups[at]
	if g.Count++; g.Count == 1 || line < g.First.Line {
		g.First = Problem{line, rule, fmt.Sprintf(format, args...)}
	}
	if len(f.first) == maxProblems && line >= f.first[maxProblems-1].Line {
		return
	}
	at, _ = slices.BinarySearchFunc(f.first, line+1, func(p Problem, line int) int { return cmp.Compare(p.Line, line) })
	f.first = slices.Insert(f.first, at, Problem{line, rule, fmt.Sprintf(format, args...)})
	f.first = f.first[:min(len(f.first), maxProblems)]
}

// append adds findings after the existing ones.
func (v *validator) append(f findings) {
	v.count(f)
	v.report.Problems = append(v.report.Problems, f.first[:min(len(f.first), maxProblems-len(v.report.Problems))]...)
}

// insert adds findings in the order of their lines.
func (v *validator) insert(f findings) {
	v.count(f)
	all := append(v.report.Problems, f.first...)
	slices.SortStableFunc(all, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	v.report.Problems = all[:min(len(all), maxProblems)]
}

func (v *validator) count(f findings) {
	v.report.Count += f.count
	for _, g := range f.groups {
		v.report.group(g)
	}
}

// asked calls Options.Stop now and then, and reports whether to go on.
func (v *validator) asked(n *int) bool {
	if *n++; *n&0xffff == 0 && v.opts.Stop != nil && v.failed == nil {
		v.failed = v.opts.Stop()
	}
	return v.failed == nil
}

// checkParents looks for ids that are used twice and for spans that do not fit
// their parent. If several records have the same id, the last one counts.
func (v *validator) checkParents() (twice, parents findings) {
	it := v.known.Iter()
	var p known
	defined := false
	n := 0
	for k := it.Next(); k != nil && v.asked(&n); k = it.Next() {
		switch {
		case k.kind != refParent:
			if defined && p.id == k.id && !v.opts.AllowForeign {
				twice.add(k.line, "id is used twice", "id %d is used twice", k.id)
			}
			p, defined = *k, true
		case defined && p.id == uint64(k.parent) && p.kind == defSpan:
			v.checkParent(&parents, k, &p)
		case !v.open[uint64(k.parent)]:
			v.report.Orphans++
			if !v.loose && !v.opts.AllowMissingParents && !v.opts.AllowForeign {
				parents.add(k.line, "p_idx refers to no event", "p_idx %d refers to no event", k.parent)
			}
		}
	}
	v.failed = cmp.Or(v.failed, it.Err())
	return twice, parents
}

// checkParent compares a span with its parent.
func (v *validator) checkParent(to *findings, s, p *known) {
	if v.opts.AllowForeign {
		return
	}
	if !v.opts.AllowOutliving && (s.start < p.start || s.end > p.end) {
		to.add(s.line, "span is not inside its parent", "event %d [%d, %d] is not inside its parent %d [%d, %d]", s.id, s.start, s.end, p.id, p.start, p.end)
	}
	if s.level > 0 && p.level > 0 && s.level != p.level+1 {
		to.add(s.line, "level does not fit the parent", "event %d has level %d, its parent %d has level %d", s.id, s.level, p.id, p.level)
	}
}

// maxNested bounds the memory for nested spans.
const maxNested = 1 << 16

// checkOverlaps looks for spans of one lane that neither nest nor follow each other.
func (v *validator) checkOverlaps() (found findings) {
	tids := make([]int64, len(v.lanes))
	for l, at := range v.lanes {
		tids[at] = l.tid
	}
	type open struct {
		id    uint64
		start int64
	}
	var stack nest.Stack[open]
	last := uint32(0)
	it := v.placed.Iter()
	n := 0
	for s := it.Next(); s != nil && v.asked(&n); s = it.Next() {
		if s.lane != last {
			stack, last = stack[:0], s.lane
		}
		if outlasted := stack.Leave(s.start, s.end); len(outlasted) > 0 {
			o := outlasted[len(outlasted)-1]
			found.add(s.line, "spans of a lane overlap partially", "event %d [%d, %d] partially overlaps event %d [%d, %d] on lane %d", s.id, s.start, s.end, o.Of.id, o.Of.start, o.End, tids[s.lane])
		}
		switch top := stack.Top(); {
		case top != nil && top.Of.start == s.start && top.End == s.end: // one span stands for all spans of the same time
			top.Of.id = s.id
		case len(stack) == maxNested:
			found.add(s.line, "spans nest too deep", "event %d is inside %d others of lane %d: it was not compared with what is inside it", s.id, maxNested, tids[s.lane])
		default:
			stack.Push(s.end, open{s.id, s.start})
		}
	}
	v.failed = cmp.Or(v.failed, it.Err())
	return found
}

func appendKnown(dst []byte, k *known) []byte {
	dst = append(dst, k.kind)
	dst = binary.AppendUvarint(dst, k.id)
	dst = binary.AppendUvarint(dst, uint64(k.line))
	if k.kind == defFact {
		return dst
	}
	if k.kind == refParent {
		dst = binary.AppendVarint(dst, k.parent)
	}
	dst = binary.AppendVarint(dst, k.start)
	dst = binary.AppendVarint(dst, k.end-k.start)
	dst = binary.AppendVarint(dst, int64(k.level))
	return binary.AppendUvarint(dst, uint64(k.lane))
}

func decodeKnown(src []byte, k *known) error {
	in := columns.NewReader(src)
	*k = known{kind: byte(in.Uint()), id: in.Uint(), line: int(in.Uint())}
	if k.kind != defFact {
		if k.kind == refParent {
			k.parent = in.Int()
		}
		k.start = in.Int()
		k.end = k.start + in.Int()
		k.level, k.lane = int(in.Int()), uint32(in.Uint())
	}
	return in.Err()
}
