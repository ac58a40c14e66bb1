package torch_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/ingest/torch"
)

func TestOneEventPerCollective(t *testing.T) {
	c, _ := load(t, nil, "ranks_0.json")
	if got := len(c.pick("comm", "")); got != 3 {
		t.Fatalf("%d comm events for three collectives, want 3", got)
	}
	r := c.one(t, "comm", "all_reduce")
	for key, want := range map[string]string{
		"coll": "allreduce", "dtype": "Float", "in_bytes": "1024", "out_bytes": "2048", "group_size": "2", "pg": "0", "pg_desc": "default_pg",
		"host_launch_us": "10", "stream": "20",
	} {
		if got := arg(r, key); got != want {
			t.Errorf("%s = %q, want %q", key, got, want)
		}
	}
	if r.Dur != 400 {
		t.Errorf("collective %+v, want the 400 µs of the kernel", r)
	}
	// Without recorded parameters the annotation around the launch is used.
	if s := c.one(t, "comm", "reduce_scatter"); arg(s, "in_bytes") != "1024" {
		t.Errorf("reduce_scatter %+v, want 1024 bytes in", s)
	}
	if _, ok := r.Arg("wait_us"); ok {
		t.Error("got waits from one rank, want none")
	}
}

func TestRanksOnOneAxis(t *testing.T) {
	c, rep := load(t, nil, "ranks_1.json", "ranks_0.json")
	if len(rep.Ranks) != 1 {
		t.Fatalf("rank reports: %d, want 1", len(rep.Ranks))
	}
	r := rep.Ranks[0]
	if r.Matched != 3 || r.Offsets[1] != -5*time.Millisecond || r.EndSpread > time.Microsecond {
		t.Errorf("%d matches, offsets %v, ends spread by %v; want 3, -5 ms for rank 1, at most 1 µs", r.Matched, r.Offsets, r.EndSpread)
	}
	for i, want := range []struct {
		last   int64
		spread time.Duration
	}{{1, 200 * time.Microsecond}, {0, 300 * time.Microsecond}, {-1, 0}} {
		if s := r.Collectives[i]; s.LastRank != want.last || s.StartSpread.Round(time.Microsecond) != want.spread {
			t.Errorf("collective %d: %+v, want last rank %d, starts spread by %s", i, s, want.last, want.spread)
		}
	}
	reduce := c.pick("comm", "all_reduce")
	if len(reduce) != 2 || reduce[0].End() != reduce[1].End() {
		t.Fatalf("reduce %+v, want two that end together", reduce)
	}
	if num(t, reduce[0], "rank") != 0 || num(t, reduce[0], "wait_us") != 200 || num(t, reduce[0], "last_rank") != 1 || num(t, reduce[1], "wait_us") != 0 {
		t.Errorf("waits %+v, want rank 0 to wait 200 µs for rank 1", reduce)
	}
	if reduce[0].HostHash == reduce[1].HostHash {
		t.Error("two unknown hosts share a hash")
	}
	_, rep = load(t, &torch.Options{NoAlignment: true}, "ranks_0.json", "ranks_1.json")
	if r := rep.Ranks[0]; r.Offsets[1] != 0 || r.Estimated[1] != -5*time.Millisecond {
		t.Errorf("without alignment: %+v, want no offset, -5 ms estimated", r)
	}
}

func TestHostCollectives(t *testing.T) {
	c, _ := load(t, nil, "gloo.json")
	all := c.pick("comm", "")
	if len(all) != 2 {
		t.Fatalf("%d comm events, want those of the backend's rows: %+v", len(all), all)
	}
	if r := c.one(t, "comm", "all_reduce"); r.Dur != 500 || arg(r, "in_bytes") != "4000" || arg(r, "clock") != "host" {
		t.Errorf("all_reduce %+v, want 500 µs, 4000 bytes in, host clock", r)
	}
	if b := c.one(t, "comm", "bcast"); arg(b, "in_bytes") != "80" {
		t.Errorf("bcast %+v, want 80 bytes in", b)
	}
}

// TestLaunchesAreNoCollectives checks a profile of a job with NCCL without rows of the device: a
// host only launches there.
func TestLaunchesAreNoCollectives(t *testing.T) {
	rows := func(backend string) []string {
		return []string{hostRow("cpu_op", "c10d::allreduce_", 12, 100, 60, ""), hostRow("cpu_op", "record_param_comms", 12, 105, 50, ""), hostRow("user_annotation", backend+":all_reduce", 12, 110, 40, "")}
	}
	for backend, want := range map[string]int{"nccl": 0, "xccl": 0, "gloo": 1} {
		c, rep := importTrace(t, nil, rows(backend)...)
		said := strings.Contains(strings.Join(rep.Files[0].Unknown, "; "), "only their launches")
		if got := len(c.pick("comm", "")); got != want || said == (want > 0) {
			t.Errorf("%s: %d collectives, want %d; reported %v: %q", backend, got, want, said, rep.Files[0].Unknown)
		}
	}
}

// TestUnknownRanksAreLast checks that the order of files is that of their ranks, unknown ones last.
func TestUnknownRanksAreLast(t *testing.T) {
	unknown := fromBytes("x.json", []byte(`{"traceEvents":[{`+hostRow("cpu_op", "aten::none", 12, 1, 2, "")+`}]}`))
	c, _ := importAll(t, rankTrace(3, 4, hostRow("cpu_op", "aten::three", 12, 1, 2, "")), unknown, rankTrace(1, 4, hostRow("cpu_op", "aten::one", 12, 1, 2, "")))
	var got []string
	for _, e := range c.pick("PP", "") {
		got = append(got, e.Name)
	}
	if want := []string{"aten::one", "aten::three", "aten::none"}; !slices.Equal(got, want) {
		t.Errorf("events in order %q, want %q", got, want)
	}
}
