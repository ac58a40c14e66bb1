package python_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/testkit/built"
)

// runReport has the parts of the report of trainspan run that the tests use.
type runReport struct {
	Verdict struct {
		Sentence  string
		Straggler struct {
			Kind, Cause string
			Ranks       []int
			Table       []struct {
				Rank int
				Last float64 `json:"last_share"`
			} `json:"ranks_table"`
		}
	}
	Ranks  []struct{ Rank int }
	Steps  struct{ Count int }
	Ledger struct {
		Categories map[string]int64 `json:"categories_ns"`
		Parts      map[string]int64 `json:"productive_parts_ns"`
	}
	Injected []struct {
		Text   string
		Delays int64
		Time   int64 `json:"delay_ns"`
	}
	Checkpoints []struct {
		Blocking int64 `json:"blocking_ns"`
	}
}

// row returns two cells of the table of programs: the share of code without a
// phase in the time of steps, and the headline of the first screen.
func (r *runReport) row(first string) string {
	headline, share := "", "-"
	if lines := strings.SplitN(first, "\n", 3); len(lines) == 3 {
		headline = lines[1]
	}
	var all int64
	for _, ns := range r.Ledger.Parts {
		all += ns
	}
	if all > 0 {
		share = fmt.Sprintf("%.0f %%", 100*float64(r.Ledger.Parts["other_code"])/float64(all))
	}
	return share + " | " + headline
}

// report runs a separate job with trainspan run, and returns its report, the
// traces of the training processes, and its output folder.
func (j *jobProgram) report(t *testing.T, env ...string) (r runReport, trainers []*trace, work string) {
	t.Helper()
	if testing.Short() {
		t.Skip("loads PyTorch")
	}
	version, err := torchVersion()
	if err != nil {
		t.Skip(err)
	}
	if j.since == "new" && version != "new" || j.since == "2.6" && version == "1.13" {
		t.Skipf("not for torch %s", version)
	}
	if j.opt != "" {
		if _, err := os.Stat("/opt/" + j.opt); err != nil {
			t.Skip(err)
		}
	}
	command := built.Command(t)
	dir := filepath.Join(t.TempDir(), "run")
	for _, v := range env {
		key, value, _ := strings.Cut(v, "=")
		t.Setenv(key, value)
	}
	out := j.start(t, command, dir)
	if out.status != 0 {
		t.Fatalf("report: status %d, want 0\n%s%s", out.status, out.out, out.errors)
	}
	text, err := exec.Command(command, "report", "--json", dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "trace-*.pfw.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if tr := readTrace(t, f); tr.main() > 0 {
			trainers = append(trainers, tr)
		}
	}
	return r, trainers, out.work
}

