package vocabulary

import (
	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/spans"
)

// Attributes by which the known programs say who and where a span is, in the
// order in which they count. Values may be numbers or the text of one.
var (
	rankKeys      = []string{"training.rank", "nv.dl.rank", "dl.rank", "torch.rank", "megatron.rank", "rl.rank", "rank"}
	worldSizeKeys = []string{"training.world_size", "nv.dl.world_size", "dl.world_size", "megatron.world_size", "world_size"}
)

// RankKeys are attributes of resources that hold the rank.
func RankKeys() []string { return rankKeys }

// WorldSizeKeys are attributes of resources that hold the number of ranks.
func WorldSizeKeys() []string { return worldSizeKeys }

// Argument gives the name that an attribute of a span has in a trace file: that
// under which analyzers look for the number of the step and the epoch, else its
// own. span is the standard span that it is of, or empty.
func Argument(span, key string) string {
	switch key {
	case "megatron.iteration", "nv.dl.training.step", "dl.training.step", "dl.step", "rl.step", "rl.iteration":
		switch span {
		case spans.CheckpointLoad, spans.CheckpointSaveSync, spans.CheckpointSaveAsync, spans.CheckpointSaveFinalization:
			return attributes.CurrentIteration
		}
		return attributes.Step
	case "rl.epoch", "dl.epoch", "nv.dl.training.epoch":
		return attributes.Epoch
	}
	return key
}
