package fromrun

import (
	"github.com/trainspan/trainspan/internal/replay"
	"github.com/trainspan/trainspan/internal/run"
	"github.com/trainspan/trainspan/internal/vocab"
	"github.com/trainspan/trainspan/spans"
)

// pauseKinds has [replay.PauseKinds] for classes that are none.
var pauseKinds = tableOf(replay.PauseKinds, map[vocab.Class]replay.PauseKind{
	vocab.ClassCheckpointSave: replay.PauseSave,
	vocab.ClassCheckpointLoad: replay.PauseLoad,
	vocab.ClassCompile:        replay.PauseCompile,
	vocab.ClassEvaluation:     replay.PauseEvaluation,
	vocab.ClassTesting:        replay.PauseEvaluation,
	vocab.ClassInit:           replay.PauseStartUp,
	vocab.ClassCommInit:       replay.PauseStartUp,
	vocab.ClassStartUp:        replay.PauseStartUp,
})

// maxPauses bounds the open ones: none nests so deep.
const maxPauses = 64

// pauses are those of a process. A span that is open is told of first, and again when
// it has ended.
type pauses struct {
	longest [replay.PauseKinds]int64
	open    map[uint64]openPause
}

type openPause struct {
	kind  replay.PauseKind
	start int64
}

func (p *pauses) span(sp *run.Span) {
	kind := pauseKinds[sp.Class]
	switch {
	case kind == replay.PauseKinds || sp.Background || sp.Name == spans.CheckpointSaveFinalization:
	case sp.End == run.NoEnd:
		if p.open == nil {
			p.open = make(map[uint64]openPause)
		}
		if len(p.open) < maxPauses {
			p.open[sp.ID] = openPause{kind, sp.Start}
		}
	default:
		delete(p.open, sp.ID)
		if kind == replay.PauseStartUp {
			return // each part of it comes once: what another took says nothing
		}
		p.longest[kind] = max(p.longest[kind], sp.End-sp.Start)
	}
}

// all returns what is known of them.
func (p *pauses) all() (out [replay.PauseKinds]replay.Pause) {
	for k, d := range p.longest {
		out[k].Longest = d
	}
	for _, o := range p.open {
		out[o.kind].Since = max(out[o.kind].Since, o.start)
	}
	return out
}

// tableOf makes a table of a map: it is asked of every span.
func tableOf[T any](other T, of map[vocab.Class]T) (out [vocab.Classes]T) {
	for c := range out {
		out[c] = other
	}
	for c, v := range of {
		out[c] = v
	}
	return out
}
