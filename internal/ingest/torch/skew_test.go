package torch_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/trainspan/trainspan/internal/ingest/torch"
)

// The tests of this file make damaged, shifted, drifting and mixed variants of
// a real job of eight ranks, and of a small generated one if the real one is
// absent.

// rankFile is a trace that a test changes.
type rankFile struct {
	name string
	top  map[string]json.RawMessage
	rows []map[string]any
}

func readRank(name string, body io.Reader) (*rankFile, error) {
	f := &rankFile{name: name}
	if err := json.NewDecoder(body).Decode(&f.top); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(f.top["traceEvents"]))
	d.UseNumber()
	return f, d.Decode(&f.rows)
}

// dlrmFiles reads the eight ranks once, with what collectives need.
var dlrmFiles = sync.OnceValues(func() ([]*rankFile, error) {
	data, err := os.ReadFile(sharedTraces + "dlrm_8rank_ddp_nccl_torch2.1.tar.gz")
	if err != nil {
		return nil, err
	}
	zr, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	var out []*rankFile
	tr := tar.NewReader(zr)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if !strings.HasSuffix(h.Name, ".json") || strings.HasPrefix(h.FileInfo().Name(), "._") {
			continue
		}
		f, err := readRank(h.FileInfo().Name(), tr)
		if err != nil {
			return nil, err
		}
		f.nccl()
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b *rankFile) int { return strings.Compare(a.name, b.name) })
	if len(out) != 8 {
		return nil, fmt.Errorf("%d ranks", len(out))
	}
	return out, nil
})

// dlrm returns copies of the eight ranks of a real job.
func dlrm(t *testing.T) []*rankFile {
	t.Helper()
	shared(t, "dlrm_8rank_ddp_nccl_torch2.1.tar.gz")
	files, err := dlrmFiles()
	if err != nil {
		t.Fatal(err)
	}
	out := make([]*rankFile, len(files))
	for i, f := range files {
		out[i] = f.clone()
	}
	return out
}

func (f *rankFile) clone() *rankFile {
	c := &rankFile{name: f.name, top: maps.Clone(f.top)}
	for _, e := range f.rows {
		e = maps.Clone(e)
		if args, ok := e["args"].(map[string]any); ok {
			e["args"] = maps.Clone(args)
		}
		c.rows = append(c.rows, e)
	}
	return c
}

// warp changes every time of a file, in nanoseconds since 1970.
func (f *rankFile) warp(to func(ns int64) int64) {
	for _, e := range f.rows {
		ts, ok := e["ts"].(json.Number)
		if !ok {
			continue
		}
		start, dur := micros(ts), int64(0)
		if d, ok := e["dur"].(json.Number); ok {
			dur = micros(d)
		}
		e["ts"] = number(to(start))
		if dur > 0 {
			e["dur"] = number(to(start+dur) - to(start))
		}
	}
}

func micros(n json.Number) int64 {
	whole, frac, _ := strings.Cut(string(n), ".")
	frac = (frac + "000")[:3]
	var us, ns int64
	fmt.Sscan(whole, &us)
	fmt.Sscan(strings.TrimLeft(frac, "0")+"", &ns)
	return us*1000 + ns
}

func number(ns int64) json.Number { return json.Number(fmt.Sprintf("%d.%03d", ns/1000, ns%1000)) }

// keep keeps the rows for which the function returns true.
func (f *rankFile) keep(ok func(e map[string]any) bool) {
	f.rows = slices.DeleteFunc(f.rows, func(e map[string]any) bool { return !ok(e) })
}

// repeat appends copies of all rows, each a period later and with its steps
// renumbered.
func (f *rankFile) repeat(n int, period time.Duration) {
	once := f.rows
	for k := 1; k < n; k++ {
		for _, e := range once {
			c := maps.Clone(e)
			if ts, ok := e["ts"].(json.Number); ok {
				c["ts"] = number(micros(ts) + int64(k)*int64(period))
			}
			if name, _ := e["name"].(string); strings.HasPrefix(name, "ProfilerStep#") {
				c["name"] = fmt.Sprintf("ProfilerStep#%d", 10+k)
			}
			if args, ok := e["args"].(map[string]any); ok {
				if corr, ok := args["correlation"].(json.Number); ok {
					own := maps.Clone(args)
					own["correlation"] = json.Number(fmt.Sprintf("%s%02d", corr, k))
					c["args"] = own
				}
			}
			f.rows = append(f.rows, c)
		}
	}
}

// nccl keeps only what the collectives and the steps need, so that large
// variants stay small.
func (f *rankFile) nccl() {
	corr := map[string]bool{}
	for _, e := range f.rows {
		if isNCCL(e) {
			corr[correlation(e)] = true
		}
	}
	f.keep(func(e map[string]any) bool {
		name, _ := e["name"].(string)
		cat, _ := e["cat"].(string)
		return isNCCL(e) || strings.HasPrefix(name, "nccl:") || strings.HasPrefix(name, "ProfilerStep#") && cat == "user_annotation" ||
			name == "record_param_comms" || cat == "Trace" || cat == "cuda_runtime" && corr[correlation(e)]
	})
}

