package job_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/job"
)

// event returns one event of process 4 with its own arguments.
func event(id int, name, cat, args string) string {
	return fmt.Sprintf(`{"id":%d,"name":%q,"cat":%q,"pid":4,"tid":1,"ts":%d,"dur":10,"ph":"X","args":{"hhash":"h","level":1,"p_idx":-1,%s}}`,
		id, name, cat, base+int64(id), args)
}

// TestRolesAndDevices checks what distinguishes ranks that do different work,
// and what an import of profiles adds.
func TestRolesAndDevices(t *testing.T) {
	text := strings.Join([]string{
		process(4, 0, 100, "", app),
		event(10, "train", "pipeline", `"expert_group":"a","pipeline_stage":2,"pp_rank":2`),
		event(11, "train.iteration", "pipeline", `"step":7,"role":"decoder"`),
		event(12, "forward", "compute", `"step":7,"role":"nothing of the rank","device_us":40.5,"device_comm_us":8`),
		event(13, "all_reduce", "comm", `"step":6,"pg":"tp","group_size":2`),
		event(14, "forward", "device", `"background":1,"lag_us":3.5`),
		event(15, "forward", "compute", `"lag_us":3.5`),
		event(16, "receive", "comm", `"peer":0`),
		event(17, "receive", "comm", `"peer":-1`), // from any rank
	}, "\n")
	r := readAll(t, files(t, map[string]string{"a.pfw": text}))
	want := map[uint64]job.Span{
		10: {Role: "expert group a, stage 2", Step: job.Unknown},
		11: {Role: "decoder", Step: 7},
		12: {Step: job.Unknown, Profiling: job.Profiling{Device: 40_500, DeviceComm: 8_000}},
		13: {Step: 6, Group: "tp", GroupSize: 2},
		14: {Step: job.Unknown, Profiling: job.Profiling{Launch: (base+14)*1000 - 3_500}}, // it began this much after the host had requested it
		15: {Step: job.Unknown},
		16: {Step: job.Unknown, Peer: 1},
		17: {Step: job.Unknown},
	}
	for _, sp := range r.sinks[r.jobs[0].Processes[0]].spans {
		w, ok := want[sp.ID]
		delete(want, sp.ID)
		if ok && (sp.Role != w.Role || sp.Step != w.Step || sp.Device != w.Device || sp.DeviceComm != w.DeviceComm || sp.Group != w.Group || sp.GroupSize != w.GroupSize || sp.Peer != w.Peer || sp.Launch != w.Launch) {
			t.Errorf("%+v, want %+v", sp, w)
		}
	}
	if len(want) != 0 {
		t.Errorf("not read: %v, want none", want)
	}
	lines := fmt.Sprintf(`{"type":"complete","id":"77","name":"training_loop","attributes":{"role":"decoder","pp_rank":3},"start_event":{"name":"span_start","attributes":{"timestamp_msec":%d}},"stop_event":{"name":"span_stop","attributes":{"timestamp_msec":%d}},"count":3,"pid":4}`+"\n", base/1000+5, base/1000+25)
	r = readAll(t, files(t, map[string]string{"a.jsonl": lines}))
	if got := r.sinks[r.jobs[0].Processes[0]].spans[0].Role; got != "decoder, stage 3" {
		t.Errorf("role %q in JSON lines, want \"decoder, stage 3\"", got)
	}
}
