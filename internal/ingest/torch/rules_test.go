package torch_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/torch"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
)

func TestDefaultRules(t *testing.T) {
	for _, tc := range []struct{ kind, name, want string }{
		{"user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "dataloader/fetch.iter"},
		{"user_annotation", "## load_batch ##", "dataloader/fetch.iter"},
		{"user_annotation", "[pl][profile]_TrainingEpochLoop.train_dataloader_next", "dataloader/fetch.iter"},
		{"user_annotation", "DistributedDataParallel.forward", "compute/forward"},
		{"cpu_op", "DistributedDataParallel.forward", "compute/forward"},
		{"user_annotation", "FullyShardedDataParallel.forward", "compute/forward"},
		{"user_annotation", "## forward ##", "compute/forward"},
		{"user_annotation", "model_forward", "compute/forward"},
		{"user_annotation", "[pl][profile][Strategy]DDPStrategy.training_step", "compute/forward"},
		{"user_annotation", "## backward ##", "compute/backward"},
		{"user_annotation", "[pl][profile][Strategy]DDPStrategy.backward", "compute/backward"},
		{"user_annotation", "Optimizer.step#AdamW.step", "compute/step"},
		{"user_annotation", "## optimizer ##", "compute/step"},
		{"user_annotation", "[pl][profile][LightningModule]Net.optimizer_step", "compute/step"},
		{"user_annotation", "Optimizer.zero_grad#AdamW.zero_grad", ""},
		{"user_annotation", "save_checkpoint", "checkpoint/capture"},
		{"user_annotation", "[pl][profile][Callback]ModelCheckpoint{...}.on_train_epoch_end", "checkpoint/capture"},
		{"user_annotation", "Restore checkpoint", "checkpoint/restart"},
		{"user_annotation", "activation_checkpoint_save", ""},
		{"cpu_op", "CheckpointFunctionBackward", ""},
		{"user_annotation", "[pl][profile][Strategy]DDPStrategy.validation_step", "pipeline/evaluate"},
		{"user_annotation", "eval", "pipeline/evaluate"},
		{"user_annotation", "## test ##", "pipeline/test"},
		{"user_annotation", "forwarding_table", ""},
		{"cpu_op", "forward", ""},
		{"cpu_op", "aten::add", ""},
	} {
		text := fmt.Sprintf(`{"traceEvents":[{"ph":"X","cat":%q,"name":%q,"pid":1,"tid":1,"ts":1778000000000000,"dur":9,"args":{}}]}`, tc.kind, tc.name)
		c := &capture{}
		if _, err := importBytes(t.Context(), c, &torch.Options{NoInference: true}, "x.json", []byte(text)); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, e := range c.events {
			if e.Cat != "PP" && e.Cat != dftracer.CatDFTracer {
				got += e.Cat + "/" + e.Name
			}
		}
		if got != tc.want {
			t.Errorf("%s %q gives %q, want %q", tc.kind, tc.name, got, tc.want)
		}
	}
}

func TestOutermostRowCounts(t *testing.T) {
	row := `{"ph":"X","cat":"user_annotation","name":"%s","pid":1,"tid":1,"ts":1778000000000%03d,"dur":%d,"args":{}}`
	text := `{"traceEvents":[` + strings.Join([]string{
		fmt.Sprintf(row, "forward", 0, 100), fmt.Sprintf(row, "DistributedDataParallel.forward", 10, 50), fmt.Sprintf(row, "## forward ##", 200, 10),
	}, ",") + `]}`
	c := &capture{}
	if _, err := importBytes(t.Context(), c, &torch.Options{NoInference: true}, "x.json", []byte(text)); err != nil {
		t.Fatal(err)
	}
	if got := c.pick("compute", "forward"); len(got) != 2 || got[0].Dur != 100 || got[1].Dur != 10 {
		t.Errorf("forward %+v, want two of 100 and 10 µs", got)
	}
}

func TestModuleFramesAreForward(t *testing.T) {
	row := `{"ph":"X","cat":"python_function","name":"nn.Module: %s","pid":1,"tid":1,"ts":1778000000000%03d,"dur":%d,"args":{}}`
	text := `{"traceEvents":[` + strings.Join([]string{fmt.Sprintf(row, "Net_0", 0, 100), fmt.Sprintf(row, "Linear_0", 10, 50), fmt.Sprintf(row, "Loss_0", 200, 10)}, ",") + `]}`
	c := &capture{}
	if _, err := importBytes(t.Context(), c, &torch.Options{PythonStacks: true}, "x.json", []byte(text)); err != nil {
		t.Fatal(err)
	}
	got := c.pick("compute", "forward")
	if len(got) != 2 || arg(got[0], "module") != "Net_0" || arg(got[0], "inferred") != "1" || got[0].Dur != 100 {
		t.Errorf("forward %+v, want two, the first Net_0, inferred, 100 µs", got)
	}
}

// Every fixture, written to a file, satisfies the strict reader.
func TestFixturesAreValidTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []dftracer.Dialect{dftracer.V1, dftracer.V2, dftracer.V22} {
		for _, f := range files {
			if strings.Contains(f, "foreign") {
				continue
			}
			w, err := dftracer.Create(filepath.Join(t.TempDir(), "t.pfw.gz"), &dftracer.Options{Dialect: d})
			if err != nil {
				t.Fatal(err)
			}
			srcs, err := torch.Files(f, "testdata/dedicated_log_torch_trace_abc.log")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := torch.Import(t.Context(), w, srcs, &torch.Options{PythonStacks: true}); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			dftest.Check(t, w.Path())
		}
	}
}
