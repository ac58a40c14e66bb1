package fromjob

import (
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// TestUpdates writes steps as the starts of their spans: f is forward, b backward, o an optimizer step, z
// its zero_grad, O an optimizer step that lasts until the end of the training step, and m a message.
func TestUpdates(t *testing.T) {
	phases := map[rune]straggler.Phase{'f': straggler.Forward, 'b': straggler.Backward, 'o': straggler.Optimizer, 'z': straggler.Optimizer, 'O': straggler.Optimizer, 'm': straggler.Communication}
	for name, c := range map[string]struct {
		steps         []string
		updates, each int
	}{
		"plain":                      {[]string{"fbo", "fbo"}, 2, 1},
		"each batch is a step":       {[]string{"fb", "fb", "fbo", "fb", "fb", "fbo"}, 2, 3},
		"a step is an update":        {[]string{"fbfbo", "fbfbo"}, 2, 2},
		"the last one is of fewer":   {[]string{"fb", "fbo", "fb", "fbo", "fb", "fbo", "fb", "fbo", "fb", "fbo", "fb", "fbo", "fb", "fbo", "fb", "fbo", "fb", "fbo", "fbo"}, 10, 2},
		"they are of several sizes":  {[]string{"fbo", "fbfbo", "fbfbfbo"}, 3, 0},
		"two optimizers in turn":     {[]string{"fbofbo", "fbofbo"}, 2, 1},
		"two optimizers at the end":  {[]string{"fbfboo", "fbfboo"}, 2, 2},
		"a gradient of a gradient":   {[]string{"fbbo", "fbbo"}, 2, 1},
		"a model beside it":          {[]string{"ffbo", "ffbo"}, 2, 1},
		"a closure":                  {[]string{"Ofbfbfb", "Ofbfb"}, 2, 1},
		"the last pass in a closure": {[]string{"fzb", "Ozfb", "fzb", "Ozfb", "fzb", "Ozfb"}, 3, 2},
		"zero_grad is no update":     {[]string{"zfb", "fbo", "zfb", "fbo"}, 2, 2},
		"a stage of a pipeline":      {[]string{"fmfmmbfmmbfmmbmbo", "fmfmmbfmmbfmmbmbo"}, 2, 4},
		"no passes on record":        {[]string{"o", "o"}, 2, 0},
		"no optimizer on record":     {[]string{"fb", "fb"}, 0, 0},
	} {
		var u Updates
		for _, text := range c.steps {
			var list []straggler.Span
			for i, r := range text {
				sp := straggler.Span{Phase: phases[r], Start: int64(i * 10), End: int64(i*10 + 5)}
				if r == 'm' {
					sp.Meeting = straggler.Send
				}
				if r == 'O' {
					sp.End = int64(len(text) * 10)
				}
				list = append(list, sp)
			}
			u.step(list)
		}
		if u.Count != c.updates || u.MicroBatches() != c.each {
			t.Errorf("%s: got %d updates of %d, want %d of %d", name, u.Count, u.MicroBatches(), c.updates, c.each)
		}
	}
}
