package python_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/ingest/pyring"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/testkit/gziptest"
)

// TestTorchHarmless checks the state that the hooks must not change, with and
// without them.
func TestTorchHarmless(t *testing.T) {
	for name, env := range map[string]string{"on": "TRAINSPAN_TORCH=1", "off": "TRAINSPAN_TORCH=0", "not recorded": "DFTRACER_ENABLE=0"} {
		t.Run(name, func(t *testing.T) {
			j := newTorchJob(t, "harmless.py")
			j.Env = append(j.Env, env)
			if out := j.run(t); !strings.HasSuffix(out, "fine") {
				t.Errorf("it printed %q, want it to end with \"fine\"", out)
			}
		})
	}
}

// TestTorchOwnErrors checks that an error in any function of the client does not
// reach the program.
func TestTorchOwnErrors(t *testing.T) {
	out, n := newTorchJob(t, "faults.py").run(t), 0
	if _, err := fmt.Sscanf(out, "%d functions\n", &n); err != nil || n < 80 {
		t.Errorf("it printed\n%s\nwant one line, with 80 functions or more", out)
	}
}

// TestTorchTracebacks checks that errors of the program are the same as without
// the hooks, and that their tracebacks have no frame of the client.
func TestTorchTracebacks(t *testing.T) {
	printed := func(env string) string {
		j := newTorchJob(t, "tracebacks.py")
		j.Env = append(j.Env, env)
		return j.run(t)
	}
	got, want := printed("TRAINSPAN_TORCH=1"), printed("TRAINSPAN_TORCH=0")
	if !strings.Contains(want, "ValueError KeyError('missing')") || strings.Contains(want, "nothing was raised") {
		t.Fatalf("without the hooks it printed\n%s\nwant both exceptions", want)
	}
	for i, line := range strings.Split(want, "\n") {
		if lines := strings.Split(got, "\n"); i >= len(lines) || lines[i] != line {
			t.Errorf("line %d with the hooks:\n%s\nwant\n%s", i+1, lines[min(i, len(lines)-1)], line)
		}
	}
}

