package torch_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/torch"
	"github.com/trainspan/trainspan/internal/ingest/torch/kineto"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// manifest describes the real traces that may be beside the module.
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

// realCheck examines the events of one real trace while it is imported. A trace
// is imported once for all its checks, because some have half a million rows.
type realCheck struct {
	event func(t *testing.T, e *dftracer.Event)
	end   func(t *testing.T, rep *torch.Report)
}

type checkSink struct {
	t      *testing.T
	checks []realCheck
}

func (s *checkSink) Write(e *dftracer.Event) {
	all := tracefile.Decoded(e)
	for _, c := range s.checks {
		if c.event != nil {
			c.event(s.t, &all)
		}
	}
}

func TestRealTraces(t *testing.T) {
	special := realChecks()
	for _, m := range manifest(t) {
		if _, err := os.Stat(sharedTraces + m.File); err != nil {
			continue
		}
		t.Run(filepath.Base(m.File), func(t *testing.T) {
			srcs, err := torch.Files(sharedTraces + m.File)
			if err != nil {
				t.Fatal(err)
			}
			sink := &checkSink{t: t, checks: append(special[m.File], realCheck{end: func(t *testing.T, rep *torch.Report) { m.check(t, rep) }})}
			rep, err := torch.Import(t.Context(), sink, srcs, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range sink.checks {
				if c.end != nil {
					c.end(t, rep)
				}
			}
		})
		delete(special, m.File)
	}
	for file := range special {
		if _, err := os.Stat(sharedTraces + file); err == nil {
			t.Errorf("%s is not in the manifest and was not checked", file)
		}
	}
}

// check compares the counts of an import with the manifest.
func (m *manifestEntry) check(t *testing.T, rep *torch.Report) {
	if m.Records != nil {
		if len(rep.Logs) != 1 {
			t.Fatalf("want a compile log, got %s", rep)
		}
		return
	}
	if strings.HasSuffix(m.File, ".tar.gz") {
		var sum int64
		for _, f := range rep.Files {
			sum += f.Events
		}
		if len(rep.Files) != 8 || sum != 26538 {
			t.Errorf("%d files, %d events; want 8, 26538", len(rep.Files), sum)
		}
		return
	}
	f := rep.Files[0]
	if f.Events != m.Events || f.Skipped != 0 || m.Uncompressed != 0 && f.Bytes != m.Uncompressed {
		t.Errorf("%d events, %d skipped, %d bytes; want %d, 0, %d as in the manifest", f.Events, f.Skipped, f.Bytes, m.Events, m.Uncompressed)
	}
	for cat, n := range m.ByCat {
		if f.Counts[cat] != n {
			t.Errorf("%s: %d events, want %d as in the manifest", cat, f.Counts[cat], n)
		}
	}
	if len(f.Counts) != len(m.ByCat) {
		t.Errorf("categories %v, want those of the manifest: %v", f.Counts, m.ByCat)
	}
	if m.Rank != nil && f.Rank != *m.Rank {
		t.Errorf("rank %d, want %d as in the manifest", f.Rank, *m.Rank)
	}
}

// realChecks returns what is known about single files.
func realChecks() map[string][]realCheck {
	const (
		ddp    = "ddp_v100_2gpu_compiled_eager_memory_torch2.0dev.json.gz"
		a100   = "ddp_a100_16gpu_inductor_cudagraph_torch2.1dev.json.gz"
		resnet = "resnet_gpu_param_torch2.1dev.json.gz"
		old    = "cpu_gpu_memory_torch1.9_nw0.pt.trace.json.gz"
		nanos  = "v100_ns_resolution_absolute_ts_torch2.4dev.pt.trace.json.gz"
		mi300  = "norm_layers_fwd_bwd_memory_mi300.json.gz"
		rocm   = "rocm_mi250_minitoy_train.json.gz"
	)
	out := map[string][]realCheck{}
	for file, want := range map[string]int64{ddp: 0, mi300: 1_186_816, old: 19_267_840} {
		out[file] = append(out[file], realCheck{end: func(t *testing.T, rep *torch.Report) {
			if got := rep.Files[0].MemoryNetBytes; got != want {
				t.Errorf("net %d bytes, want %d", got, want)
			}
		}})
	}
	// In files of torch 1.13 to 2.2 the External id of a kernel is not that of an
	// operator; the correlation is correct in all of them.
	for file, want := range map[string]int64{ddp: 0, a100: 872, resnet: 0, old: 0} {
		out[file] = append(out[file], realCheck{event: correlationWins, end: func(t *testing.T, rep *torch.Report) {
			if got := rep.Files[0].DeviceUnlinked; got != want {
				t.Errorf("%d device rows without launch, want %d", got, want)
			}
		}})
	}
	// All rows with a forward thread; the profiler's arrows, if there are any,
	// start at the same rows.
	for file, want := range map[string]int64{rocm: 8, mi300: 102, nanos: 1810, old: 1068, ddp: 20, resnet: 4320, a100: 690} {
		out[file] = append(out[file], realCheck{
			event: func(t *testing.T, e *dftracer.Event) {
				if _, ok := e.Arg("recompute"); ok {
					t.Fatalf("%s is a recompute, want none: nothing is checkpointed here", e.Name)
				}
			},
			end: func(t *testing.T, rep *torch.Report) {
				if got := rep.Files[0].BackwardTied; got != want {
					t.Errorf("%d backward operators tied, want %d", got, want)
				}
			},
		})
	}
	// Device time of phases: the backward pass runs on a thread of autograd.
	for _, file := range []string{nanos, resnet, old, ddp, rocm} {
		var forward, backward int64
		out[file] = append(out[file], realCheck{
			event: func(_ *testing.T, e *dftracer.Event) {
				if us, ok := e.Arg("device_us"); ok && e.Cat == "compute" {
					switch e.Name {
					case "forward":
						forward += us.Int64()
					case "backward":
						backward += us.Int64()
					}
				}
			},
			end: func(t *testing.T, rep *torch.Report) {
				all := rep.Files[0].Device.Microseconds()
				if forward == 0 || backward == 0 || forward+backward > all || (forward+backward)*10 < all*8 {
					t.Errorf("forward %d µs, backward %d µs of %d µs on the device; want 80 %% or more, both above 0", forward, backward, all)
				}
			},
		})
	}
	out[ddp] = append(out[ddp], ddpTotals())
	out[nanos] = append(out[nanos], nanosecondsSurvive(sharedTraces+nanos))
	return out
}

func correlationWins(t *testing.T, e *dftracer.Event) {
	if e.Cat != "PP" || !strings.Contains(e.Name, "sgemm") || arg(*e, "unlinked") != "" || arg(*e, "op") == "" {
		return
	}
	switch op := arg(*e, "op"); {
	case strings.HasPrefix(op, "aten::"), strings.HasPrefix(op, "CompiledFunction"), strings.Contains(op, "onv"):
	default:
		t.Fatalf("a matrix product is launched by %q, want an aten operator, a compiled function or a convolution", op)
	}
}

func ddpTotals() realCheck {
	var kernels, nccl, steps, comm, commTime, ncclCount, backward int64
	forward := map[string]int{}
	return realCheck{
		event: func(t *testing.T, e *dftracer.Event) {
			switch {
			case e.Cat == "PP" && arg(*e, "kind") == "kernel":
				kernels += e.Dur
				if strings.HasPrefix(e.Name, "nccl") {
					nccl += e.Dur
					ncclCount++
				}
			case e.Name == "train.iteration":
				steps += e.Dur
			case e.Cat == "comm":
				comm++
				commTime += e.Dur
				if e.Name != "all_reduce" {
					t.Fatalf("comm event %+v, want all_reduce", e)
				}
			case e.Cat == "dynamo" && strings.HasPrefix(e.Name, "function."):
				if arg(*e, "overload") != "unknown" {
					t.Fatalf("event %+v, want overload unknown", e)
				}
				if arg(*e, "phase") == "backward" {
					backward++
				} else {
					forward[e.Name]++
				}
			}
		},
		end: func(t *testing.T, rep *torch.Report) {
			if kernels != 977_859 || nccl != 357_343 || ncclCount != 2020 || steps != 1_737_720 {
				t.Errorf("kernels %d µs, nccl %d µs in %d, steps %d µs; want 977859, 357343 in 2020, 1737720", kernels, nccl, ncclCount, steps)
			}
			if f := rep.Files[0]; f.MemoryInstants != 28_010 || f.Steps != 5 {
				t.Errorf("%d memory instants, %d steps; want 28010, 5", f.MemoryInstants, f.Steps)
			}
			if comm != 2020 || commTime != 357_343 {
				t.Errorf("%d comm events, %d µs; want 2020, 357343", comm, commTime)
			}
			for name, want := range map[string]int{"function.t": 835, "function.addmm": 755, "function.add": 625, "function.mul": 610, "function.view": 515} {
				if forward[name] != want {
					t.Errorf("%s: %d, want %d", name, forward[name], want)
				}
			}
			if backward != 13_990 {
				t.Errorf("%d backward operators, want 13,990", backward)
			}
		},
	}
}

// nanosecondsSurvive compares the times of all kernels and operators with those
// in the file.
func nanosecondsSurvive(path string) realCheck {
	got := map[[2]int64]int{}
	return realCheck{
		event: func(t *testing.T, e *dftracer.Event) {
			if e.Cat == "PP" && (arg(*e, "kind") == "kernel" || strings.HasPrefix(e.Name, "aten::")) {
				got[[2]int64{num(t, *e, "ts_ns"), num(t, *e, "dur_ns")}]++
			}
		},
		end: func(t *testing.T, _ *torch.Report) {
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			want := map[[2]int64]bool{}
			err = kineto.Walk(f, "x", func(m kineto.Member) error {
				r := kineto.NewReader(m.Body)
				var ev kineto.Event
				for {
					if err := r.Next(&ev); err != nil {
						return nil
					}
					if k := ev.Kind(); k == kineto.KindKernel || k == kineto.KindCPUOp {
						want[[2]int64{ev.TS, ev.Dur}] = true
					}
				}
			})
			if err != nil || len(want) == 0 || len(got) == 0 {
				t.Fatalf("%d times in the file, %d in the trace, %v; want some", len(want), len(got), err)
			}
			for times := range got {
				if !want[times] {
					t.Fatalf("%d ns from %d ns on is not a time of the file", times[0], times[1])
				}
			}
		},
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
		t.Errorf("graph children %q, want %q", got, want)
	}
	if f := rep.Files[0]; f.DeviceRows != 12 || f.DeviceUnlinked != 0 || launches != 12 {
		t.Errorf("%d kernels, %d unlinked, %d graph children with device time; want 12, 0, 12", f.DeviceRows, f.DeviceUnlinked, launches)
	}
}

func TestRealRanks(t *testing.T) {
	_, rep := loadPaths(t, nil, shared(t, "dlrm_8rank_ddp_nccl_torch2.1.tar.gz"))
	if len(rep.Ranks) != 1 {
		t.Fatalf("report %v, want one group of ranks", rep)
	}
	r := rep.Ranks[0]
	var last []int64
	for _, c := range r.Collectives {
		last = append(last, c.LastRank)
	}
	if !slices.Equal(last, []int64{7, 7, 7, 7, 7, 5, 5, 4}) {
		t.Errorf("last arrivers %v, want [7 7 7 7 7 5 5 4]", last)
	}
	if r.EndSpread.Microseconds() > 7 || r.StartSpread.Microseconds() != 7624 || r.Matched != 8 {
		t.Errorf("ends spread by %s, starts by %s, %d matches; want at most 7 µs, 7624 µs, 8", r.EndSpread, r.StartSpread, r.Matched)
	}
}

// Every real trace, written to a file, must satisfy the strict reader: parents
// contain their children and nothing overlaps partially on a lane. Under the
// race detector the large ones are read in part, because only the importer's
// own rules are checked, in one goroutine.
func TestRealTracesAreValid(t *testing.T) {
	if testing.Short() {
		t.Skip("every real trace, validated: make test-long")
	}
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
			srcs, err := torch.Files(sharedTraces + m.File)
			if err != nil {
				t.Fatal(err)
			}
			if m.Uncompressed > raceLimit {
				srcs[0] = firstPart(t, m.File, raceLimit)
			}
			if _, err := torch.Import(t.Context(), w, srcs, &torch.Options{PythonStacks: true}); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			dftest.Check(t, w.Path())
		})
	}
}

// firstPart returns the beginning of a compressed trace.
func firstPart(t *testing.T, file string, n int64) torch.Source {
	t.Helper()
	f, err := os.Open(sharedTraces + file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(io.LimitReader(z, n))
	if err != nil {
		t.Fatal(err)
	}
	return fromBytes(file, data)
}
