package python_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestTorchCode checks that the client names the lines between which the
// program's own code takes long, and the method of the dataset; a span of the
// program and a checkpoint do not count as such code.
func TestTorchCode(t *testing.T) {
	j := newTorchJob(t, "owncode.py", "80")
	j.run(t)
	tr := only(t, j.traces(t), "pipeline/train.iteration")
	text, err := os.ReadFile("testdata/torch/owncode.py")
	if err != nil {
		t.Fatal(err)
	}
	line := func(with string) string {
		for i, l := range strings.Split(string(text), "\n") {
			if strings.Contains(l, with) {
				return fmt.Sprintf("owncode.py:%d", i+1)
			}
		}
		t.Fatalf("no line has %q", with)
		return ""
	}
	var code struct {
		Steps int
		MS    float64 `json:"step_ms"`
		Gaps  []struct {
			From, After, To, Before string
			MS                      float64
		}
	}
	if err := json.Unmarshal([]byte(tr.meta["other_code"]), &code); err != nil {
		t.Fatalf("other_code is %q: %v", tr.meta["other_code"], err)
	}
	if code.Steps != 4 || code.MS <= 8 {
		t.Errorf("%d steps of %.1f ms were looked at, want 4 of more than 8", code.Steps, code.MS)
	}
	// Load on the machine may lengthen another gap; the program's own gaps are in
	// each step.
	found := false
	for _, g := range code.Gaps {
		switch at := g.From + " " + g.After + " to " + g.To + " " + g.Before; at {
		case line("# the step") + " optimizer.step to " + line("# next batch") + " next batch":
			found = g.MS >= 4
		default:
			if g.After == "zero_grad" || g.Before == "backward" {
				t.Errorf("%s: %.1f ms of own code, want none: a span covers it", at, g.MS)
			}
		}
	}
	if !found {
		t.Errorf("gaps are %+v, want 4 ms or more from %s to %s", code.Gaps, line("# the step"), line("# next batch"))
	}
	want := fmt.Sprintf(`{"method": "Numbers.__getitem__", "at": %q, "workers": 0}`, line("# the data set"))
	if tr.meta["dataset"] != want {
		t.Errorf("dataset is %s, want %s", tr.meta["dataset"], want)
	}
	if n := tr.count["pipeline/train.iteration"]; n != 80 {
		t.Errorf("%d steps, want 80", n)
	}
}
