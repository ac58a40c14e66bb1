package outputs_test

import (
	"testing"

	"github.com/trainspan/trainspan/telemetry/outputs"
)

func TestProgress(t *testing.T) {
	var none *outputs.Progress
	none.SetEpoch(1)
	if none.Epoch() != -1 || none.Step() != -1 {
		t.Errorf("a nil Progress has epoch %d, step %d, want -1, -1", none.Epoch(), none.Step())
	}
	var p outputs.Progress
	if p.Epoch() != -1 || p.Step() != -1 {
		t.Errorf("the zero Progress has epoch %d, step %d, want -1, -1", p.Epoch(), p.Step())
	}
	p.SetEpoch(0)
	p.SetStep(41)
	if p.Epoch() != 0 || p.Step() != 41 {
		t.Errorf("Epoch() and Step() = %d and %d, want 0 and 41", p.Epoch(), p.Step())
	}
	p.SetEpoch(-1)
	if p.Epoch() != -1 {
		t.Error("got a negative epoch, want none")
	}
}