// TestTorchFailedSaves checks that a save or a load that raises an error is a
// failed span, without the size of a file.
func TestTorchFailedSaves(t *testing.T) {
	program := filepath.Join(t.TempDir(), "unsaved.py")
	text := `
import os, sys
import torch

class Bad:
    def __reduce__(self):
        raise OSError(28, "No space left on device")

path = sys.argv[1]
for what in {"bad": Bad()}, {"good": torch.ones(3)}:
    try:
        torch.save(what, path)
    except OSError:
        assert os.path.exists(path)
torch.load(path)
with open(path, "w") as f:
    f.write("no checkpoint")
try:
    torch.load(path)
except Exception:
    print("fine")
`
	if err := os.WriteFile(program, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "saved")
	j := newTorchJob(t, program, path)
	if out := j.run(t); !strings.HasSuffix(out, "fine\n") {
		t.Fatalf("it printed %q, want \"fine\"", out)
	}
	tr := only(t, j.traces(t), "checkpoint/capture")
	var got []string
	for _, name := range []string{"checkpoint/capture", "checkpoint/restart"} {
		for _, s := range tr.named(name) {
			got = append(got, fmt.Sprintf("%s %s size %t", name, s.args["otel.status_code"], s.args["bytes"] != ""))
			if s.args["path"] != path {
				t.Errorf("%s has path %q, want %q", name, s.args["path"], path)
			}
		}
	}
	want := []string{"checkpoint/capture ERROR size false", "checkpoint/capture  size true", "checkpoint/restart  size true", "checkpoint/restart ERROR size false"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestTorchRanks checks collectives, groups, checkpoints and spawned workers.
func TestTorchRanks(t *testing.T) {
	j := newTorchJob(t, "ranks.py")
	if out := j.run(t); out != "fine" {
		t.Errorf("it printed %q, want \"fine\"", out)
	}
	var ranks, workers int
	for _, tr := range j.traces(t) {
		if tr.meta["role"] == "dataloader_worker" {
			workers++
			if n := tr.count["dataloader/fetch"]; n != 2 || len(tr.spans) != n {
				t.Errorf("counts %v, want 2 fetches and nothing else in a worker", tr.count)
			}
			continue
		}
		if len(tr.spans) == 0 {
			continue // the program that starts the ranks
		}
		ranks++
		zero := tr.meta["rank"] == "0"
		for name, want := range map[string]int{
			"startup/rendezvous": 1, "comm/comm.init": 1, "comm/all_reduce": 2, "comm/all_gather": 2, "comm/bcast": 2, "comm/reduce": 1, "comm/gather": 1, "comm/scatter": 1, "comm/barrier": 1,
			"comm/wait": 1, "pipeline/train.iteration": 2, "checkpoint/capture": 3, "checkpoint/restart": 1, "checkpoint/capture.finalize": 1,
			"dataloader/fetch": 0, "ai_root/ai_root": 1,
		} {
			if zero && (name == "comm/all_reduce" || name == "comm/wait") {
				want++ // of the group of rank 0; for the send, where the wait of rank 1 is the receive
			}
			if got := tr.count[name]; got != want {
				t.Errorf("rank %s: %d of %s, want %d", tr.meta["rank"], got, name, want)
			}
		}
		message, peer, want := "comm/receive", "0", 3
		if zero {
			message, peer, want = "comm/send", "1", 2
		}
		messages := tr.named(message)
		if len(messages) != want {
			t.Errorf("rank %s: %d of %s, want %d", tr.meta["rank"], len(messages), message, want)
		}
		for i, s := range messages {
			if later := map[bool]string{true: "1"}[i == 1]; s.args["peer"] != peer || s.args["async"] != later || s.args["bytes"] != "1024" {
				t.Errorf("rank %s: %s %d: %v, want peer %s, 1024 bytes, async %q", tr.meta["rank"], message, i, s.args, peer, later)
			}
		}
		for i, s := range tr.named("comm/all_reduce") {
			if want := map[bool]string{true: "1"}[i == 1]; s.args["bytes"] != "1024" || s.args["async"] != want {
				t.Errorf("all_reduce %d: %v, want 1024 bytes, async %q", i, s.args, want)
			}
			if size := map[bool]string{true: "1", false: "2"}[i == 2]; s.args["pg"] == "" || s.args["group_size"] != size || s.args["dtype"] != "float32" || s.args["seq"] == "" {
				t.Errorf("all_reduce %d: %v, want a group of %s, float32 and a seq", i, s.args, size)
			}
		}
		if s := tr.named("comm/all_gather")[0]; s.args["bytes"] != "2048" {
			t.Errorf("all_gather: %v, want 2048 bytes", s.args)
		}
		for _, name := range []string{"checkpoint/capture", "checkpoint/restart"} {
			s := tr.named(name)[0]
			if n, err := strconv.Atoi(s.args["bytes"]); err != nil || n < 400 || filepath.Base(s.args["path"]) != "rank"+tr.meta["rank"]+".pt" {
				t.Errorf("%s: %v, want 400 bytes or more and the file of the rank", name, s.args)
			}
		}
		if tr.meta["world_size"] != "2" && tr.named("ai_root/ai_root")[0].args["world_size"] != "2" {
			t.Errorf("metadata %v, want world_size 2", tr.meta)
		}
	}
	if ranks != 2 || workers != 2 {
		t.Errorf("%d ranks, %d workers; want 2, 2", ranks, workers)
	}
}

// TestTorchKilledInCollective checks that a collective is recorded from its
// start.
func TestTorchKilledInCollective(t *testing.T) {
	j := newTorchJob(t, "killed.py")
	if out := j.run(t); out != "-9\n" {
		t.Fatalf("it printed %q, want %q", out, "-9\n")
	}
	st, err := pyring.Import(context.Background(), []string{j.rings}, pyring.Options{Out: t.TempDir(), Attempt: -1})
	if err != nil {
		t.Fatal(err)
	}
	var open []string
	for _, f := range st.Files {
		packed, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(gziptest.Text(t, packed))) {
			if strings.Contains(line, `"name":"span.begin","value":"all_reduce"`) {
				open = append(open, line)
			}
		}
	}
	if len(open) != 1 || !strings.Contains(open[0], `"seq":4,"pg":"0","group_size":2,"bytes":16,"dtype":"float32"`) {
		t.Errorf("open all_reduces %q, want one with its arguments", open)
	}
}

// TestTorchManyCollectives checks that each collective has its group and its
// number in it, from any thread, and also if there are too many sizes to name
// each.
func TestTorchManyCollectives(t *testing.T) {
	j := newTorchJob(t, "many.py")
	if out := j.run(t); out != "fine" {
		t.Fatalf("it printed %q, want \"fine\"", out)
	}
	numbers := map[string][]string{} // by group
	for _, tr := range j.traces(t) {
		for _, s := range tr.spans {
			if s.name == "comm/all_reduce" {
				numbers[s.args["pg"]+s.args["background"]] = append(numbers[s.args["pg"]+s.args["background"]], s.args["seq"])
			}
		}
	}
	for group, n := range map[string]int{"0": 300, "11": 3} {
		want := make([]string, n)
		for i := range want {
			want[i] = strconv.Itoa(i + 1)
		}
		if !slices.Equal(numbers[group], want) {
			t.Errorf("group %s: %q, want %q", group, numbers[group], want)
		}
	}
	if len(numbers) != 2 {
		t.Errorf("%d groups, want 2: %v", len(numbers), numbers)
	}
}

// TestTorchParallel checks that the part of DistributedDataParallel's
// all-reduce after the last gradient is recorded as a wait, if gradients are
// reduced at all.
func TestTorchParallel(t *testing.T) {
	j := newTorchJob(t, "parallel.py")
	if out := j.run(t); out != "fine" {
		t.Errorf("it printed %q, want \"fine\"", out)
	}
	version, err := torchVersion()
	if err != nil {
		t.Fatal(err)
	}
	ranks := 0
	for _, tr := range j.traces(t) {
		if len(tr.spans) == 0 {
			continue // the program that starts the ranks
		}
		ranks++
		waits := tr.named("comm/wait")
		// Each step accumulates gradients once, reduces them once, and trains another
		// model. From torch 2 on, that model counts as one whose gradients are reduced,
		// because DistributedDataParallel no longer counts its forwards.
		want := 6
		if version != "1.13" {
			want = 2 * 6
		}
		if n := tr.count["compute/backward"]; n != 3*6+1 || len(waits) != want {
			t.Errorf("%d backwards, %d waits, want %d", n, len(waits), want)
		}
		for _, s := range waits {
			if s.up == nil || s.up.name != "compute/backward" || s.Dur > s.up.Dur {
				t.Errorf("parent of a wait is %+v, want compute/backward around it", s.up)
			}
		}
	}
	if ranks != 2 {
		t.Errorf("%d ranks, want 2", ranks)
	}
}

// TestTorchPhases checks that disabled phases are not written, and that the
// others do not change.
func TestTorchPhases(t *testing.T) {
	for _, c := range []struct {
		env  string
		want map[string]int
		gone string // what is told as not recorded
	}{
		{"TRAINSPAN_ONLY=forward,data", map[string]int{"compute/forward": 24, "dataloader/fetch.iter": 16, "dataloader/fetch.start": 4}, ""},
		{"TRAINSPAN_WITHOUT=forward,backward,optimizer,zero_grad,data,application,loop,epoch,evaluation", map[string]int{"pipeline/train.iteration": 8}, ""},
		{"TRAINSPAN_ONLY=forwards,data", map[string]int{"dataloader/fetch.iter": 16, "dataloader/fetch.start": 4}, `["unknown phase in TRAINSPAN_ONLY or TRAINSPAN_WITHOUT: forwards"]`},
		{"TRAINSPAN_TORCH=0", nil, ""},
	} {
		t.Run(c.env, func(t *testing.T) {
			j := newTorchJob(t, "loops.py", "plain")
			j.Env = append(j.Env, c.env)
			j.run(t)
			rings, err := pyring.Rings(j.rings)
			if err != nil {
				t.Fatal(err)
			}
			if c.want == nil {
				if len(rings) > 0 {
					t.Errorf("there are rings: %v, want none", rings)
				}
				return
			}
			got := make(map[string]int)
			for _, tr := range j.traces(t) {
				if gone := tr.meta[job.FactMissing]; gone != c.gone {
					t.Errorf("told as not recorded: %q, want %q", gone, c.gone)
				}
				for name, n := range tr.count {
					got[name] += n
				}
			}
			for name, n := range c.want {
				if got[name] != n {
					t.Errorf("%d of %s, want %d", got[name], name, n)
				}
				delete(got, name)
			}
			if len(got) > 0 {
				t.Errorf("there is more: %v, want none", got)
			}
		})
	}
}

// TestTorchStandIns checks device times.
func TestTorchStandIns(t *testing.T) {
	j := newTorchJob(t, "standins.py")
	if out := j.run(t); out != "fine" {
		t.Fatalf("it printed %q, want \"fine\"", out)
	}
	tr := only(t, j.traces(t), "ai_root/ai_root")
	for name, want := range map[string]int{
		"device/forward": 20, "device/backward": 20, "device/step": 20, "device/wait": 20, "device/all_reduce": 20, "device/bcast": 20,
		"comm/wait": 20, "comm/all_reduce": 20, "comm/bcast": 20, "compute/forward": 20, "compute/step": 20,
	} {
		if got := tr.count[name]; got != want {
			t.Errorf("%d of %s, want %d", got, name, want)
		}
	}
	if kind := tr.meta["launches"]; kind != "xpu" {
		t.Errorf("the host's spans are launches for %q, want \"xpu\"", kind)
	}
	hosts := tr.named("compute/forward")
	var last int64
	longer := 0 // a process that waits for a CPU records an event late
	for i, s := range tr.named("device/forward") {
		// 3 ms on the device's clock
		if s.Dur > 3500 {
			longer++
		}
		if s.Dur < 2900 || s.args["background"] != "1" || s.TID == hosts[0].TID {
			t.Errorf("forward %d on the device: %d µs, %v; want 2900 or more, in the background on another lane", i, s.Dur, s.args)
		}
		if s.TS < last || i < len(hosts) && s.TS < hosts[i].TS-100 {
			t.Errorf("forward %d on the device starts at %d, want it after the one before and not before the host's at %d", i, s.TS, hosts[i].TS)
		}
		last = s.TS + s.Dur
		// The trace has the time of the host's request, and its step.
		lag, err := strconv.ParseFloat(s.args["lag_us"], 64)
		if launch := s.TS - int64(lag); i < len(hosts) && (err != nil || launch < hosts[i].TS-1 || launch > hosts[i].TS+hosts[i].Dur+1 || s.args["step"] != hosts[i].args["step"]) {
			t.Errorf("forward %d on the device of step %s: launched %s µs before %d, want a launch within the span of the host %+v", i, s.args["step"], s.args["lag_us"], s.TS, hosts[i])
		}
	}
	if longer > 10 {
		t.Errorf("%d of 20 forwards are longer than 3.5 ms on the device, want at most 10", longer)
	}
	for _, s := range tr.named("device/bcast") { // on a separate stream
		if s.args["stream"] != "7" || s.args["background"] != "1" || s.args["lag_us"] != "" || s.TID == tr.named("device/forward")[0].TID {
			t.Errorf("span %+v, want stream 7, in the background, without a lag, on a track of its own", s)
		}
	}
	for _, name := range []string{"comm/wait", "device/wait"} {
		if s := tr.named(name)[3]; s.args["pg"] != "4" || s.args["group_size"] != "2" {
			t.Errorf("%s: %v, want group 4 of 2 ranks", name, s.args)
		}
	}
}

// TestTorchDevices checks that a program that uses only the second device has
// device times of that one, and no event on the current device, which would
// create a context there.
func TestTorchDevices(t *testing.T) {
	j := newTorchJob(t, "standins.py", "devices")
	if out := j.run(t); out != "fine" {
		t.Fatalf("it printed %q, want \"fine\"", out)
	}
	steps := make(map[string]int)
	for _, s := range only(t, j.traces(t), "ai_root/ai_root").named("device/forward") {
		steps[s.args["step"]]++
	}
	for step := range 30 {
		want := 1
		if step >= 10 && step < 20 { // of a model without a parameter on a device
			want = 0
		}
		if got := steps[strconv.Itoa(step)]; got != want {
			t.Errorf("step %d has %d forwards on the device, want %d", step, got, want)
		}
	}
}

// TestTorchBeside checks that a forward on another thread has no device time:
// it would count in the step of the training.
func TestTorchBeside(t *testing.T) {
	j := newTorchJob(t, "standins.py", "threads")
	if out := j.run(t); out != "fine" {
		t.Fatalf("it printed %q, want \"fine\"", out)
	}
	tr := only(t, j.traces(t), "ai_root/ai_root")
	for _, name := range []string{"compute/forward", "device/forward", "device/backward", "device/step"} {
		if got := tr.count[name]; got != 20 {
			t.Errorf("%d of %s, want 20", got, name)
		}
	}
}

// TestTorchThreads checks that the import of PyTorch is part of the start, and
// that the training is recorded, if they are not in the main thread.
func TestTorchThreads(t *testing.T) {
	for _, where := range []string{"here", "there"} {
		t.Run(where, func(t *testing.T) {
			j := newTorchJob(t, "threads.py", where)
			j.run(t)
			tr := only(t, j.traces(t), "ai_root/ai_root")
			if n := tr.count["pipeline/train.iteration"]; n != 6 {
				t.Errorf("%d iterations, want 6", n)
			}
			of := ""
			for _, s := range tr.named("startup/imports") {
				of += s.args["package"] + " "
			}
			if !strings.Contains(of, "torch ") {
				t.Errorf("imports of %q, want torch", of)
			}
		})
	}
}

// TestTorchGraphs checks that the replay of a captured graph that trains is a
// step, and that its capture and the preparation of graphed callables are none.
func TestTorchGraphs(t *testing.T) {
	j := newTorchJob(t, "standins.py", "graphs")
	if out := j.run(t); out != "fine" {
		t.Fatalf("it printed %q, want \"fine\"", out)
	}
	tr := only(t, j.traces(t), "ai_root/ai_root")
	for name, want := range map[string]int{
		"pipeline/train.iteration": 3 + 5 + 8, "compute/replay": 5 + 8, "device/replay": 5 + 8, "compute/forward": 3, "compute/backward": 3, "compute/step": 3,
		"pipeline/epoch.block": 2, "pipeline/evaluate": 2, "dataloader/fetch.iter": 20,
	} {
		if got := tr.count[name]; got != want {
			t.Errorf("%d of %s, want %d", got, name, want)
		}
	}
	for i, s := range tr.named("compute/replay") {
		if got, want := s.args["step"], strconv.Itoa(3+i); got != want || !s.below("pipeline/train.iteration") {
			t.Errorf("replay %d is in step %s, want step %s in an iteration", i, got, want)
		}
	}
}

// TestTorchSampled checks that only some steps have times on a device if events
// take too long, that these have all of their times, and that others cost no
// call of the device.
func TestTorchSampled(t *testing.T) {
	j := newTorchJob(t, "standins.py", "sampled")
	var records, queries, elapsed int
	if _, err := fmt.Sscan(j.run(t), &records, &queries, &elapsed); err != nil {
		t.Fatal(err)
	}
	tr := only(t, j.traces(t), "ai_root/ai_root")
	if n := tr.count["compute/forward"]; n != 800 {
		t.Errorf("%d of compute/forward, want 800", n)
	}
	seen := make(map[int]map[string]int) // by step
	for _, s := range tr.spans {
		if s.Cat != "device" {
			continue
		}
		step, err := strconv.Atoi(s.args["step"])
		if err != nil {
			t.Fatalf("%s: %v", s.name, s.args)
		}
		if seen[step] == nil {
			seen[step] = make(map[string]int)
		}
		seen[step][s.Name]++
	}
	// An event takes a sixth of a step: each decision doubles the distance of the
	// blocks. They are closer together again when events take nothing.
	early, late := 0, 0
	for step := range 800 {
		if step%8 > 0 && (seen[step] == nil) != (seen[step-1] == nil) {
			t.Errorf("steps %d and %d of a block have %v and %v, want both or none", step-1, step, seen[step-1], seen[step])
		}
		if got := seen[step]; got != nil && (got["forward"] != 1 || got["backward"] != 1 || got["step"] != 1) {
			t.Errorf("step %d has %v on the device, want one of each phase", step, got)
		}
		switch {
		case seen[step] == nil:
		case step < 300:
			early++
		case step >= 600:
			late++
		}
	}
	if early < 40 || early > 64 || late < 16 {
		t.Errorf("%d of the first 300 steps and %d of the last 200 have times, want 40 to 64, and 16 or more", early, late)
	}
	if records != 6*early || elapsed > records || queries > records/2 {
		t.Errorf("%d steps with times took %d events, %d queries, %d calls of elapsed_time; want %d events, at most half as many queries, at most as many calls", early, records, queries, elapsed, 6*early)
	}
	if got := tr.meta["device_steps"]; !strings.HasPrefix(got, "8 of ") {
		t.Errorf("device_steps is %q, want \"8 of \" first", got)
	}
}

// TestTorchGPU trains on a GPU, where there is one: the client changes no result,
// no forked process fails, and each phase has its time on the device.
func TestTorchGPU(t *testing.T) {
	j := newTorchJob(t, "gpu.py")
	bare := exec.Command(j.Path, j.Args[1:]...)
	want, err := bare.CombinedOutput()
	if err != nil {
		t.Fatalf("without the client: %v\n%s", err, want)
	}
	if string(want) == "no GPU" {
		t.Skip("PyTorch finds no GPU")
	}
	if got := j.run(t); got != string(want) {
		t.Errorf("program printed %q, want %q as without the client", got, want)
	}
	tr := only(t, j.traces(t), "ai_root/ai_root")
	for _, phase := range []string{"forward", "backward", "step"} {
		seen := make(map[string]int) // by step
		for _, s := range tr.named("device/" + phase) {
			if s.Dur <= 0 || s.Dur > 10_000_000 {
				t.Errorf("%d µs for a %s on the device, want more than 0, at most 10 s", s.Dur, phase)
			}
			seen[s.args["step"]]++
		}
		for step := range 40 {
			// Later ones may have none, because events take long.
			if n := seen[strconv.Itoa(step)]; n == 0 && step < 16 || n > 1 && phase != "forward" {
				t.Errorf("%d of %s on the device in step %d, want one", n, phase, step)
			}
		}
	}
}

// TestTorchOwnSpans checks that a span of the program around the client's span,
// or inside of it by a decorator, replaces it.
func TestTorchOwnSpans(t *testing.T) {
	j := newTorchJob(t, "own.py")
	if out := j.run(t); out != "fine" {
		t.Fatalf("it printed %q, want \"fine\"", out)
	}
	tr := only(t, j.traces(t), "compute/forward")
	for name, want := range map[string]int{
		"compute/forward": 32, "compute/backward": 16, "compute/step": 16, "compute/step.zero_grad": 16, "pipeline/train.iteration": 16, "dataloader/fetch.iter": 16,
	} {
		if got := tr.count[name]; got != want {
			t.Errorf("%d of %s, want %d", got, name, want)
		}
	}
}
