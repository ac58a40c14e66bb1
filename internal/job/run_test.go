package job_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// sink keeps the records of a process.
type sink struct {
	spans  []job.Span
	events []job.Event
	closed int
}

func (s *sink) Span(sp *job.Span)   { s.spans = append(s.spans, *sp) }
func (s *sink) Event(ev *job.Event) { s.events = append(s.events, *ev) }
func (s *sink) Close() error        { s.closed++; return nil }

type read struct {
	jobs  []*job.Job
	sinks map[*job.Process]*sink
	set   *job.Set
}

func readAll(t *testing.T, paths ...string) *read {
	t.Helper()
	set, err := job.Open(paths...)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	r := &read{sinks: make(map[*job.Process]*sink), set: set}
	r.jobs, err = set.Read(func(p *job.Process) job.Sink {
		mu.Lock()
		defer mu.Unlock()
		s := &sink{}
		r.sinks[p] = s
		return s
	})
	if err != nil {
		t.Fatal(err)
	}
	for p, s := range r.sinks {
		if s.closed != 1 {
			t.Errorf("the sink of %v was closed %d times, want 1", p.Sources, s.closed)
		}
	}
	return r
}

func files(t *testing.T, content map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range content {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const base = 1704067200000000 // microseconds

// process returns a trace: a start, an application if it trains, and more
// lines.
func process(pid int, from, to int64, start string, more ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[\n"+`{"id":1,"name":"start","cat":"dftracer","pid":%d,"tid":1,"ts":%d,"dur":0,"ph":"X","args":{"hhash":"h","level":1,"p_idx":-1%s}}`+"\n", pid, base+from, start)
	for i, m := range more {
		m = strings.ReplaceAll(m, "PID", fmt.Sprint(pid))
		m = strings.ReplaceAll(m, "TO", fmt.Sprint(base+to))
		m = strings.ReplaceAll(m, "FROM", fmt.Sprint(base+from))
		m = strings.ReplaceAll(m, "LEN", fmt.Sprint(to-from))
		b.WriteString(strings.ReplaceAll(m, "ID", fmt.Sprint(i+2)) + "\n")
	}
	return b.String()
}

const (
	app   = `{"id":ID,"name":"ai_root","cat":"ai_root","pid":PID,"tid":1,"ts":FROM,"dur":LEN,"ph":"X","args":{"hhash":"h","level":1,"p_idx":-1}}`
	fetch = `{"id":ID,"name":"fetch.iter","cat":"dataloader","pid":PID,"tid":1,"ts":FROM,"dur":LEN,"ph":"X","args":{"hhash":"h","level":1,"p_idx":-1}}`
	beat  = `{"id":ID,"name":"CM","cat":"dftracer","pid":PID,"tid":1,"ph":"M","args":{"hhash":"h","name":"heartbeat","value":"TO"}}`
	begin = `{"id":90,"name":"CM","cat":"dftracer","pid":PID,"tid":1,"ph":"M","args":{"hhash":"h","level":1,"p_idx":-1,"name":"span.begin","value":"ai_root","begin_id":9,"begin_cat":"ai_root","begin_ts":FROM}}`
	lost  = `{"id":91,"name":"CM","cat":"dftracer","pid":PID,"tid":1,"ph":"M","args":{"hhash":"h","name":"events.lost","value":"7"}}`
	saved = `{"id":92,"name":"CM","cat":"dftracer","pid":PID,"tid":1,"ph":"M","args":{"hhash":"h","name":"save_checkpoint_success","value":"TO","span":9,"current_iteration":30%s}}`
)

func describe(j *job.Job) (out []string) {
	for _, p := range j.Processes {
		out = append(out, fmt.Sprintf("r%d a%d pid%d", p.Rank, p.Attempt, p.PID))
	}
	return out
}

// A running job replaces files by renaming others. Temporary names that have
// disappeared are not reported as left out.
func TestFilesThatComeAndGo(t *testing.T) {
	dir := files(t, map[string]string{"a.pfw": process(11, 0, 100, "", app), "run.json": "{}"})
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			temp := filepath.Join(dir, fmt.Sprintf(".run.json-%d", n))
			folder := filepath.Join(dir, fmt.Sprintf(".start-%d", n))
			err := errors.Join(os.WriteFile(temp, []byte("{}"), 0o600), os.Rename(temp, filepath.Join(dir, "run.json")), os.Mkdir(folder, 0o700), os.Remove(folder))
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 300 {
		set, err := job.Open(dir)
		if err != nil {
			t.Error(err)
			break
		}
		for _, f := range set.Skipped {
			if !errors.Is(f, job.ErrForeign) {
				t.Errorf("skipped %v, want ErrForeign", f)
			}
		}
	}
	close(stop)
	writer.Wait()
}

// If one of the files of a process has disappeared when it is to be read, only
// its contents are missing, not the report.
func TestFileGoneBeforeItIsRead(t *testing.T) {
	dir := files(t, map[string]string{"a.pfw": process(11, 0, 100, "", app), "b.pfw": process(11, 0, 200, "", app)})
	for n, path := range []string{"a.pfw", "b.pfw"} {
		set, err := job.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, path), filepath.Join(dir, "c")); err != nil {
			t.Fatal(err)
		}
		jobs, err := set.Read(func(*job.Process) job.Sink { return &sink{} })
		if err != nil || len(jobs) != 1 || len(jobs[0].Processes) != 1 {
			t.Errorf("%d: %d jobs, %v; want one of one process", n, len(jobs), err)
		}
		if len(set.Skipped) != 1 || !errors.Is(set.Skipped[0], os.ErrNotExist) || filepath.Base(set.Skipped[0].Path) != path {
			t.Errorf("%d: skipped %v, want the file %s that does not exist", n, set.Skipped, path)
		}
		if err := os.Rename(filepath.Join(dir, "c"), filepath.Join(dir, path)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestJobs(t *testing.T) {
	r := readAll(t, files(t, map[string]string{
		"x/1.pfw": process(11, 0, 100, `,"session_tag":"x","job_id":"7","attempt":0,"rank":0`, app),
		"x/2.pfw": process(12, 200, 300, `,"session_tag":"x","job_id":"8","attempt":1,"rank":0`, app),
		"x/3.pfw": process(13, 1, 90, `,"session_tag":"x","rank":1`, app), // without an attempt number
		"x/4.pfw": process(14, 201, 290, `,"session_tag":"x","rank":1`, app),
		"x/5.pfw": process(15, 202, 295, `,"session_tag":"x","rank":2`, app), // not in the first attempt
		"x/6.pfw": process(16, 205, 295, `,"session_tag":"x"`, fetch),        // a worker
		"y/1.pfw": process(21, 0, 100, `,"job_id":"9"`, app),
		"readme":  "hello",
	}))
	if len(r.jobs) != 2 || len(r.set.Skipped) != 1 {
		t.Fatalf("%d jobs, skipped %v; want 2 and one", len(r.jobs), r.set.Skipped)
	}
	slices.SortFunc(r.jobs, func(a, b *job.Job) int { return strings.Compare(b.SessionTag, a.SessionTag) })
	x, y := r.jobs[0], r.jobs[1]
	if have, want := describe(x), []string{"r0 a1 pid11", "r0 a2 pid12", "r1 a1 pid13", "r1 a2 pid14", "r2 a2 pid15"}; !slices.Equal(have, want) {
		t.Errorf("%v, want %v", have, want)
	}
	if len(x.Helpers) != 1 || x.Helpers[0].PID != 16 || x.SessionTag != "x" || y.ID != "9" {
		t.Errorf("jobs %+v, %+v; want x with helper 16, and 9", x, y)
	}
}

// TestWithoutNames has records without job, rank and attempt; the times decide.
func TestWithoutNames(t *testing.T) {
	r := readAll(t, files(t, map[string]string{
		"a.pfw": process(1, 0, 100, "", app), "b.pfw": process(2, 5, 95, "", app),
		"c.pfw": process(3, 200, 300, "", app), "d.pfw": process(4, 205, 290, "", app),
	}))
	if len(r.jobs) != 1 {
		t.Fatalf("%d jobs, want 1", len(r.jobs))
	}
	if have, want := describe(r.jobs[0]), []string{"r0 a1 pid1", "r0 a2 pid3", "r1 a1 pid2", "r1 a2 pid4"}; !slices.Equal(have, want) {
		t.Errorf("%v, want %v", have, want)
	}
}

// TestLauncherDoesNotCount has attempts that all record to be the first.
func TestLauncherDoesNotCount(t *testing.T) {
	first := `,"session_tag":"x","attempt":0,"rank":%d`
	r := readAll(t, files(t, map[string]string{
		"a.pfw": process(1, 0, 100, fmt.Sprintf(first, 0), app), "b.pfw": process(2, 200, 300, fmt.Sprintf(first, 0), app),
		"c.pfw": process(3, 195, 310, fmt.Sprintf(first, 1), app), // first of its attempt, and not in the previous one
		"d.pfw": process(4, 400, 500, fmt.Sprintf(first, 0), app), "e.pfw": process(5, 401, 500, fmt.Sprintf(first, 1), app),
	}))
	if have, want := describe(r.jobs[0]), []string{"r0 a1 pid1", "r0 a2 pid2", "r0 a3 pid4", "r1 a2 pid3", "r1 a3 pid5"}; !slices.Equal(have, want) {
		t.Errorf("%v, want %v", have, want)
	}
	r = readAll(t, files(t, map[string]string{ // at the same time: two writers, which goodput accounting reports
		"a.pfw": process(1, 0, 100, fmt.Sprintf(first, 0), app), "b.pfw": process(2, 20, 120, fmt.Sprintf(first, 0), app),
	}))
	if have, want := describe(r.jobs[0]), []string{"r0 a1 pid1", "r0 a1 pid2"}; !slices.Equal(have, want) || !r.jobs[0].Processes[0].AttemptKnown {
		t.Errorf("%v, want %v", have, want)
	}
}

func TestTimes(t *testing.T) {
	killed := process(1, 0, 500, "", begin, beat, lost)
	for name, c := range map[string]struct {
		text     string
		end      int64 // microseconds, -1 for none
		seen     int64
		beats    bool
		dropped  int64
		bad      int
		spans    int
		torn     bool
		training bool
	}{
		"ended":      {process(1, 0, 500, "", app), 500, 500, false, 0, 0, 1, false, true},
		"killed":     {killed, -1, 500, true, 7, 0, 1, false, true},
		"recovered":  {killed + `{"id":99,"name":"end","cat":"dftracer","pid":1,"tid":1,"ts":1704067200090000,"dur":0,"ph":"X","args":{"hhash":"h","recovered":1}}` + "\n]", -1, 500, true, 7, 0, 1, false, true},
		"closed":     {killed + `{"id":99,"name":"end","cat":"dftracer","pid":1,"tid":1,"ts":1704067200000600,"dur":0,"ph":"X","args":{"hhash":"h"}}` + "\n]", 600, 600, true, 7, 0, 1, false, true},
		"rotated":    {killed + `{"id":99,"name":"end","cat":"dftracer","pid":1,"tid":1,"ts":1704067200000600,"dur":0,"ph":"X","args":{"hhash":"h","continued":1}}` + "\n]", -1, 600, true, 7, 0, 1, false, true},
		"its total":  {killed + `{"id":99,"name":"end","cat":"dftracer","pid":1,"tid":1,"ts":1704067200000600,"dur":0,"ph":"X","args":{"hhash":"h","events_lost":9,"spans_lost":2}}` + "\n]", 600, 600, true, 11, 0, 1, false, true},
		"cut":        {killed[:len(killed)-30], -1, 500, true, 0, 0, 1, true, true},
		"one near 0": {process(1, 0, 500, "", app, strings.ReplaceAll(fetch, "FROM", "77")), 500, 500, false, 0, 0, 1, false, true},
		"truncated":  {process(1, 0, 500, "", strings.Replace(app, `"p_idx":-1`, `"p_idx":-1,"truncated":1`, 1)), -1, 500, false, 0, 0, 1, false, true},
	} {
		r := readAll(t, files(t, map[string]string{"a.pfw": c.text}))
		p := r.jobs[0].Processes[0]
		end := int64(-1)
		if p.End != job.NoEnd {
			end = p.End/1000 - base
		}
		if end != c.end || p.LastSeen/1000-base != c.seen || p.Heartbeats != c.beats || p.Dropped != c.dropped ||
			p.Bad != c.bad || len(r.sinks[p].spans) != c.spans || p.Torn != c.torn || p.Training != c.training || p.Start/1000 != base {
			t.Errorf("%s: process %+v, want from %d ms to %d, seen at %d, heartbeats %v, %d spans, torn %v, training %v", name, p, base, c.end, c.seen, c.beats, c.spans, c.torn, c.training)
		}
	}
}

// Each part of a rotated trace has the number of all lines that were lost so far.
func TestLostLinesOfParts(t *testing.T) {
	end := func(part int, more string) string {
		return fmt.Sprintf(`{"id":99,"name":"end","cat":"dftracer","pid":1,"tid":1,"ts":%d,"dur":0,"ph":"X","args":{"hhash":"h"%s}}`+"\n]", base+600, more)
	}
	part := `{"id":80,"name":"CM","cat":"dftracer","pid":1,"tid":1,"ph":"M","args":{"hhash":"h","name":"trace.part","value":"%d"}}`
	r := readAll(t, files(t, map[string]string{
		"a.pfw":   process(1, 0, 500, "", app, lost) + end(0, `,"continued":1,"events_lost":7`),
		"a.1.pfw": process(1, 0, 500, "", fmt.Sprintf(part, 1), beat) + end(1, `,"continued":1,"events_lost":7`),
		"a.2.pfw": process(1, 0, 500, "", fmt.Sprintf(part, 2), beat) + end(2, `,"events_lost":7`),
	}))
	if p := r.jobs[0].Processes[0]; p.Dropped != 7 || len(p.Sources) != 3 {
		t.Errorf("%d spans dropped, files %v; want 7 of three files", p.Dropped, p.Sources)
	}
}

func TestSavedCheckpoints(t *testing.T) {
	r := readAll(t, files(t, map[string]string{"a.pfw": process(1, 0, 500, "", app,
		fmt.Sprintf(saved, ""), fmt.Sprintf(saved, `,"productive_train_iterations":31`),
		strings.Replace(fmt.Sprintf(saved, `,"productive_train_iterations":31`), "save_checkpoint_success", "mine", 1))}))
	ev := r.sinks[r.jobs[0].Processes[0]].events
	if len(ev) != 3 || ev[2].Through != job.Unknown || ev[0].Step != 30 || ev[0].Through != 29 || ev[1].Through != 30 || ev[0].Span != 9 || ev[0].Time != (base+500)*1000 {
		t.Errorf("checkpoints %+v, want three: of step 30 through 29, through 30, through an unknown step", ev)
	}
}

// TestInitOfATrace checks that the identity of a process is taken from the
// event for it, and from no other.
func TestInitOfATrace(t *testing.T) {
	said := func(name string, rank int) string {
		return fmt.Sprintf(`{"id":93,"name":"CM","cat":"dftracer","pid":PID,"tid":1,"ph":"M","args":{"hhash":"h","name":%q,"value":"TO","span":9,"rank":%d,"world_size":%d,"session_tag":"s%[2]d"}}`, name, rank, 8*rank)
	}
	r := readAll(t, files(t, map[string]string{"a.pfw": process(1, 0, 500, "", app, said("one_logger_initialization", 3), said("update", 5))}))
	j := r.jobs[0]
	if p := j.Processes[0]; p.Rank != 3 || !p.RankKnown || p.SessionTag != "s3" || p.WorldSize != 24 {
		t.Errorf("process %+v, want rank 3 of 24, tag s3", p)
	}
}

func TestJSONLines(t *testing.T) {
	const ms = base / 1000
	line := func(format string, args ...any) string { return fmt.Sprintf(format, args...) + "\n" }
	text := line(`{"type":"start","id":"5d0c","name":"application","start_event":{"name":"span_start","attributes":{"timestamp_msec":%d}},"count":1,"pid":4}`, ms) +
		line(`{"type":"event","span_id":"5d0c","event":{"name":"one_logger_initialization","attributes":{"world_size":8,"session_tag":"s","rank":3,"x":[NaN,-Infinity,"NaN\"I"],"timestamp_msec":%d}},"count":2,"pid":4}`, ms) +
		line(`{"type":"complete","id":"77","name":"training_loop","attributes":{"train_iterations_start":100,"duration_msec":20},"start_event":{"name":"span_start","attributes":{"timestamp_msec":%d}},"stop_event":{"name":"span_stop","attributes":{"timestamp_msec":%d}},"count":3,"pid":4}`, ms+5, ms+25) +
		line(`{"type":"stop","id":"78","name":"lost start","attributes":{"duration_msec":4},"stop_event":{"name":"span_stop","attributes":{"timestamp_msec":%d}},"count":4,"pid":4}`, ms+30) +
		line(`{"type":"heartbeat","event":{"name":"heartbeat","attributes":{"job_id":"j","timestamp_msec":%d}},"count":5,"pid":4}`, ms+40) +
		line(`{"type":"nonsense","count":6,"pid":4}`) + line(`{"type":"start","id":`)
	r := readAll(t, files(t, map[string]string{"a.jsonl": text}))
	j := r.jobs[0]
	p := j.Processes[0]
	if j.SessionTag != "s" || j.ID != "j" || j.Ranks != 8 || p.Rank != 3 || !p.RankKnown || !p.Heartbeats || p.Bad != 2 || p.End != job.NoEnd || p.LastSeen != (ms+40)*1e6 {
		t.Errorf("job %+v, process %+v; want job j, tag s, rank 3 of 8, heartbeats, 2 bad lines, no end, last seen after 40 ms", j, p)
	}
	want := []job.Span{
		{Name: "application", Start: ms * 1e6, End: job.NoEnd, Step: -1, Epoch: -1, First: -1},
		{Name: "training_loop", Start: (ms + 5) * 1e6, End: (ms + 25) * 1e6, Step: -1, Epoch: -1, First: 100},
		{Name: "lost start", Start: (ms + 26) * 1e6, End: (ms + 30) * 1e6, Step: -1, Epoch: -1, First: -1},
	}
	for i := range want {
		want[i].SetName("", want[i].Name)
	}
	have := r.sinks[p].spans
	for i := range have {
		if have[i].ID == 0 || !have[i].Nested {
			t.Errorf("span %+v, want an ID and nested", have[i])
		}
		have[i].ID, have[i].Nested = 0, false
	}
	if !slices.Equal(have, want) {
		t.Errorf("%+v\nwant %+v", have, want)
	}
}

// TestTraceAndLines checks that what a process wrote twice counts once, and
// that what only the lines have is added.
func TestTraceAndLines(t *testing.T) {
	const ms = base / 1000
	event := func(name, more string) string {
		return fmt.Sprintf(`{"type":"event","span_id":"5d0c","event":{"name":%q,"attributes":{%s"timestamp_msec":%d}},"count":2,"pid":1,"rank":0}`+"\n", name, more, ms+1)
	}
	lines := fmt.Sprintf(`{"type":"start","id":"5d0c","name":"application","start_event":{"name":"span_start","attributes":{"timestamp_msec":%d}},"count":1,"pid":1,"rank":0,"attempt":4}`+"\n", ms) +
		event("save_checkpoint_success", `"current_iteration":30,`) + event("only here", "")
	r := readAll(t, files(t, map[string]string{
		"a.pfw": process(1, 0, 5000, "", app, fmt.Sprintf(saved, "")), "a.jsonl": lines,
	}))
	if len(r.jobs) != 1 || len(r.jobs[0].Processes) != 1 {
		t.Fatalf("jobs %+v, want one of one process", r.jobs)
	}
	p := r.jobs[0].Processes[0]
	var names []string
	for _, ev := range r.sinks[p].events {
		names = append(names, ev.Name)
	}
	if !slices.Equal(names, []string{"save_checkpoint_success", "only here"}) || p.Attempt != 5 || len(p.Sources) != 2 || len(r.sinks[p].spans) != 1 {
		t.Errorf(`spans %v, process %+v; want save_checkpoint_success and "only here", attempt 5, two files, one span`, names, p)
	}
}

// JSON lines belong to the trace that began with them, not to one of another attempt that had the same process
// id a moment before, or that records another number.
func TestLinesOfAttempts(t *testing.T) {
	const ms = base / 1000
	lines := func(at int64, attempt string) string {
		return fmt.Sprintf(`{"type":"complete","id":"5d0c","name":"application","start_event":{"attributes":{"timestamp_msec":%d}},"stop_event":{"attributes":{"timestamp_msec":%d}},"count":1,"pid":1%s}`+"\n", ms+at, ms+at+20_000, attempt)
	}
	for name, c := range map[string]struct {
		first, second string
		at            int64 // of the second trace
	}{
		"by time":   {"", "", 15_000},
		"by number": {`,"attempt":0`, `,"attempt":1`, 10}, // the lines are as near to the first
	} {
		r := readAll(t, files(t, map[string]string{
			"1/a.pfw": process(1, 0, 2000, c.first, beat), "2/a.pfw": process(1, c.at*1000, c.at*1000+20_000_000, c.second, app),
			"2/a.jsonl": lines(max(c.at-6, 4), c.second),
		}))
		for p, s := range r.sinks {
			first, lines := false, false
			for _, path := range p.Sources {
				first = first || strings.HasSuffix(path, "1/a.pfw")
				lines = lines || strings.HasSuffix(path, "2/a.jsonl")
			}
			if first == lines || first && p.End != job.NoEnd || !first && len(s.spans) != 1 {
				t.Errorf("%s: files %v, end %d, %d spans; want the lines with the second trace", name, p.Sources, p.End, len(s.spans))
			}
		}
	}
}

func TestOpenErrors(t *testing.T) {
	if _, err := job.Open(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("Open of an absent directory: %v, want an error that names it", err)
	}
	dir := files(t, map[string]string{"a.txt": "hello"})
	if _, err := job.Open(dir); err == nil || !strings.Contains(err.Error(), "no trace file") {
		t.Errorf(`Open of an empty directory: %v, want "no trace file"`, err)
	}
}

// If a member in the middle of a file is damaged, the rest is read, however many files there are.
func TestDamageInTheMiddle(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, pid int) string {
		path := filepath.Join(dir, name)
		w, err := dftracer.Create(path, &dftracer.Options{MemberSize: 4 << 10, Process: dftracer.Process{PID: pid, Host: "h"}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range uint64(2000) {
			w.Write(&dftracer.Event{ID: 10 + i, Cat: "c", Name: "n", TID: 1, TS: base, Dur: 9, Level: 1})
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return path
	}
	path := write("a.pfw.gz", 7)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copy(data[len(data)/10:], make([]byte, 100))
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(paths ...string) (n int, cut bool) {
		for p, s := range readAll(t, paths...).sinks {
			if p.PID == 7 {
				n, cut = len(s.spans), p.Cut
			}
		}
		return n, cut
	}
	alone, _ := read(path)
	n, cut := read(path, write("b.pfw.gz", 8))
	if alone < 1800 || alone == 2000 || n != alone || !cut {
		t.Errorf("%d spans, and %d with another file, damaged %v; want all but those of a member, twice, damaged", alone, n, cut)
	}
}

// TestStartedByHand has attempts that were not counted, so that all record the
// first.
func TestStartedByHand(t *testing.T) {
	const same = `,"attempt":0,"rank":%d`
	r := readAll(t, files(t, map[string]string{
		"1.pfw": process(11, 0, 100, fmt.Sprintf(same, 0), app), "2.pfw": process(12, 1, 90, fmt.Sprintf(same, 1), app),
		"3.pfw": process(13, 200, 300, fmt.Sprintf(same, 0), app), "4.pfw": process(14, 201, 290, fmt.Sprintf(same, 1), app),
		"5.pfw": process(15, 400, 500, fmt.Sprintf(same, 0), app), "6.pfw": process(16, 450, 480, fmt.Sprintf(same, 0), app),
	}))
	if have, want := describe(r.jobs[0]), []string{"r0 a1 pid11", "r0 a2 pid13", "r0 a3 pid15", "r0 a3 pid16", "r1 a1 pid12", "r1 a2 pid14"}; !slices.Equal(have, want) {
		t.Errorf("%v, want %v", have, want)
	}
}

// TestStop checks that reading ends soon after a request.
func TestStop(t *testing.T) {
	var more []string
	for range 20_000 {
		more = append(more, fetch)
	}
	set, err := job.Open(files(t, map[string]string{"a.pfw": process(11, 0, 100, "", more...), "b.pfw": process(12, 0, 100, "", more...)}))
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	var asked, spans atomic.Int64
	set.Stop = func() error {
		if asked.Add(1) < 3 {
			return nil
		}
		return stop
	}
	_, err = set.Read(func(*job.Process) job.Sink { return counting{&spans} })
	if !errors.Is(err, stop) || spans.Load() == 0 || spans.Load() > 20_000 {
		t.Errorf("reading ended with %v after %d spans, want %v after 1 to 20,000", err, spans.Load(), stop)
	}
}

type counting struct{ n *atomic.Int64 }

func (c counting) Span(*job.Span)   { c.n.Add(1) }
func (c counting) Event(*job.Event) {}
func (c counting) Close() error     { return nil }

// An invalid rank is counted, and other evidence of the rank is used.
func TestNumbersThatAreNoRanks(t *testing.T) {
	for _, test := range []struct {
		name, file, args, line string
		rank                   int
		known                  bool
		bad                    int
	}{
		{"a record", "a.pfw", "", `{"id":ID,"name":"PR","cat":"dftracer","pid":PID,"tid":1,"ph":"M","args":{"hhash":"h","name":"rank","value":"1073741823"}}`, 0, false, 1},
		{"below zero", "a.pfw", `,"rank":-3`, app, 0, false, 1},
		{"overflow", "rank5.pfw", `,"rank":4611686018427387904,"world_size":9223372036854775807,"attempt":9223372036854775807`, app, 5, true, 3},
		{"in the name", "rank1048576.pfw", "", app, 0, false, 0},
		{"the largest", "a.pfw", `,"rank":1048575`, app, 1048575, true, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := readAll(t, files(t, map[string]string{test.file: process(7, 0, 100, test.args, app, test.line)}))
			if len(r.jobs) != 1 || len(r.jobs[0].Processes) != 1 {
				t.Fatalf("jobs %+v, want one of one process", r.jobs)
			}
			p := r.jobs[0].Processes[0]
			if p.Rank != test.rank || p.RankKnown != test.known || p.BadNumbers != test.bad || p.WorldSize > job.MaxRanks || p.Attempt != 1 {
				t.Errorf("process %+v, want rank %d, known %v, %d bad numbers, attempt 1", p, test.rank, test.known, test.bad)
			}
		})
	}
}

// TestLinesEqualTraces checks that a span of JSON lines has the same
// fields as in a trace.
func TestLinesEqualTraces(t *testing.T) {
	const ms = base / 1000
	start := fmt.Sprintf(`"start_event":{"name":"span_start","attributes":{"timestamp_msec":%d}}`, ms)
	stop := fmt.Sprintf(`"stop_event":{"name":"span_stop","attributes":{"timestamp_msec":%d}}`, ms+20)
	r := readAll(t, files(t, map[string]string{
		"a.jsonl": `{"type":"start","id":"1","name":"application",` + start + `,"count":1,"pid":4}` + "\n" +
			`{"type":"complete","id":"2","name":"backward","attributes":{"dftracer.cat":"device","dftracer.name":"backward","background":true,"lag_us":1500,"step":7,"epoch":2},` + start + "," + stop + `,"count":2,"pid":4}` + "\n" +
			fmt.Sprintf(`{"type":"application_error","span_id":"3","event":{"name":"error","attributes":{"timestamp_msec":%d}},"count":2,"pid":4}`, ms+19) + "\n" +
			`{"type":"complete","id":"3","name":"model_backward","attributes":{"device_us":1200.5,"device_comm_us":200},` + start + "," + stop + `,"count":3,"pid":4}` + "\n",
		"b.pfw": process(5, 0, 20000, "",
			`{"id":2,"name":"backward","cat":"device","pid":5,"tid":1,"ts":1704067200000000,"dur":20000,"ph":"X","args":{"hhash":"h","level":1,"background":1,"lag_us":1500,"step":7,"epoch":2}}`+"\n",
			`{"id":3,"name":"backward","cat":"compute","pid":5,"tid":1,"ts":1704067200000000,"dur":20000,"ph":"X","args":{"hhash":"h","level":1,"device_us":1200.5,"device_comm_us":200,"otel.status_code":"ERROR"}}`+"\n"),
	}))
	var got [2][]job.Span
	for p, s := range r.sinks {
		for _, sp := range s.spans {
			if sp.Class == vocab.ClassFrame {
				continue
			}
			sp.ID, sp.Parent, sp.Cat, sp.Thread, sp.Nested = 0, 0, "", 0, false
			got[p.PID-4] = append(got[p.PID-4], sp)
		}
	}
	for _, list := range got {
		slices.SortFunc(list, func(a, b job.Span) int { return strings.Compare(a.Name, b.Name) })
	}
	if len(got[0]) != 2 || !slices.Equal(got[0], got[1]) || got[0][0].Failed == got[0][1].Failed {
		t.Errorf("spans of the JSON lines are %+v, want two as of the trace, one of them failed: %+v", got[0], got[1])
	}
}

// TestToleratedErrors checks that in JSON lines an error after which the program went on is no failure of its span.
func TestToleratedErrors(t *testing.T) {
	const ms = base / 1000
	at := func(kind string, n int) string {
		return fmt.Sprintf(`"%s":{"name":"x","attributes":{"timestamp_msec":%d}}`, kind, ms+n)
	}
	begin := func(id, name string, n int) string {
		return fmt.Sprintf(`{"type":"start","id":%q,"name":%q,%s,"count":1,"pid":4}`, id, name, at("start_event", n))
	}
	end := func(id, name string, n int) string {
		return fmt.Sprintf(`{"type":"stop","id":%q,"name":%q,%s,"count":1,"pid":4}`, id, name, at("stop_event", n))
	}
	fails := fmt.Sprintf(`{"type":"application_error","span_id":"2",%s,"count":1,"pid":4}`, at("event", 5))
	saved := fmt.Sprintf(`{"type":"event","span_id":"2","event":{"name":"save_checkpoint_success","attributes":{"timestamp_msec":%d}},"count":1,"pid":4}`, ms+7)
	for name, c := range map[string]struct {
		lines  []string
		failed bool
	}{
		"at its end":        {[]string{begin("2", "checkpoint_load", 1), begin("3", "load", 2), end("3", "load", 4), fails, end("2", "checkpoint_load", 9)}, true},
		"in a whole record": {[]string{fails, fmt.Sprintf(`{"type":"complete","id":"2","name":"checkpoint_load",%s,%s,"count":1,"pid":4}`, at("start_event", 1), at("stop_event", 9))}, true},
		"before a span":     {[]string{begin("2", "checkpoint_load", 1), fails, begin("3", "load", 6), end("3", "load", 8), end("2", "checkpoint_load", 9)}, false},
		"before a success":  {[]string{begin("2", "checkpoint_save_sync", 1), fails, saved, end("2", "checkpoint_save_sync", 9)}, false},
	} {
		r := readAll(t, files(t, map[string]string{"a.jsonl": begin("1", "application", 0) + "\n" + strings.Join(c.lines, "\n") + "\n"}))
		found := false
		for _, s := range r.sinks {
			for _, sp := range s.spans {
				if sp.Name == "checkpoint_load" || sp.Name == "checkpoint_save_sync" {
					if found = true; sp.Failed != c.failed {
						t.Errorf("%s: failed is %v, want %v", name, sp.Failed, c.failed)
					}
				}
			}
		}
		if !found {
			t.Errorf("%s: the span is missing", name)
		}
	}
}
