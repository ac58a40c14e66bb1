package pfw

import (
	"slices"

	"github.com/trainspan/trainspan/dftracer"
)

// endLanes gives lanes to spans that come in the order of their ends, children
// before their parents: a parent goes on a lane on which nothing but its own
// descendants lie within it. A lane on which children wait for their parent is
// kept free for it. The memory grows with the number of lanes and the depth of
// the tree. It is not safe for concurrent use.
type endLanes struct {
	first   int64
	stacks  [][]stretch
	waiting func(id uint64) bool // whether a parent is still to come
}

// stretch is a part of a lane that is taken by children of one parent.
type stretch struct {
	start, end int64
	parent     int64
}

// place gives the lane of a span. below are lanes that its children are on.
func (l *endLanes) place(id uint64, parent, start, end int64, below []int) int {
	for _, lane := range below {
		if l.cover(lane, id, parent, start, end) {
			return lane
		}
	}
	free := -1
	for i, stack := range l.stacks {
		if len(stack) == 0 {
			free = i
			break
		}
		top := &stack[len(stack)-1]
		if top.end > start {
			continue
		}
		if top.parent == parent && parent != dftracer.NoParent {
			top.end = end
			return i
		}
		if free < 0 && !l.reserved(stack) {
			free = i
		}
	}
	if free < 0 {
		free = len(l.stacks)
		l.stacks = append(l.stacks, nil)
	}
	l.push(free, stretch{start, end, parent})
	return free
}

// cover puts a span over its children on a lane, if nothing else is there.
func (l *endLanes) cover(lane int, id uint64, parent, start, end int64) bool {
	stack := l.stacks[lane]
	n := len(stack)
	for n > 0 && stack[n-1].start >= start && stack[n-1].end <= end && stack[n-1].parent == int64(id) {
		n--
	}
	if n == len(stack) || n > 0 && stack[n-1].end > start {
		return false
	}
	l.stacks[lane] = stack[:n]
	if n > 0 && stack[n-1].parent == parent && parent != dftracer.NoParent {
		stack[n-1].end = end // beside its brothers
		return true
	}
	l.push(lane, stretch{start, end, parent})
	return true
}

func (l *endLanes) push(lane int, s stretch) {
	stack := l.stacks[lane]
	if n := len(stack); n > 1 && !l.reserved(stack) {
		stack[0] = stack[n-1] // nobody will come to cover these any more
		stack = stack[:1]
	}
	l.stacks[lane] = append(stack, s)
}

// reserved tells whether something on the lane waits for its parent.
func (l *endLanes) reserved(stack []stretch) bool {
	return slices.ContainsFunc(stack, func(s stretch) bool { return s.parent > 0 && l.waiting(uint64(s.parent)) })
}

func (l *endLanes) tid(lane int) int64 { return l.first + int64(lane) }
