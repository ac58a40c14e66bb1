package pytorch_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/dftracer/dftest"
	"github.com/trainspan/trainspan/integrations/pytorch"
	"github.com/trainspan/trainspan/integrations/pytorch/kineto"
)

// manifest describes the real traces that may lie beside the module.
func manifest(t *testing.T) []manifestEntry {
	t.Helper()
	data, err := os.ReadFile(shared(t, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list []manifestEntry
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

type manifestEntry struct {
	File         string           `json:"file"`
	Events       int64            `json:"events"`
	ByCat        map[string]int64 `json:"by_cat"`
	Uncompressed int64            `json:"uncompressed"`
	Base         *int64           `json:"base_time_ns"`
	Rank, World  *int64
	Records      map[string]int64 `json:"records"`
	Files        []struct {
		File   string           `json:"file"`
		Events int64            `json:"events"`
		ByCat  map[string]int64 `json:"by_cat"`
	} `json:"files"`
}

func TestRealCountsEqualTheManifest(t *testing.T) {
	for _, m := range manifest(t) {
		if _, err := os.Stat(sharedTraces + m.File); err != nil {
			continue
		}
		t.Run(filepath.Base(m.File), func(t *testing.T) {
			_, rep := loadPaths(t, nil, sharedTraces+m.File)
			if m.Records != nil {
				if len(rep.Logs) != 1 {
					t.Fatalf("not read as a compile log: %s", rep)
				}
				return
			}
			if strings.HasSuffix(m.File, ".tar.gz") {
				var sum int64
				for _, f := range rep.Files {
					sum += f.Events
				}
				if len(rep.Files) != 8 || sum != 26538 {
					t.Errorf("%d files, %d events", len(rep.Files), sum)
				}
				return
			}
			f := rep.Files[0]
			if f.Events != m.Events || f.Skipped != 0 || m.Uncompressed != 0 && f.Bytes != m.Uncompressed {
				t.Errorf("%d events, %d skipped, %d bytes; the manifest says %d, %d bytes", f.Events, f.Skipped, f.Bytes, m.Events, m.Uncompressed)
			}
			for cat, n := range m.ByCat {
				if f.Counts[cat] != n {
					t.Errorf("%s: %d, the manifest says %d", cat, f.Counts[cat], n)
				}
			}
			if len(f.Counts) != len(m.ByCat) {
				t.Errorf("categories %v, the manifest says %v", f.Counts, m.ByCat)
			}
			if m.Rank != nil && f.Rank != *m.Rank {
				t.Errorf("rank %d, the manifest says %d", f.Rank, *m.Rank)
			}
		})
	}
}

func TestRealMemoryNet(t *testing.T) {
	for file, want := range map[string]int64{
		"ddp_v100_2gpu_compiled_eager_memory_torch2.0dev.json.gz": 0,
		"norm_layers_fwd_bwd_memory_mi300.json.gz":                1_186_816,
		"cpu_gpu_memory_torch1.9_nw0.pt.trace.json.gz":            19_267_840,
	} {
		_, rep := loadPaths(t, nil, shared(t, file))
		if got := rep.Files[0].MemoryNetBytes; got != want {
			t.Errorf("%s: net %d bytes, want %d", file, got, want)
		}
	}
}

func TestRealDDPTotals(t *testing.T) {
	c, rep := loadPaths(t, nil, shared(t, "ddp_v100_2gpu_compiled_eager_memory_torch2.0dev.json.gz"))
	var kernels, nccl, steps, memory int64
	ncclCount := 0
	for _, e := range c.events {
		switch {
		case e.Cat == "PP" && arg(e, "kind") == "kernel":
			kernels += e.Dur
			if strings.HasPrefix(e.Name, "nccl") {
				nccl += e.Dur
				ncclCount++
			}
		case e.Name == "train.iteration":
			steps += e.Dur
		}
	}
	if kernels != 977_859 || nccl != 357_343 || ncclCount != 2020 || steps != 1_737_720 {
		t.Errorf("kernels %d us, nccl %d us in %d, steps %d us", kernels, nccl, ncclCount, steps)
	}
	memory = rep.Files[0].MemoryInstants
	if memory != 28_010 || rep.Files[0].DeviceUnlinked != 0 || rep.Files[0].Steps != 5 {
		t.Errorf("memory %d, unlinked %d, steps %d", memory, rep.Files[0].DeviceUnlinked, rep.Files[0].Steps)
	}
	comm := c.pick("comm", "")
	var commTime int64
	for _, e := range comm {
		commTime += e.Dur
		if e.Name != "all_reduce" {
			t.Fatalf("comm %+v", e)
		}
	}
	if len(comm) != 2020 || commTime != 357_343 {
		t.Errorf("%d comm events, %d us", len(comm), commTime)
	}
	forward, backward := map[string]int{}, 0
	for _, e := range c.pick("dynamo", "") {
		if !strings.HasPrefix(e.Name, "function.") {
			continue
		}
		if arg(e, "overload") != "unknown" {
			t.Fatalf("an overload is invented: %+v", e)
		}
		switch arg(e, "phase") {
		case "backward":
			backward++
		case "forward":
			forward[e.Name]++
		}
	}
	for name, want := range map[string]int{"function.t": 835, "function.addmm": 755, "function.add": 625, "function.mul": 610, "function.view": 515} {
		if forward[name] != want {
			t.Errorf("%s: %d, want %d", name, forward[name], want)
		}
	}
	if backward != 13_990 {
		t.Errorf("%d backward operators", backward)
	}
}

func TestRealInductorGraph(t *testing.T) {
	c, rep := loadPaths(t, nil, shared(t, "compile_inductor_triton_small.json.gz"))
	var got []string
	launches := 0
	for _, e := range c.pick("dynamo", "") {
		if strings.HasPrefix(e.Name, "region.") || strings.HasPrefix(e.Name, "graph.") {
			continue
		}
		got = append(got, e.Name)
		if num(t, e, "device_us") >= 0 {
			launches++
		}
	}
	want := []string{
		"kernel.triton_red_fused_add_mean_mul_pow_rsqrt_0", "function.mm", "function.mm", "function.mm", "function._scaled_dot_product_flash_attention",
		"function.mm", "kernel.triton_red_fused__unsafe_view_add_mean_mul_pow_rsqrt_1", "function.mm", "function.mm",
		"kernel.triton_poi_fused__unsafe_view_mul_silu_2", "function.mm", "kernel.triton_poi_fused__unsafe_view_add_3",
	}
	if !slices.Equal(got, want) {
		t.Errorf("graph children %q", got)
	}
	if f := rep.Files[0]; f.DeviceRows != 12 || f.DeviceUnlinked != 0 || launches != 12 {
		t.Errorf("%d kernels, %d unlinked, %d graph children with device time", f.DeviceRows, f.DeviceUnlinked, launches)
	}
}

func TestRealRanks(t *testing.T) {
	_, rep := loadPaths(t, nil, shared(t, "dlrm_8rank_ddp_nccl_torch2.1.tar.gz"))
	if len(rep.Ranks) != 1 {
		t.Fatal(rep)
	}
	r := rep.Ranks[0]
	var last []int64
	for _, c := range r.Collectives {
		last = append(last, c.LastRank)
	}
	if !slices.Equal(last, []int64{7, 7, 7, 7, 7, 5, 5, 4}) {
		t.Errorf("last arrivers %v", last)
	}
	if r.EndSpread.Microseconds() > 7 || r.StartSpread.Microseconds() != 7624 || r.Matched != 8 {
		t.Errorf("ends spread %s, starts %s, %d matched", r.EndSpread, r.StartSpread, r.Matched)
	}
}

// In files of torch 1.13 to 2.2 the External id of a kernel is not that of an
// operator; the correlation is right in all of them.
func TestRealCorrelationWins(t *testing.T) {
	for file, unlinked := range map[string]int64{
		"ddp_v100_2gpu_compiled_eager_memory_torch2.0dev.json.gz": 0,
		"ddp_a100_16gpu_inductor_cudagraph_torch2.1dev.json.gz":   872,
		"resnet_gpu_param_torch2.1dev.json.gz":                    0,
		"cpu_gpu_memory_torch1.9_nw0.pt.trace.json.gz":            0,
	} {
		c, rep := loadPaths(t, nil, shared(t, file))
		if got := rep.Files[0].DeviceUnlinked; got != unlinked {
			t.Errorf("%s: %d device rows without launch, want %d", file, got, unlinked)
		}
		for _, e := range c.pick("PP", "") {
			if strings.Contains(e.Name, "sgemm") && arg(e, "unlinked") == "" && arg(e, "op") != "" {
				switch op := arg(e, "op"); {
				case strings.HasPrefix(op, "aten::"), strings.HasPrefix(op, "CompiledFunction"), strings.Contains(op, "onv"):
				default:
					t.Fatalf("%s: a matrix product launched by %q", file, op)
				}
			}
		}
	}
}

func TestRealNanosecondsSurvive(t *testing.T) {
	c, _ := loadPaths(t, nil, shared(t, "v100_ns_resolution_absolute_ts_torch2.4dev.pt.trace.json.gz"))
	want := map[[2]int64]int{}
	f, err := os.Open(sharedTraces + "v100_ns_resolution_absolute_ts_torch2.4dev.pt.trace.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	err = kineto.Walk(f, "x", func(m kineto.Member) error {
		r := kineto.NewReader(m.Body)
		var ev kineto.Event
		for {
			if err := r.Next(&ev); err != nil {
				return nil
			}
			if k := ev.Kind(); k == kineto.KindKernel || k == kineto.KindCPUOp {
				want[[2]int64{ev.TS, ev.Dur}]++
			}
		}
	})
	if err != nil || len(want) == 0 {
		t.Fatal(err)
	}
	for _, e := range c.pick("PP", "") {
		if k := arg(e, "kind"); k == "kernel" || strings.HasPrefix(e.Name, "aten::") {
			if want[[2]int64{num(t, e, "ts_ns"), num(t, e, "dur_ns")}] == 0 {
				t.Fatalf("%s: %s ns for %s ns is not in the file", e.Name, arg(e, "ts_ns"), arg(e, "dur_ns"))
			}
		}
	}
}

// Every real trace, written to a file, has to satisfy the strict reader:
// parents contain their children and nothing overlaps partially on a lane.
func TestRealTracesAreValid(t *testing.T) {
	for _, m := range manifest(t) {
		if _, err := os.Stat(sharedTraces + m.File); err != nil {
			continue
		}
		t.Run(filepath.Base(m.File), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "trace.pfw.gz")
			w, err := dftracer.Create(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			srcs, err := pytorch.Files(sharedTraces + m.File)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := pytorch.Import(t.Context(), w, srcs, &pytorch.Options{PythonStacks: true}); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			dftest.Check(t, w.Path())
		})
	}
}
