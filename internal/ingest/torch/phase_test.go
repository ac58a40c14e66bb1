package torch_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/torch"
	"github.com/trainspan/trainspan/internal/ingest/torch/torchrules"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// profileOf returns a profile of rows, each the inside of a JSON object.
func profileOf(rows ...string) []byte {
	return []byte(`{"distributedInfo":{"backend":"nccl","rank":3,"world_size":8},"traceEvents":[{` + strings.Join(rows, "},\n{") + `}]}`)
}

func hostRow(cat, name string, tid, at, dur int, args string) string {
	return fmt.Sprintf(`"ph":"X","cat":%q,"name":%q,"pid":100,"tid":%d,"ts":%d,"dur":%d,"args":{%s}`, cat, name, tid, stepStart+int64(at), dur, args)
}

// launch returns a runtime call with the kernel it starts.
func launch(tid, at, corr, stream, kernelAt, dur int, kernel string) []string {
	return []string{
		hostRow("cuda_runtime", "cudaLaunchKernel", tid, at, 5, fmt.Sprintf(`"correlation":%d`, corr)),
		fmt.Sprintf(`"ph":"X","cat":"kernel","name":%q,"pid":0,"tid":%d,"ts":%d,"dur":%d,"args":{"device":0,"stream":%d,"correlation":%d}`,
			kernel, stream, stepStart+int64(kernelAt), dur, stream, corr),
	}
}

func importTrace(t *testing.T, opts *torch.Options, rows ...string) (*capture, *torch.Report) {
	t.Helper()
	c := &capture{}
	rep, err := importBytes(t.Context(), c, opts, "x.json", profileOf(rows...))
	if err != nil {
		t.Fatal(err)
	}
	return c, rep
}