func isNCCL(e map[string]any) bool {
	name, _ := e["name"].(string)
	return e["cat"] == "kernel" && strings.HasPrefix(name, "nccl")
}

func correlation(e map[string]any) string {
	args, _ := e["args"].(map[string]any)
	n, _ := args["correlation"].(json.Number)
	return string(n)
}

func (f *rankFile) source(t *testing.T) torch.Source {
	t.Helper()
	rows, err := json.Marshal(f.rows)
	if err != nil {
		t.Fatal(err)
	}
	top := map[string]json.RawMessage{}
	for k, v := range f.top {
		top[k] = v
	}
	top["traceEvents"] = rows
	data, err := json.Marshal(top)
	if err != nil {
		t.Fatal(err)
	}
	return fromBytes(f.name, data)
}

func importRanks(t *testing.T, opts *torch.Options, files ...*rankFile) (*capture, *torch.Report) {
	t.Helper()
	var srcs []torch.Source
	for _, f := range files {
		srcs = append(srcs, f.source(t))
	}
	c := &capture{}
	rep, err := torch.Import(t.Context(), c, srcs, opts)
	if err != nil {
		t.Fatal(err)
	}
	return c, rep
}

func offsetOf(rep *torch.Report, group int, rank int64) time.Duration {
	r := rep.Ranks[group]
	return r.Offsets[slices.Index(r.Ranks, rank)]
}

func near(a, b, within time.Duration) bool { return (a - b).Abs() <= within }

func TestShiftedRankIsMovedBack(t *testing.T) {
	ranks := dlrm(t)
	ranks[3].warp(func(ns int64) int64 { return ns + 7_000_000 })
	_, rep := importRanks(t, nil, ranks...)
	if len(rep.Ranks) != 1 {
		t.Fatalf("report %v, want one group of ranks", rep)
	}
	r := rep.Ranks[0]
	for i, d := range r.Offsets {
		want := time.Duration(0)
		if i == 3 {
			want = -7 * time.Millisecond
		}
		if !near(d, want, 5*time.Microsecond) {
			t.Errorf("rank %d moved by %s, want %s", i, d, want)
		}
	}
	if r.EndSpread > 15*time.Microsecond || r.Residuals[3] > 10*time.Microsecond || r.Confidence[3] == "none" {
		t.Errorf("ends spread by %s, residual %s, confidence %s; want at most 15 µs, 10 µs, not none", r.EndSpread, r.Residuals[3], r.Confidence[3])
	}
}

func TestDifferentJobsAreNotAligned(t *testing.T) {
	t.Run("world size", func(t *testing.T) {
		ranks := dlrm(t)
		ranks[1].top["distributedInfo"] = json.RawMessage(`{"backend":"nccl","rank":1,"world_size":16}`)
		_, rep := importRanks(t, nil, ranks[0], ranks[1], ranks[2])
		for _, f := range rep.Files {
			if f.ClockOffset != 0 {
				t.Errorf("rank %d moved by %s, want 0", f.Rank, f.ClockOffset)
			}
			if f.Rank == 1 && !strings.Contains(strings.Join(f.Unknown, "\n"), "world size") {
				t.Errorf("unknown %q, want the world size as a reason", f.Unknown)
			}
		}
		if len(rep.Ranks) != 1 || !slices.Equal(rep.Ranks[0].Ranks, []int64{0, 2}) {
			t.Errorf("groups %+v, want one of ranks 0 and 2", rep.Ranks)
		}
	})
	t.Run("months apart", func(t *testing.T) {
		ranks := dlrm(t)
		ranks[1].warp(func(ns int64) int64 { return ns - int64(3828*time.Hour) })
		_, rep := importRanks(t, nil, ranks[0], ranks[1])
		if len(rep.Ranks) != 0 || rep.Files[1].ClockOffset != 0 || !strings.Contains(strings.Join(rep.Files[1].Unknown, "\n"), "apart") {
			t.Errorf(`report %s, want no group, no offset, and "apart" as the reason`, rep)
		}
	})
	t.Run("other times", func(t *testing.T) {
		// The same program and the same steps, but another run.
		ranks := dlrm(t)
		rng := int64(1)
		last := int64(0)
		for _, e := range ranks[1].rows {
			if isNCCL(e) {
				rng = (rng*1103515245 + 12345) & 0x7fffffff
				last += rng % 2_000_000
				e["ts"] = number(micros(e["ts"].(json.Number)) + last)
			}
		}
		c, rep := importRanks(t, nil, ranks[0], ranks[1])
		r := rep.Ranks[0]
		if r.Offsets[1] != 0 || r.Confidence[1] != "none" || r.Reasons[1] == "" {
			t.Errorf("offset %s, confidence %s, %q; want 0, none, a reason", r.Offsets[1], r.Confidence[1], r.Reasons[1])
		}
		for _, e := range c.pick("comm", "") {
			if _, ok := e.Arg("last_rank"); ok {
				t.Fatal("a rank is blamed without a common axis")
			}
		}
	})
}