// TestTorchOrdinaryJob checks an ordinary training program with one rank whose
// disk is slow: its start, steps, phases and collectives are recorded, and the
// report names the rank and the cause.
func TestTorchOrdinaryJob(t *testing.T) {
	for name, c := range map[string]struct {
		job   jobProgram
		comms []string
	}{
		"DistributedDataParallel": {jobProgram{run: "sh launch.sh PYTHON charlm.py --updates 50", since: "2.6"}, []string{"bcast", "wait", "barrier", "all_reduce"}},
		"fully_shard":             {jobProgram{run: "sh launch.sh PYTHON charlm.py --sharded --updates 50", since: "new"}, []string{"all_gather", "reduce_scatter", "all_reduce", "barrier"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, trainers, _ := c.job.report(t, "SLOW_RANK=1")
			if len(trainers) != 2 {
				t.Fatalf("%d processes train, want 2", len(trainers))
			}
			for _, tr := range trainers {
				for phase, least := range map[string]int{
					"pipeline/train.iteration": 50, "compute/backward": 50, "compute/step": 50, "compute/step.zero_grad": 50, "compute/forward": 50 + 2*7, "dataloader/fetch.iter": 50,
					"pipeline/evaluate": 2, "startup/interpreter": 1, "startup/imports": 1, "startup/rendezvous": 1, "startup/model": 1, "startup/first_batch": 2,
				} {
					if n := tr.count[phase]; n < least || least == 50 && phase != "dataloader/fetch.iter" && n > least {
						t.Errorf("rank %s: %d of %s, want %d", tr.rank(), n, phase, least)
					}
				}
				for _, name := range c.comms {
					if tr.count["comm/"+name] == 0 {
						t.Errorf("rank %s: no collective %s on record", tr.rank(), name)
					}
				}
				for _, s := range tr.spans {
					if numbered(s) && s.args["seq"] == "" {
						t.Errorf("rank %s: %s has no seq: %v", tr.rank(), s.name, s.args)
					}
				}
				var packages map[string]float64
				if err := json.Unmarshal([]byte(tr.meta["imports"]), &packages); err != nil || len(packages) != 5 || packages["torch"] <= 0 {
					t.Errorf("rank %s: imports %q: %v; want 5 packages, torch among them", tr.rank(), tr.meta["imports"], err)
				}
			}
			if len(r.Checkpoints) != 2 {
				t.Errorf("%d checkpoints, want 2", len(r.Checkpoints))
			}
			ledger := r.Ledger.Categories
			for _, part := range []string{"interpreter", "imports", "rendezvous", "model", "first_batch"} {
				if ledger["startup."+part] <= 0 {
					t.Errorf("startup has no %s: %v", part, ledger)
				}
			}
			if ledger["other"] > ledger["startup.imports"] {
				t.Errorf("startup: more time in other than in imports, want less: %v", ledger)
			}
			table := r.Verdict.Straggler.Table
			if len(table) != 2 || table[1].Rank != 1 && table[0].Rank != 1 {
				t.Fatalf("ranks %+v, want 2", table)
			}
			for _, row := range table {
				if late := row.Last > 0.8; late != (row.Rank == 1) {
					t.Errorf("rank %d is last in %.0f %% of the steps, want rank 1 above 80 %%, rank 0 not", row.Rank, row.Last*100)
				}
			}
			// With sharded parameters the verdict may be that all ranks wait for data.
			if s := r.Verdict.Straggler; name != "fully_shard" && (s.Kind != "slow_ranks" || s.Cause != "input" || len(s.Ranks) != 1 || s.Ranks[0] != 1) {
				t.Errorf("verdict %+v, want slow rank 1, cause input", r.Verdict)
			}
		})
	}
}

// TestTorchFilesOfCheckpoint checks that all files that Trainer writes for a
// checkpoint are recorded.
func TestTorchFilesOfCheckpoint(t *testing.T) {
	j := &jobProgram{run: "frameworks.py trainer", since: "2.6", opt: "huggingface"}
	r, trainers, work := j.report(t)
	if len(r.Checkpoints) != 2 {
		t.Errorf("checkpoints: %+v, want 2", r.Checkpoints)
	}
	if len(trainers) != 1 {
		t.Fatalf("%d processes train, want 1", len(trainers))
	}
	saved := make(map[string][]string) // by folder
	for _, s := range trainers[0].named("checkpoint/capture") {
		dir := filepath.Dir(s.args["path"])
		saved[dir] = append(saved[dir], filepath.Base(s.args["path"]))
	}
	folders, err := filepath.Glob(filepath.Join(work, "checkpoint-*"))
	if err != nil || len(folders) != 2 {
		t.Fatalf("folders %v: %v; want two", folders, err)
	}
	for _, folder := range folders {
		n := 0
		for _, pattern := range []string{"*.safetensors", "*.bin", "*.pt", "*.pth"} {
			files, err := filepath.Glob(filepath.Join(folder, pattern))
			if err != nil {
				t.Fatal(err)
			}
			n += len(files)
		}
		if n == 0 || len(saved[folder]) != n {
			t.Errorf("%s has %d files, want one or more, all on record: %v", folder, n, saved[folder])
		}
	}
}
