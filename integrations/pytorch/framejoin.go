package pytorch

import (
	"cmp"

	"github.com/trainspan/trainspan/internal/spill"
)

// frameJoin tells a frame of the second sweep what the first one found of it: the
// device time launched from it, and its forward or backward.
type frameJoin struct {
	names   *names
	onHost  *spill.Iter[share]
	pending *share
	ties    *spill.Iter[row]
	nextTie *row
	ids     idRuns
	// Device time launched before the ends of phases.
	launches launchSum
}

func newFrameJoin(p *process, nextID func() uint64) *frameJoin {
	j := &frameJoin{names: p.names, onHost: p.rows.onHost.Iter(), ties: p.rows.ties.Iter(), launches: launchSum{from: p.rows.launches}}
	for range p.tied {
		j.ids.add(nextID())
	}
	j.pending, j.nextTie = j.onHost.Next(), j.ties.Next()
	return j
}

func (j *frameJoin) push(f *frame) {
	j.tieUp(f)
	for j.pending != nil && j.pending.of <= f.ord {
		if j.pending.of == f.ord {
			f.devSelf += j.pending.time
		}
		j.pending = j.onHost.Next()
	}
	f.devTotal = f.devSelf
	if f.phase = f.isPhase(); f.phase {
		f.launched = j.launches.until(f.r.start)
	}
}

func (j *frameJoin) pop(f *frame) {
	if f.phase {
		f.launched = j.launches.until(f.r.end).since(f.launched)
		f.devTotal = max(f.devTotal, f.launched.time)
	}
}

func (j *frameJoin) err() error { return cmp.Or(j.onHost.Err(), j.ties.Err()) }

// tieUp tells a frame its part of a pair.
func (j *frameJoin) tieUp(f *frame) {
	for j.nextTie != nil && j.nextTie.ord < f.ord {
		j.nextTie = j.ties.Next()
	}
	r := j.nextTie
	if r == nil || r.ord != f.ord {
		return
	}
	f.tie = &tie{seq: r.c - 1, id: j.ids.of(r.corr), backward: r.flags&flagBackward != 0, ord: r.launch, step: r.step}
	if f.tie.backward && r.region != 0 {
		f.fwdRegion = r.region
	}
	if !f.tie.backward {
		f.id = f.tie.id
	} else if f.tie.name = r.text; r.op != 0 {
		f.tie.name = j.names.text[r.op]
	}
	f.tie.name = ref(f.tie.name)
	j.nextTie = j.ties.Next()
}
