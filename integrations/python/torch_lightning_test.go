package python_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/testkit/pyrun"
)

// TestLightningTelemetry checks that a training with Lightning has the spans
// and events of its epochs, batches, validations and saves, however
// one-logger's callback was added.
func TestLightningTelemetry(t *testing.T) {
	if _, err := os.Stat("/opt/lightning"); err != nil {
		t.Skip("needs a folder of env.sh, with Lightning")
	}
	every := map[string]int{
		"application": 1, "model_initialization": 1, "one_logger_initialization": 1, "training_loop": 1, "training_metrics_update": 4,
		"training_single_iteration": 8, "update_training_telemetry_config": 1, "validation_loop": 2, "validation_metrics_update": 2,
		"validation_single_iteration": 8,
	}
	saves := maps.Clone(every)
	maps.Copy(saves, map[string]int{"checkpoint_save_sync": 1, "save_checkpoint_success": 1, "sync_checkpoint_metrics_update": 1})
	for how, want := range map[string]map[string]int{
		"callback": every, "hook": saves, "trainer": saves,
		"raises": {
			"application": 1, "model_initialization": 1, "one_logger_initialization": 1, "training_loop": 1, "training_metrics_update": 1,
			"training_single_iteration": 3, "update_training_telemetry_config": 1,
		},
	} {
		t.Run(how, func(t *testing.T) {
			cmd := pyrun.Command(t, t.TempDir(), filepath.Join("testdata", "torch", "lightning_telemetry.py"), how)
			cmd.Env = append(cmd.Env, "WORK="+t.TempDir(), "PYTHONPATH="+pyrun.Client()+":/opt/lightning")
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("program: %v\n%s", err, out)
			}
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			got := map[string]int{}
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &got); err != nil || !maps.Equal(got, want) {
				t.Errorf("%v, want %v: %v", got, want, err)
			}
		})
	}
}
