package python_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/ingest/pyring"
)

// TestTorchSends checks that the spans of PyTorch are sent as in the trace: by
// default the long ones, and with the rank that the process determined itself.
func TestTorchSends(t *testing.T) {
	for name, c := range map[string]struct {
		export  config.Export
		program []string
		ranks   string
	}{
		"default":    {config.Export{}, []string{"loops.py", "plain", "no_loader"}, "0"},
		"everything": {config.Export{Mode: config.ExportAll}, []string{"loops.py", "plain", "failing"}, "0"},
		"spawned":    {config.Export{}, []string{filepath.Join("testdata", "torch", "jobs", "launch.py"), "spawn"}, "01"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t)
			j := newTorchJob(t, c.program[0], c.program[1:]...)
			d, err := pyring.New(pyring.Options{Dir: j.rings, Out: t.TempDir(), Attempt: -1, Config: b.config(c.export), Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Skip(err)
			}
			j.run(t)
			if err := d.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
			st := d.Stats()
			compare(t, b.paths(t), traced(t, st, c.export))
			ranks := make(map[string]bool)
			for _, s := range b.all() {
				if s.GetName() == "training_single_iteration" && c.export.Mode == "" {
					t.Error("an iteration is sent, want none by default")
				}
				if s.GetName() == "training_loop" {
					ranks[s.resource["training.rank"]] = true
				}
			}
			for _, rank := range strings.Split(c.ranks, "") {
				if !ranks[rank] || len(ranks) != len(c.ranks) {
					t.Errorf("training loops of the ranks %v, want %s", ranks, c.ranks)
				}
			}
			if st.Delivery.Sent != int64(len(b.all())) || st.Delivery.Lost != 0 {
				t.Errorf("delivery %+v, want all %d spans sent, none lost", st.Delivery, len(b.all()))
			}
		})
	}
}