// A phase owns what any thread of its process launched inside it: the backward
// pass runs on a thread of autograd.
func TestPhaseOwnsWhatAnyThreadLaunched(t *testing.T) {
	rows := []string{
		hostRow("user_annotation", "ProfilerStep#1", 100, 0, 1000, ""),
		hostRow("user_annotation", "## forward ##", 100, 10, 90, ""),
		hostRow("user_annotation", "## backward ##", 100, 200, 300, ""),
		hostRow("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 101, 210, 200, `"Sequence number":1,"Fwd thread id":1`),
		hostRow("user_annotation", "Optimizer.step#SGD.step", 100, 600, 100, ""),
	}
	rows = append(rows, launch(100, 20, 1, 7, 30, 40, "fw")...)
	rows = append(rows, launch(101, 220, 2, 7, 400, 250, "bw")...) // continues after the phase
	rows = append(rows, launch(100, 510, 3, 7, 700, 7, "between")...)
	rows = append(rows, launch(100, 610, 4, 7, 710, 11, "opt")...)
	c, _ := importTrace(t, nil, rows...)
	for name, want := range map[string]int64{"forward": 40, "backward": 250, "step": 11} {
		if got := num(t, c.one(t, "compute", name), "device_us"); got != want {
			t.Errorf("%s has %d us of device time, want %d", name, got, want)
		}
	}
	if got := num(t, c.one(t, "pipeline", "train.iteration"), "device_us"); got != 308 {
		t.Errorf("the step has %d us, want 308", got)
	}
}

// Collectives are separated from the device's work for a rank, because they
// include the wait for the others.
func TestPhaseKnowsItsCollectives(t *testing.T) {
	rows := []string{
		hostRow("user_annotation", "ProfilerStep#1", 100, 0, 1000, ""),
		hostRow("user_annotation", "## forward ##", 100, 10, 90, ""),
		hostRow("user_annotation", "## backward ##", 100, 200, 300, ""),
	}
	rows = append(rows, launch(100, 20, 1, 7, 30, 40, "fw")...)
	rows = append(rows, launch(100, 220, 2, 7, 230, 250, "bw")...)
	rows = append(rows, launch(100, 230, 3, 13, 300, 120, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)")...)
	c, _ := importTrace(t, nil, rows...)
	if bw := c.one(t, "compute", "backward"); num(t, bw, "device_us") != 370 || num(t, bw, "device_comm_us") != 120 {
		t.Errorf("backward %+v, want 370 µs on the device, 120 of communication", bw)
	}
	if fw := c.one(t, "compute", "forward"); arg(fw, "device_comm_us") != "" {
		t.Errorf("forward %+v, want no communication", fw)
	}
}

func TestInferredPhasesHaveDeviceTime(t *testing.T) {
	rows := []string{
		hostRow("cpu_op", "aten::mm", 100, 10, 50, `"Sequence number":1,"Fwd thread id":0`),
		hostRow("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 101, 200, 100, `"Sequence number":1,"Fwd thread id":1`),
		hostRow("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 102, 220, 50, `"Sequence number":1,"Fwd thread id":1`),
	}
	rows = append(rows, launch(100, 20, 1, 7, 30, 40, "fw")...)
	rows = append(rows, launch(101, 210, 2, 7, 300, 20, "bw")...)
	rows = append(rows, launch(102, 230, 3, 8, 300, 30, "bw of another device")...)
	c, _ := importTrace(t, nil, rows...)
	if fw := c.one(t, "compute", "forward"); num(t, fw, "device_us") != 40 || num(t, fw, "inferred") != 1 {
		t.Errorf("forward %+v, want 40 µs on the device, inferred", fw)
	}
	back := c.pick("compute", "backward")
	if len(back) != 2 || num(t, back[0], "device_us") != 50 || num(t, back[1], "device_us") != 30 {
		t.Errorf("backward %+v, want two of 50 and 30 µs on the device", back)
	}
}

func TestKernelClasses(t *testing.T) {
	for _, tc := range []struct{ name, class, op string }{
		{"ncclDevKernel_AllReduce_Sum_bf16_NVLS(ncclDevKernelArgsStorage<4096ul>)", "comm", "all_reduce"},
		{"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(x)", "comm", "unknown"},
		{"ncclDevKernel_Generic_4(x)", "comm", "unknown"},
		{"ncclSymkDevKernel_ReduceScatter_LD_sum_f32(x)", "comm", "reduce_scatter"},
		{"void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16>(x)", "comm", "all_reduce"},
		{"void c10d::symmetric_memory::two_shot_all_reduce_kernel_inplace<float>(x)", "comm", "all_reduce"},
		{"void deep_ep::intranode::dispatch<8, 768, 8192>(int4*)", "comm", "all_to_all"},
		{"void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>(x)", "comm", "all_to_all"},
		{"void deep_ep::internode::notify_dispatch<false, 8>(int const*)", "comm", "all_to_all"},
		{"void deep_ep::internode_ll::combine<false>(void*)", "comm", "all_to_all"},
		{"void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(x)", "comm", "all_reduce"},
		{"void sglang::cross_device_reduce_2stage<half, 4>(x)", "comm", "all_reduce"},
		{"void aiter::cross_device_reduce_2stage<bf16, 8>(x)", "comm", "all_reduce"},
		{"void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<x>(y)", "comm", "all_reduce"},
		{"void tensorrt_llm::kernels::twoShotAllReduceKernel<half>(x)", "comm", "all_reduce"},
		{"mscclKernel_Sum_half_Simple_AllReduce(x)", "comm", "all_reduce"},
		{"void mscclpp::allreduce7<float>(x)", "comm", "all_reduce"},
		{"nvshmemi_barrier_on_stream_kernel(x)", "comm", "barrier"},
		{"oneccl_allreduce_kernel", "comm", "all_reduce"},
		{"void kuserbuffers_pushsend(int*)", "comm", "unknown"},
		{"hcom_allReduce_", "comm", "all_reduce"},
		{"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(x)", "compute", ""},
		{"triton_poi_fused_all_gather_into_tensor_wait_tensor_add_0", "compute", ""},
		{"void deep_ep::layout::get_dispatch_layout<256>(x)", "compute", ""},
		{"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", "compute", ""},
		{"void at::native::vectorized_gather_kernel<16, long>(x)", "compute", ""},
		{"void cub::DeviceReduceByKeyKernel<x>(y)", "compute", ""},
		{"Memcpy HtoD", "copy", ""},
	} {
		c, _ := importTrace(t, nil, launch(100, 10, 1, 7, 20, 30, tc.name)...)
		k := c.one(t, "PP", tc.name)
		got := arg(k, "class")
		if got == "" {
			got = "compute"
		}
		if got != tc.class {
			t.Errorf("%s is %s, want %s", tc.name, got, tc.class)
		}
		comm := c.pick("comm", "")
		switch {
		case tc.op == "" && len(comm) != 0:
			t.Errorf("%s is classified as comm.%s, want no collective", tc.name, comm[0].Name)
		case tc.op != "" && (len(comm) != 1 || comm[0].Name != tc.op):
			t.Errorf("%s gives %q, want comm.%s", tc.name, names(comm), tc.op)
		}
	}
}

func TestOwnRulesComeFirst(t *testing.T) {
	table, err := torchrules.Parse(strings.NewReader(`
# ours
kernel comm.all_gather ^mylib::ring
kernel compute  ^ncclDevKernel_AllReduce
annotation compute.forward ^net (?P<net>.*)$
annotation none ^## backward
`))
	if err != nil {
		t.Fatal(err)
	}
	rows := slices.Concat(
		launch(100, 10, 1, 7, 20, 30, "mylib::ring<3>(x)"), launch(100, 40, 2, 7, 60, 30, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"),
		[]string{hostRow("user_annotation", "net a b", 100, 0, 100, ""), hostRow("user_annotation", "## backward ##", 100, 200, 10, "")})
	c, _ := importTrace(t, &torch.Options{Rules: append(table.Rows, torchrules.Annotations()...), DeviceRules: table.Kernels}, rows...)
	if comm := c.pick("comm", ""); len(comm) != 1 || comm[0].Name != "all_gather" {
		t.Errorf("comm events %+v, want one all_gather", comm)
	}
	if fw := c.one(t, "compute", "forward"); arg(fw, "net") != "a b" || num(t, fw, "device_us") != 60 {
		t.Errorf(`forward %+v, want net "a b" and 60 µs on the device`, fw)
	}
	if n := len(c.pick("compute", "backward")); n != 0 {
		t.Errorf("%d backward spans, want none: the own rule for them comes first", n)
	}
	// The printed rules parse to the same rules.
	var first, second strings.Builder
	both := torchrules.Table{Rows: torchrules.Annotations(), Kernels: torchrules.Kernels()}
	if _, err := both.WriteTo(&first); err != nil {
		t.Fatal(err)
	}
	again, err := torchrules.Parse(strings.NewReader(first.String()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.WriteTo(&second); err != nil || first.String() != second.String() {
		t.Errorf("%v: the rules written again differ:\n%s\n%s", err, first.String(), second.String())
	}
	for i, r := range again.Rows {
		if r.Arg != both.Rows[i].Arg || r.Ops != both.Rows[i].Ops {
			t.Errorf("rule read back is %+v, want %+v", r, both.Rows[i])
		}
	}
	for _, bad := range []string{"kernel comm", "kernel io ^x", "kernel copy.fast ^x", "row a.b ^x", "annotation forward ^x", "operator a.b (", "annotation"} {
		if _, err := torchrules.Parse(strings.NewReader("\n" + bad)); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("Parse(%q) = %v, want an error in line 2", bad, err)
		}
	}
}

func TestDeviceUse(t *testing.T) {
	rows := []string{`"ph":"X","cat":"Trace","name":"PyTorch Profiler (0)","pid":"Spans","tid":"PyTorch Profiler","ts":` + fmt.Sprint(stepStart) + `,"dur":1000,"args":{}`}
	rows = append(rows, launch(100, 1, 1, 7, 100, 200, "gemm")...)                           // 100..300
	rows = append(rows, launch(100, 2, 2, 8, 200, 300, "ncclDevKernel_AllReduce_Sum(x)")...) // 200..500
	rows = append(rows, launch(100, 3, 3, 9, 250, 20, "gemm")...)                            // hidden
	rows = append(rows, fmt.Sprintf(`"ph":"X","cat":"gpu_memcpy","name":"Memcpy DtoD","pid":0,"tid":7,"ts":%d,"dur":100,"args":{"device":0,"stream":7,"correlation":9}`, stepStart+450))
	_, rep := importTrace(t, nil, rows...)
	us := func(n int) time.Duration { return time.Duration(n) * time.Microsecond }
	want := torch.DeviceUse{Window: us(1000), Compute: us(200), Comm: us(300), ExposedComm: us(200), Copy: us(100), Idle: us(550)}
	if got := rep.Files[0].Devices; len(got) != 1 || got[0] != want {
		t.Errorf("devices %+v, want %+v", got, want)
	}
}

func TestUnknownDeviceCategories(t *testing.T) {
	for _, tc := range []struct {
		cat, args string
		counted   bool
	}{
		{"mtia_ccp_events", `"correlation":1`, true},
		{"npu_kernel", `"device":0,"stream":3,"correlation":1`, true},
		{"ascend", `"Stream Id":3,"Device Id":0`, true},
		{"cuda_profiler_range", `"device":0`, false},
	} {
		row := fmt.Sprintf(`"ph":"X","cat":%q,"name":"work","pid":0,"tid":3,"ts":%d,"dur":40,"args":{%s}`, tc.cat, stepStart, tc.args)
		c, rep := importTrace(t, nil, hostRow("cpu_op", "aten::add", 100, 0, 90, ""), row)
		e := c.one(t, "PP", "work")
		if e.PID != 100 || e.TID < 1_000_000_000 || arg(e, "category") != tc.cat || num(t, e, "device_id") != 0 {
			t.Errorf("%s: event %+v, want process 100, a lane of the device, the category kept", tc.cat, e)
		}
		want := time.Duration(0)
		if tc.counted {
			want = 40 * time.Microsecond
		}
		if f := rep.Files[0]; f.Device != want {
			t.Errorf("%s: device time %s, want %s", tc.cat, f.Device, want)
		}
		if op := c.one(t, "PP", "aten::add"); op.TID != 100 {
			t.Errorf("%s: operator %+v, want it on thread 100", tc.cat, op)
		}
	}
}

func TestInferenceIsNoTraining(t *testing.T) {
	rows := []string{
		hostRow("user_annotation", "ProfilerStep#1", 100, 0, 100, ""),
		hostRow("cpu_op", "aten::mm", 100, 10, 50, `"Sequence number":1,"Fwd thread id":0`),
		hostRow("cpu_op", "aten::add", 100, 70, 10, ""),
	}
	c, _ := importTrace(t, nil, rows...)
	if got := names(c.pick("pipeline", "")); !slices.Equal(got, []string{"iteration"}) {
		t.Errorf("pipeline %q, want [iteration]", got)
	}
	c.one(t, "ai_root", "ai_root")
	c, _ = importTrace(t, nil, append(rows, hostRow("user_annotation", "Optimizer.step#SGD.step", 100, 85, 10, ""))...)
	train := c.one(t, "pipeline", "train")
	root := c.one(t, "ai_root", "ai_root")
	if train.TS != stepStart || train.Dur != 100 || train.Parent != int64(root.ID) || num(t, train, "inferred") != 1 || root.TS > train.TS || root.End() < train.End() {
		t.Errorf("train %+v in %+v, want 100 µs from the start of the step, inferred, inside the root", train, root)
	}
	c.one(t, "pipeline", "train.iteration")
	c, _ = importTrace(t, &torch.Options{NoInference: true}, rows...)
	if len(c.pick("ai_root", "")) != 0 || len(c.pick("pipeline", "train")) != 0 {
		t.Error("got inferred events, want none")
	}
}

func TestEpochsOnlyWhereTheyWereRecorded(t *testing.T) {
	rows := []string{
		hostRow("user_annotation", "epoch 4", 100, 0, 200, ""), hostRow("user_annotation", "## backward ##", 100, 10, 50, ""),
	}
	c, _ := importTrace(t, nil, rows...)
	if e := c.one(t, "pipeline", "epoch.block"); num(t, e, "epoch") != 4 || e.Dur != 200 {
		t.Errorf("epoch %+v, want epoch 4, 200 µs", e)
	}
	c, _ = importTrace(t, nil, rows[1])
	if n := len(c.pick("pipeline", "epoch.block")); n != 0 {
		t.Error("got an epoch, want none")
	}
	c, _ = importTrace(t, &torch.Options{HasEpoch: true}, rows[1])
	if e := c.one(t, "compute", "backward"); num(t, e, "epoch") != 0 {
		t.Errorf("backward %+v, want epoch 0", e)
	}
}

// Two windows of one process are one run.
func TestOneRootPerProcess(t *testing.T) {
	one, two := dlrmLike(3, 0), dlrmLike(3, 5_000_000)
	c := &capture{}
	_, err := torch.Import(t.Context(), c, []torch.Source{fromBytes("a.json", one), fromBytes("b.json", two)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	root, train := c.one(t, "ai_root", "ai_root"), c.one(t, "pipeline", "train")
	if train.TS != stepStart || train.End() != stepStart+5_000_000+100 || root.Dur < train.Dur {
		t.Errorf("root %+v, train %+v; want train over both steps, inside the root", root, train)
	}
}

func dlrmLike(step, at int) []byte {
	return profileOf(hostRow("user_annotation", fmt.Sprintf("ProfilerStep#%d", step), 100, at, 100, ""), hostRow("user_annotation", "## backward ##", 100, at+10, 50, ""))
}

func TestLanesHaveNames(t *testing.T) {
	rows := []string{
		hostRow("user_annotation", "ProfilerStep#1", 100, 0, 1000, ""),
		hostRow("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 101, 210, 200, `"Sequence number":1,"Fwd thread id":1`),
		hostRow("cpu_op", "aten::copy_", 102, 210, 20, ""),
		hostRow("cpu_op", "aten::copy_", 103, 210, 20, ""),
		fmt.Sprintf(`"ph":"M","name":"thread_name","pid":100,"tid":102,"ts":%d,"args":{"name":"thread 102 (pt_data_pin)"}`, stepStart),
		fmt.Sprintf(`"ph":"M","name":"thread_name","pid":100,"tid":103,"ts":%d,"args":{"name":"thread 103 (watchdog)"}`, stepStart),
	}
	rows = append(rows, launch(100, 20, 1, 7, 30, 40, "a")...)
	rows = append(rows, launch(100, 21, 2, 7, 50, 40, "b")...)
	c, _ := importTrace(t, nil, rows...)
	got := map[int64]string{}
	for _, e := range c.pick(dftracer.CatDFTracer, tracefile.NameThreadName) {
		got[e.TID] = arg(e, "name")
	}
	for tid, want := range map[int64]string{
		100: "rank 3 main", 101: "autograd", 102: "loader 1", 103: "thread 103 (watchdog)", 1_000_000_007: "GPU 0 stream 7",
		1_000_100_007: "GPU 0 stream 7, overlapping 1", 710_000_000: "rank 3 job",
	} {
		if got[tid] != want {
			t.Errorf("lane %d is %q, want %q (%v)", tid, got[tid], want, got)
		}
	}
	for _, e := range c.events {
		if e.Phase == dftracer.PhaseComplete && got[e.TID] == "" {
			t.Errorf("lane %d of %s has no name", e.TID, e.Name)
		}
	}
}

// The sink is opened after the files are read, with the first moment of the
// job.
func TestBeginGetsTheFirstTime(t *testing.T) {
	c := &capture{}
	var start time.Time
	opts := &torch.Options{Begin: func(s time.Time) (torch.Sink, error) {
		start = s
		return c, nil
	}}
	if _, err := importBytes(t.Context(), nil, opts, "x.json", profileOf(hostRow("cpu_op", "aten::add", 100, 0, 90, ""))); err != nil {
		t.Fatal(err)
	}
	first := int64(math.MaxInt64)
	for _, e := range c.events {
		if e.Phase == dftracer.PhaseComplete {
			first = min(first, e.TS)
		}
	}
	if start.UnixMicro() != stepStart || first != stepStart {
		t.Errorf("start %s, first event at %d; want both at %d", start, first, stepStart)
	}
}

func TestMemoryRowsHaveBothPercents(t *testing.T) {
	c, _ := load(t, nil, "era_absolute_int.json")
	m := c.one(t, "PP", "[memory]")
	for _, key := range []string{"total_cpu_percent", "total_device_percent"} {
		if a, ok := m.Arg(key); !ok || a.Float64() != 0 {
			t.Errorf("%s: %+v, want a value of 0", key, m.Args)
		}
	}
}

func TestStepsWithoutKineto(t *testing.T) {
	row := `[{"ph":"X","name":"ProfilerStep#4","pid":"CPU functions","tid":1,"ts":10,"dur":90,"args":{}},{"ph":"X","name":"aten::add","pid":"CPU functions","tid":1,"ts":20,"dur":9,"args":{}}]`
	c := &capture{}
	rep, err := importBytes(t.Context(), c, nil, "x.json", []byte(row))
	if err != nil {
		t.Fatal(err)
	}
	if rep.Files[0].Steps != 1 || num(t, c.one(t, "PP", "aten::add"), "step") != 4 {
		t.Errorf("report %s, want 1 step, number 4", rep)
	}
}

// The profiler opens a step after the last one and closes it when it is
// stopped.
func TestTheTailOfAProfileIsNoStep(t *testing.T) {
	for _, c := range []struct {
		name string
		last int // how long the last step lasts, in microseconds
		want int
	}{{"a tail of 43 us", 43, 2}, {"a short step", 2000, 3}} {
		var rows []string
		for k, dur := range []int{50_000, 48_000, c.last} {
			rows = append(rows, fmt.Sprintf(`"ph":"X","cat":"user_annotation","name":"ProfilerStep#%d","pid":100,"tid":100,"ts":%d,"dur":%d,"args":{}`, k+5, stepStart+int64(60_000*k), dur))
		}
		ct, rep := importTrace(t, nil, rows...)
		steps := append(ct.pick("pipeline", "train.iteration"), ct.pick("pipeline", "iteration")...)
		if len(steps) != c.want || rep.Files[0].Steps != int64(c.want) {
			t.Errorf("%s: %d steps are written and %d reported, want %d", c.name, len(steps), rep.Files[0].Steps, c.want)
		}
	}
}

func TestBackwardOverloadsComeFromTheLog(t *testing.T) {
	c, _ := load(t, nil, "compile.json", "dedicated_log_torch_trace_abc.log")
	for _, e := range c.pick("dynamo", "") {
		if arg(e, "phase") == "backward" && strings.HasPrefix(e.Name, "function.") {
			if e.Name != "function.mul.Tensor" || arg(e, "overload_from") != "compile log" {
				t.Errorf("backward %+v, want function.mul.Tensor from the compile log", e)
			}
		}
	}
}

func TestBeginAndEndAreOneRow(t *testing.T) {
	half := func(phase, name string, tid, at int, args string) string {
		return fmt.Sprintf(`"ph":%q,"cat":"cpu_op","name":%q,"pid":100,"tid":%d,"ts":%d,"args":{%s}`, phase, name, tid, stepStart+int64(at), args)
	}
	c, rep := importTrace(t, nil,
		half("B", "outer", 100, 0, `"Sequence number":3`), half("B", "other", 101, 5, ""), half("B", "inner", 100, 10, ""),
		half("E", "inner", 100, 30, ""), half("E", "", 101, 45, ""), half("E", "outer", 100, 90, ""),
		half("E", "never begun", 102, 50, ""), half("B", "never ended", 103, 50, ""))
	for name, want := range map[string][2]int64{"outer": {0, 90}, "other": {5, 40}, "inner": {10, 20}} {
		if e := c.one(t, "PP", name); e.TS != stepStart+want[0] || e.Dur != want[1] {
			t.Errorf("%s is %d µs after the start, %d µs long; want %d, %d", name, e.TS-stepStart, e.Dur, want[0], want[1])
		}
	}
	if f := rep.Files[0]; len(c.pick("PP", "")) != 3 || f.HalfEvents != 2 || f.Counts["cpu_op/B"] != 4 || len(f.Warnings) != 1 {
		t.Errorf("%d rows, file %+v; want 3, 2 half events, 4 of cpu_op/B, 1 warning", len(c.pick("PP", "")), f)
	}
	if inner := c.one(t, "PP", "inner"); inner.Parent != int64(c.one(t, "PP", "outer").ID) {
		t.Errorf("inner %+v, want outer as parent", inner)
	}
}

// The profiler writes times before its base as 0; they do not extend the job.
func TestStrayTimesDoNotStretchTheJob(t *testing.T) {
	rows := []string{
		`"ph":"X","cat":"Trace","name":"PyTorch Profiler (0)","pid":"Spans","tid":"PyTorch Profiler","ts":5000000000000,"dur":1000,"args":{}`,
		`"ph":"X","cat":"cpu_op","name":"aten::add","pid":100,"tid":100,"ts":5000000000100,"dur":10,"args":{}`,
		`"ph":"X","cat":"cpu_op","name":"aten::mul","pid":100,"tid":100,"ts":0,"dur":10,"args":{}`,
	}
	text := `{"baseTimeNanoseconds":1775078550000000000,"traceEvents":[{` + strings.Join(rows, "},\n{") + `}]}`
	c := &capture{}
	var start time.Time
	opts := &torch.Options{Begin: func(s time.Time) (torch.Sink, error) { start = s; return c, nil }}
	if _, err := importBytes(t.Context(), nil, opts, "x.json", []byte(text)); err != nil {
		t.Fatal(err)
	}
	const want = int64(1775078550000000 + 5000000000000)
	if root := c.one(t, "ai_root", "ai_root"); root.TS != want || root.Dur != 1000 || start.UnixMicro() != want {
		t.Errorf("root %+v, start %s; want 1000 µs from %d", root, start, want)
	}
}
