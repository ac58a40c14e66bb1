package account

import (
	"slices"

	"github.com/trainspan/trainspan/internal/analyze/meet"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// Messages: a rank that receives one waits for its sender. The records name the sender, or it is in a neighbor stage
// of the pipeline, as described at [meet.Stages]. The messages of an iteration are added up by their senders.

// messageColumns are the columns of messages: the index of an iteration, its anchor, the sender, the number and the
// total duration of its messages, and the shortest duration of all messages of the iteration (in a window, their mean).
const messageColumns = 6

// The senders of messages that are not known by their ranks, which are 0 or more.
const (
	fromBefore  = -1 // the rank at the same position in the stage before
	fromAfter   = -2 // in the stage after
	fromUnknown = -3
)

// received sums up the messages of a sender in an iteration or a window of iterations.
type received struct {
	iteration int
	anchor    int64
	from      int64 // a rank or one of the constants above
	count     int64
	took      int64
	least     int64 // of all messages in the iteration, or the mean of these in a window
}

// messages collects the messages that one process receives, in order.
type messages struct {
	rows      rowPacker
	iteration int
	anchor    int64
	any       bool
	list      []received // by sender
	least     int64
	// The number and duration of messages whose sender is not known yet: the next pass through the model
	// determines its stage.
	waiting, waitingTook int64
}

// receive adds a message of an iteration. peer is the sending rank plus 1, or 0 if the records do not name it; before
// is the pass that follows it, or ClassOther if that is not known yet.
func (m *messages) receive(iteration int, anchor int64, took int64, peer int, before vocab.Class) {
	if !m.any || m.iteration != iteration {
		m.end()
		m.iteration, m.anchor, m.any, m.least = iteration, anchor, true, took
	}
	m.least = min(m.least, took)
	if peer > 0 {
		m.add(int64(peer-1), 1, took)
		return
	}
	m.waiting, m.waitingTook = m.waiting+1, m.waitingTook+took
	m.pass(iteration, before)
}

func (m *messages) add(from, count, took int64) {
	i := slices.IndexFunc(m.list, func(r received) bool { return r.from == from })
	if i < 0 {
		i = len(m.list)
		m.list = append(m.list, received{from: from})
	}
	m.list[i].count, m.list[i].took = m.list[i].count+count, m.list[i].took+took
}

// pass records the begin of a pass through the model.
func (m *messages) pass(iteration int, class vocab.Class) {
	if class == vocab.ClassOther || m.waiting == 0 || m.iteration != iteration {
		return
	}
	from := int64(fromBefore)
	if class == vocab.ClassBackward {
		from = fromAfter
	}
	m.add(from, m.waiting, m.waitingTook)
	m.waiting, m.waitingTook = 0, 0
}

// end adds the rows of the last iteration.
func (m *messages) end() {
	if m.waiting > 0 {
		m.add(fromUnknown, m.waiting, m.waitingTook)
	}
	for _, r := range m.list {
		m.rows.add(int64(m.iteration), m.anchor, r.from, r.count, r.took, m.least)
	}
	*m = messages{rows: m.rows, list: m.list[:0]}
}

// received calls fn with the messages of each iteration and sender.
func (p *packed) received(fn func(r *received)) {
	for cols, n := range p.messages.blocks(messageColumns) {
		for i := range n {
			fn(&received{iteration: int(cols[0][i]), anchor: cols[1][i], from: cols[2][i], count: cols[3][i], took: cols[4][i], least: cols[5][i]})
		}
	}
}

// messageStep identifies a step in which ranks receive messages.
type messageStep struct {
	attempt int
	anchor  int64
}

// peers holds the ranks in the stages before and after a rank (-1 without such a stage), and all ranks of the attempt.
type peers struct {
	before, after int
	all           map[int]bool
}

// rank returns the rank of a sender, or unmatchedRank if it is unknown or has no records.
func (p *peers) rank(from int64) int {
	switch {
	case from == fromBefore:
		return p.before
	case from == fromAfter:
		return p.after
	case p.all[int(from)]:
		return int(from)
	}
	return unmatchedRank
}

// findPeers finds the ranks that may send messages to each other in one attempt of the job. The argument all holds
// that attempt of every rank, in order.
func (t *table) findPeers(all []*attempt) {
	roles, ranks := make([]string, len(all)), make(map[int]bool)
	for i, a := range all {
		roles[i], ranks[a.Rank] = a.role, true
	}
	stages := meet.NewStages(roles)
	for i, a := range all {
		p := &peers{unmatchedRank, unmatchedRank, ranks}
		if k := stages.Peer(i, -1); k >= 0 {
			p.before = all[k].Rank
		}
		if k := stages.Peer(i, 1); k >= 0 {
			p.after = all[k].Rank
		}
		t.peers[a] = p
	}
}

// enterMessages finds the shortest message of each step.
func (t *table) enterMessages(a *attempt) {
	a.packed.received(func(r *received) {
		at := messageStep{a.Attempt, r.anchor}
		if least, ok := t.least[at]; !ok || r.least < least {
			t.least[at] = r.least
		}
	})
}

// messages calls fn with how long an attempt waited in an iteration for messages of a rank. For unmatchedRank that is
// the whole duration of messages whose sender is unknown.
func (t *table) messages(a *attempt, fn func(iteration int, took int64, rank int)) {
	a.packed.received(func(r *received) {
		rank, took := t.peers[a].rank(r.from), r.took
		if rank != unmatchedRank {
			took -= r.count * t.least[messageStep{a.Attempt, r.anchor}]
		}
		if took > 0 {
			fn(r.iteration, took, rank)
		}
	})
}

// replaceMessages adds up the messages of each window. The shortest duration is the mean over its messages of that in
// their iterations: the shortest of all messages in the window would count much of the transfers as waiting.
func (t *timeline) replaceMessages(a *attempt, all []iteration, place []int32) {
	sum := &t.messages
	var window, count, least int64
	end := func() {
		if sum.any {
			sum.least = (least + count - 1) / max(count, 1) // waiting is a lower bound
		}
		sum.end()
		count, least = 0, 0
	}
	a.packed.received(func(r *received) {
		if at := a.anchor(all, r.iteration) / windowSteps; !sum.any || at != window {
			end()
			window, sum.anchor, sum.any = at, at, true
		}
		sum.iteration = int(place[r.iteration])
		sum.add(r.from, r.count, r.took)
		count, least = count+r.count, least+r.count*r.least
	})
	end()
}
