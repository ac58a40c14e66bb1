package resources

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
)

// TestDevice checks that the GPU of a process is recorded if the driver lists
// it or exactly one GPU is visible to the process, and this evidence agrees.
func TestDevice(t *testing.T) {
	for name, c := range map[string]struct {
		environment string
		computes    []string  // UUIDs, in the order of the driver's list
		want        []float64 // values of the counter "compute_gpu", -1 for several
	}{
		"nothing is known":                   {"LOCAL_RANK=1\x00", nil, nil},
		"all are visible":                    {"CUDA_VISIBLE_DEVICES=0,1\x00LOCAL_RANK=1\x00", nil, nil},
		"one is visible":                     {"A=b\x00CUDA_VISIBLE_DEVICES=1\x00", nil, []float64{1}},
		"one is visible, by UUID":            {"CUDA_VISIBLE_DEVICES=GPU-bb\x00", nil, []float64{1}},
		"a short UUID":                       {"CUDA_VISIBLE_DEVICES=GPU-b\x00", nil, []float64{1}},
		"a UUID that fits two":               {"CUDA_VISIBLE_DEVICES=GPU-\x00", nil, nil},
		"a part of a GPU":                    {"CUDA_VISIBLE_DEVICES=MIG-bb\x00", nil, nil},
		"one that is not sampled":            {"CUDA_VISIBLE_DEVICES=7\x00", nil, nil},
		"the driver lists it":                {"", []string{"GPU-aa", "GPU-aa"}, []float64{0}},
		"the driver lists one not sampled":   {"", []string{"GPU-cc"}, nil},
		"on two":                             {"", []string{"GPU-aa", "GPU-bb"}, []float64{-1}},
		"the driver and the variable differ": {"CUDA_VISIBLE_DEVICES=0\x00", []string{"GPU-bb"}, []float64{-1}},
		"the driver and the variable agree":  {"CUDA_VISIBLE_DEVICES=1\x00", []string{"GPU-bb"}, []float64{1}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t)
			file := filepath.Join(t.TempDir(), "resources.pfw")
			w, err := dftracer.Create(file, nil)
			if err != nil {
				t.Fatal(err)
			}
			root := filepath.Join(s.root, "proc")
			sampler := &Sampler{o: Options{Proc: root}, tree: newTree(root, Member{Command: 11, Base: 10}), writer: w, limit: -1, held: [2]int64{-1, -1}, gpus: make(map[string]*gpuUsage)}
			now := time.Unix(1_800_000_000, 0)
			s.process(11, 10, "python", 1, 1, 0)
			s.write("proc/11/environ", c.environment)
			sampler.gpu(gpuSample{index: "0", uuid: "GPU-aa"}, now)
			sampler.gpu(gpuSample{index: "1", uuid: "GPU-bb"}, now)
			sampler.sample(now)
			for _, uuid := range c.computes {
				sampler.computes(11, uuid)
				sampler.computes(12, "GPU-aa") // a foreign process
			}
			for i := range 3 {
				sampler.sample(now.Add(time.Duration(i+1) * time.Second))
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if got := samples(t, file)["11 compute_gpu gpu"]; !slices.Equal(got, c.want) {
				t.Errorf("device = %v, want %v", got, c.want)
			}
		})
	}
}

// TestReadGPUs checks that nvidia-smi is called again without the newer fields,
// and for the computing processes.
func TestReadGPUs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nvidia-smi")
	if err := os.WriteFile(path, []byte(`#!/bin/sh
case "$1" in
*clocks*) echo 'Field "clocks_throttle_reasons.active" is not a valid field to query.' ;;
--query-gpu=*) echo "1, GPU-bb, 97, 40536, 81559, 612.40" ;;
--query-compute-apps=pid,gpu_uuid) echo "No running processes found"; echo "11, GPU-bb" ;;
esac
`), 0o755); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	g, stop := GPUs{Path: path}, make(chan struct{})
	defer close(stop)
	var got []string
	g.read(stop, func(s gpuSample, _ time.Time) { got = append(got, s.index+" "+s.uuid) })
	g.readProcesses(stop, func(pid int, uuid string) { got = append(got, uuid) })
	if want := []string{"1 GPU-bb", "GPU-bb"}; !slices.Equal(got, want) {
		t.Errorf("readGPUs gave %q, want %q", got, want)
	}
}

func TestInInitialNamespace(t *testing.T) {
	for name, want := range map[string]bool{initialNamespace: true, "pid:[4026532210]": false, "": false} {
		root := t.TempDir()
		if err := os.MkdirAll(filepath.Join(root, "self/ns"), 0o755); err != nil {
			t.Fatal(err)
		}
		if name != "" {
			if err := os.Symlink(name, filepath.Join(root, "self/ns/pid")); err != nil {
				t.Fatal(err)
			}
		}
		if got := inInitialNamespace(root); got != want {
			t.Errorf("inInitialNamespace() with %q = %v, want %v", name, got, want)
		}
	}
}