func TestMissingWindowIsNotPairedWithAnother(t *testing.T) {
	a0, a1 := dlrm(t)[0], dlrm(t)[0]
	later := func(f *rankFile, step string) {
		f.warp(func(ns int64) int64 { return ns + int64(10*time.Second) })
		f.name = "later_" + f.name
		for _, e := range f.rows {
			if name, _ := e["name"].(string); strings.HasPrefix(name, "ProfilerStep#") {
				e["name"] = "ProfilerStep#" + step
			}
		}
	}
	later(a1, "20")
	b1 := dlrm(t)[1]
	later(b1, "20")
	_, rep := importRanks(t, nil, a0, a1, b1)
	for _, f := range rep.Files {
		if f.ClockOffset != 0 {
			t.Errorf("%s moved by %s, want 0", f.Name, f.ClockOffset)
		}
	}
	if len(rep.Ranks) != 1 || rep.Ranks[0].Matched != 8 {
		t.Errorf("groups %+v, want one with 8 matches", rep.Ranks)
	}
	// Only windows with other steps: nothing is compared.
	_, rep = importRanks(t, nil, a0, b1)
	if len(rep.Ranks) != 0 || !strings.Contains(strings.Join(rep.Files[1].Unknown, "\n"), "steps") {
		t.Errorf(`report %s, want no group, and "steps" as the reason`, rep)
	}
	// Without step numbers the times decide.
	for _, f := range []*rankFile{a0, a1, b1} {
		f.keep(func(e map[string]any) bool { return !strings.HasPrefix(fmt.Sprint(e["name"]), "ProfilerStep#") })
	}
	_, rep = importRanks(t, nil, a0, a1, b1)
	if len(rep.Ranks) != 1 || rep.Ranks[0].Matched != 8 || rep.Ranks[0].Offsets[1] != 0 {
		t.Errorf("report %s, want one group with 8 matches, no offset", rep)
	}
}

func TestRemovedCollectiveMovesNobody(t *testing.T) {
	for gone := range 8 {
		ranks := dlrm(t)
		n := 0
		var kernels []map[string]any
		for _, e := range ranks[5].rows {
			if isNCCL(e) {
				kernels = append(kernels, e)
			}
		}
		slices.SortFunc(kernels, func(a, b map[string]any) int {
			return int(micros(a["ts"].(json.Number)) - micros(b["ts"].(json.Number)))
		})
		drop := correlation(kernels[gone])
		ranks[5].keep(func(e map[string]any) bool {
			if isNCCL(e) && correlation(e) == drop {
				n++
				return false
			}
			return true
		})
		_, rep := importRanks(t, nil, ranks...)
		r := rep.Ranks[0]
		if n != 1 || offsetOf(rep, 0, 5) != 0 || r.EndSpread > 10*time.Microsecond || r.Matched != 8 || r.Confidence[5] == "none" {
			t.Errorf("without collective %d: offset %s, ends spread by %s, %d matches, %s %s; want 0, at most 10 µs, 8 matches with confidence", gone, offsetOf(rep, 0, 5), r.EndSpread, r.Matched, r.Confidence[5], r.Reasons[5])
		}
		want := []int64{7, 7, 7, 7, 7, 5, 5, 4}
		want[gone] = -2 // of the others
		for i, c := range r.Collectives {
			if want[i] != -2 && c.LastRank != want[i] {
				t.Errorf("without collective %d: rank %d last in %d, want %d", gone, c.LastRank, i, want[i])
			}
		}
	}
}

func TestRankWithoutCollectivesLeavesTheOthersAligned(t *testing.T) {
	ranks := dlrm(t)
	ranks[2].keep(func(e map[string]any) bool { return !strings.Contains(fmt.Sprint(e["name"]), "nccl") })
	ranks[6].warp(func(ns int64) int64 { return ns - 3_000_000 })
	_, rep := importRanks(t, nil, ranks...)
	r := rep.Ranks[0]
	if !near(offsetOf(rep, 0, 6), 3*time.Millisecond, 5*time.Microsecond) || r.Offsets[2] != 0 || r.Reasons[2] == "" {
		t.Errorf("want an offset of 3 ms for rank 6, none for rank 2 with a reason, got %s", rep)
	}
	for _, c := range r.Collectives {
		if c.Ranks != 7 {
			t.Errorf("%d ranks, want 7 in %+v", c.Ranks, c)
		}
	}
}

