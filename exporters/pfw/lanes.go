package pfw

import (
	"slices"

	"github.com/trainspan/trainspan/dftracer"
)

// endLanes gives lanes to spans that come in the order of their ends, children
// before their parents: a parent goes on a lane on which nothing but its own
// descendants lie within it. The lane of a parent's first child is kept for
// the parent; were all lanes of its children kept, a loop would use up a lane
// for each of its iterations. The memory grows with the number of lanes and of
// parents that are still to come. It is not safe for concurrent use.
type endLanes struct {
	first   int64
	stacks  [][]stretch
	homes   map[int64]int        // lane of the first child of a parent
	waiting func(id uint64) bool // whether a parent is still to come
}

// stretch is a part of a lane that is taken by children of one parent.
type stretch struct {
	start, end int64
	parent     int64
}

// place gives the lane of a span. below are lanes that its children are on.
func (l *endLanes) place(id uint64, parent, start, end int64, below []int) int {
	lane := l.settle(id, parent, start, end, below)
	delete(l.homes, int64(id))
	if parent > 0 && l.waiting(uint64(parent)) {
		if l.homes == nil {
			l.homes = make(map[int64]int)
		}
		if _, has := l.homes[parent]; !has {
			l.homes[parent] = lane
		}
	}
	return lane
}

func (l *endLanes) settle(id uint64, parent, start, end int64, below []int) int {
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
		if free < 0 && !l.reserved(i) {
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
	if n := len(stack); n > 1 && !l.awaited(stack) {
		stack[0] = stack[n-1] // nobody will come to cover these any more
		stack = stack[:1]
	}
	l.stacks[lane] = append(stack, s)
}

// awaited tells whether a parent of something on the lane is still to come.
func (l *endLanes) awaited(stack []stretch) bool {
	return slices.ContainsFunc(stack, func(s stretch) bool { return s.parent > 0 && l.waiting(uint64(s.parent)) })
}

// reserved tells whether the lane is kept for a parent that is still to come.
func (l *endLanes) reserved(lane int) bool {
	return slices.ContainsFunc(l.stacks[lane], func(s stretch) bool {
		home, has := l.homes[s.parent]
		return has && home == lane && l.waiting(uint64(s.parent))
	})
}

func (l *endLanes) tid(lane int) int64 { return l.first + int64(lane) }
