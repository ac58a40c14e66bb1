package pytorch

import (
	"strings"

	"github.com/trainspan/trainspan/internal/kineto"
)

// classifyRecompute finds operators of forward that backward runs again, as
// activation checkpointing does: inside the autograd engine, autograd records
// them anew, under sequence numbers of their own. Differentiating a backward
// (create_graph) looks the same, so it is a guess unless the checkpoint says so
// itself: its own backward node, or with python frames its source file.
func (f *frame) classifyRecompute(up *frame) {
	if up == nil {
		return
	}
	f.checkpoint = up.checkpoint
	if f.engine && !f.checkpoint {
		f.checkpoint = f.r.kind == kineto.KindCPUOp && f.name == "CheckpointFunctionBackward" ||
			f.r.kind == kineto.KindPython && strings.Contains(f.name, "torch/utils/checkpoint.py(")
	}
	if f.r.kind != kineto.KindCPUOp || !f.engine {
		f.recompute = up.recompute
		return
	}
	// What the engine runs for a node carries the thread of its forward.
	f.recompute = f.r.launch == 0 && (up.recompute || f.r.c != 0) && !strings.HasPrefix(f.name, "autograd::engine::")
}
