package account

import (
	"github.com/trainspan/trainspan/internal/analyze/meet"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// Messages between the stages of a pipeline: a rank that receives one waits for its sender, as
// described at [meet.Stages]. The messages of an iteration are added up by their sending stage.

// The columns of messages: the index of an iteration, its anchor, the number and the total
// duration of messages from the stage before, the same for the stage after, and the shortest
// duration of all of them.
const messageColumns = 7

// The stages that messages come from.
const (
	fromBefore = iota
	fromAfter
	senders
)

// messages collects the messages that one process receives, in order.
type messages struct {
	rows      rowPacker
	iteration int
	anchor    int64
	any       bool
	count     [senders]int64
	took      [senders]int64
	least     int64
	// The number and duration of messages whose sending stage is not known yet: the next
	// pass through the model determines it.
	waiting, waitingTook int64
}

// receive adds a message of an iteration. before is the pass that follows it, or ClassOther if
// that is not known yet.
func (m *messages) receive(iteration int, anchor int64, took int64, before vocab.Class) {
	if !m.any || m.iteration != iteration {
		m.end()
		m.iteration, m.anchor, m.any, m.least = iteration, anchor, true, took
	}
	m.least = min(m.least, took)
	m.waiting, m.waitingTook = m.waiting+1, m.waitingTook+took
	m.pass(iteration, before)
}

// pass records the begin of a pass through the model.
func (m *messages) pass(iteration int, class vocab.Class) {
	if class == vocab.ClassOther || m.waiting == 0 || m.iteration != iteration {
		return
	}
	from := fromBefore
	if class == vocab.ClassBackward {
		from = fromAfter
	}
	m.count[from], m.took[from] = m.count[from]+m.waiting, m.took[from]+m.waitingTook
	m.waiting, m.waitingTook = 0, 0
}

// end adds the row of the last iteration.
func (m *messages) end() {
	if m.any {
		m.rows.add(int64(m.iteration), m.anchor, m.count[fromBefore], m.took[fromBefore], m.count[fromAfter], m.took[fromAfter], m.least)
	}
	*m = messages{rows: m.rows}
}

// received sums up the messages of an iteration or a window of iterations.
type received struct {
	iteration   int
	anchor      int64
	count, took [senders]int64
	least       int64
}

// received calls fn with the messages of each iteration.
func (p *packed) received(fn func(r *received)) {
	for cols, n := range p.messages.blocks(messageColumns) {
		for i := range n {
			fn(&received{
				iteration: int(cols[0][i]), anchor: cols[1][i], count: [senders]int64{cols[2][i], cols[4][i]}, took: [senders]int64{cols[3][i], cols[5][i]}, least: cols[6][i],
			})
		}
	}
}

// messageStep identifies a step in which ranks receive messages.
type messageStep struct {
	attempt int
	anchor  int64
}

// findPeers finds the neighbour stages of the ranks in one attempt of the job. The argument all
// holds that attempt of every rank, in order.
func (t *table) findPeers(all []*attempt) {
	roles := make([]string, len(all))
	for i, a := range all {
		roles[i] = a.role
	}
	stages := meet.NewStages(roles)
	if len(stages.Ranks) < 2 {
		return
	}
	for i, a := range all {
		peers := [senders]int{-1, -1}
		for from, way := range [senders]int{-1, 1} {
			if p := stages.Peer(i, way); p >= 0 {
				peers[from] = all[p].Rank
			}
		}
		t.peers[a] = peers
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

// messages calls fn with how long an attempt waited in an iteration for messages of a rank.
func (t *table) messages(a *attempt, fn func(iteration int, wait int64, rank int)) {
	peers, ok := t.peers[a]
	if !ok {
		return
	}
	a.packed.received(func(r *received) {
		for from, rank := range peers {
			if wait := r.took[from] - r.count[from]*t.least[messageStep{a.Attempt, r.anchor}]; rank >= 0 && wait > 0 {
				fn(r.iteration, wait, rank)
			}
		}
	})
}

// replaceMessages adds up the messages of each window. The shortest duration is that of all
// messages in the window.
func (t *timeline) replaceMessages(a *attempt, all []iteration, place []int32) {
	var sum received
	flush := func() {
		if sum.least >= 0 {
			t.messages.rows.add(int64(sum.iteration), sum.anchor, sum.count[fromBefore], sum.took[fromBefore], sum.count[fromAfter], sum.took[fromAfter], sum.least)
		}
	}
	sum.least = -1
	a.packed.received(func(r *received) {
		window := a.anchor(all, r.iteration) / windowSteps
		if sum.least < 0 || sum.anchor != window {
			flush()
			sum = received{anchor: window, least: r.least}
		}
		sum.iteration, sum.least = int(place[r.iteration]), min(sum.least, r.least)
		for from := range senders {
			sum.count[from], sum.took[from] = sum.count[from]+r.count[from], sum.took[from]+r.took[from]
		}
	})
	flush()
}