func TestDriftIsFitted(t *testing.T) {
	ranks := dlrm(t)[:4]
	start := int64(0)
	for i, f := range ranks {
		f.repeat(60, time.Second)
		if i == 0 {
			start = micros(f.rows[0]["ts"].(json.Number))
		}
	}
	const ppm = 20
	ranks[2].warp(func(ns int64) int64 { return ns + 400_000 + (ns-start)*ppm/1_000_000 })
	_, rep := importRanks(t, nil, ranks...)
	r := rep.Ranks[0]
	if r.Matched != 480 || r.Drifts[2] > -19 || r.Drifts[2] < -21 || r.EndSpread > 20*time.Microsecond {
		t.Errorf("%d matches, drift %.2f ppm, ends spread by %s; want 480, -20 ppm, at most 20 µs\n%s", r.Matched, r.Drifts[2], r.EndSpread, rep)
	}
	want := map[int64]int{}
	_, straight := importRanks(t, nil, func() []*rankFile {
		list := dlrm(t)[:4]
		for _, f := range list {
			f.repeat(60, time.Second)
		}
		return list
	}()...)
	for i, c := range straight.Ranks[0].Collectives {
		want[c.LastRank]++
		// A drifting clock must not change who was late, except for differences below
		// its accuracy.
		if got := r.Collectives[i].LastRank; got != c.LastRank && got != -1 && c.LastRank != -1 {
			t.Fatalf("collective %d: last rank %d, want %d as without the drift", i, got, c.LastRank)
		}
	}
}

// group sets the process group of a file's collectives.
func (f *rankFile) group(name, members string, size int, pick func(i int) bool) {
	i := 0
	slices.SortStableFunc(f.rows, func(a, b map[string]any) int {
		x, _ := a["ts"].(json.Number)
		y, _ := b["ts"].(json.Number)
		return int(micros(x) - micros(y))
	})
	for _, e := range f.rows {
		if !isNCCL(e) {
			continue
		}
		if pick(i) {
			args := e["args"].(map[string]any)
			args["Collective name"], args["Process Group Name"], args["Process Group Ranks"], args["Group size"] = "allreduce", name, members, size
		}
		i++
	}
}

// Four ranks as two by two: tensor-parallel pairs (0,1) and (2,3), whose
// collectives are the even ones, and data-parallel pairs (0,2) and (1,3).
func TestSubgroupsConnectRanks(t *testing.T) {
	build := func() []*rankFile {
		ranks := dlrm(t)[:4]
		for i, f := range ranks {
			f.top["distributedInfo"] = json.RawMessage(fmt.Sprintf(`{"backend":"nccl","rank":%d,"world_size":4}`, i))
			f.repeat(6, 100*time.Millisecond)
			tp, dp := i/2*2, i%2
			f.group(fmt.Sprint("tp", i/2), fmt.Sprintf("[%d, %d]", tp, tp+1), 2, func(k int) bool { return k%2 == 0 })
			f.group(fmt.Sprint("dp", i%2), fmt.Sprintf("[%d, %d]", dp, dp+2), 2, func(k int) bool { return k%2 == 1 })
			shift := int64(i) * 2_000_000
			f.warp(func(ns int64) int64 { return ns + shift })
		}
		return ranks
	}
	_, rep := importRanks(t, nil, build()...)
	r := rep.Ranks[0]
	for i := range 4 {
		if want := time.Duration(-i) * 2 * time.Millisecond; !near(r.Offsets[i], want, 10*time.Microsecond) {
			t.Errorf("rank %d moved by %s, want %s (%s)", i, r.Offsets[i], want, r.Reasons[i])
		}
	}
	if r.Note != "" || r.Matched == 0 {
		t.Errorf("%d matches, note %q; want some and no note", r.Matched, r.Note)
	}
	for _, c := range r.Collectives {
		if c.Ranks != 2 {
			t.Fatalf("collective %+v, want 2 ranks", c)
		}
	}
	// Pairs alone are two axes, and are not compared with each other.
	ranks := build()
	for _, f := range ranks {
		f.keep(func(e map[string]any) bool {
			args, _ := e["args"].(map[string]any)
			return !strings.HasPrefix(fmt.Sprint(args["Process Group Name"]), "dp")
		})
	}
	_, rep = importRanks(t, nil, ranks...)
	r = rep.Ranks[0]
	if !near(r.Offsets[1], -2*time.Millisecond, 10*time.Microsecond) || r.Offsets[2] != 0 || !near(r.Offsets[3], -2*time.Millisecond, 10*time.Microsecond) || !strings.Contains(r.Note, "2 sets") {
		t.Errorf(`offsets %v, note %q; want -2 ms for ranks 1 and 3, and "2 sets"`, r.Offsets, r.Note)
	}
}
