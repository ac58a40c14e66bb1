package job_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/fsread"
)

// at returns a span of a trace.
func at(id int, ts, dur int64) string {
	return fmt.Sprintf(`{"id":%d,"name":"train.iteration","cat":"pipeline","pid":7,"tid":1,"ts":%d,"dur":%d,"ph":"X","args":{"hhash":"h","level":1,"p_idx":-1}}`+"\n", id, ts, dur)
}

const dayMicros = 24 * 3600 * 1_000_000

// Times from a clock that was not set, and from damaged records, are not times
// of a job.
func TestImpossibleTimes(t *testing.T) {
	var steps strings.Builder
	relative := ""
	for i := range int64(100) {
		steps.WriteString(at(int(i+10), base+i*1000, 900))
		relative += at(int(i+10), i*1000, 900)
	}
	for _, test := range []struct {
		name, text   string
		spans, aside int
		relative     bool
	}{
		{"as they should be", steps.String(), 100, 0, false},
		{"one in 2255", steps.String() + at(1, 9_000_000_000_000_000, 5), 100, 1, false},
		{"one 40 days later", steps.String() + at(1, base+40*dayMicros, 5), 100, 1, false},
		{"one 20 days later", steps.String() + at(1, base+20*dayMicros, 5), 101, 0, false},
		{"one that lasts 40 days", steps.String() + at(1, base, 40*dayMicros), 100, 1, false},
		{"one in 1970", steps.String() + at(1, 5, 5), 100, 1, false},
		{"one before 1970", steps.String() + at(1, -5, 5), 100, 1, false},
		{"one that ends before it begins", steps.String() + at(1, base, -5), 100, 1, false},
		{"beyond what nanoseconds can say", steps.String() + at(1, 1<<62, 5), 100, 1, false},
		{"the first", at(1, 5, 5) + steps.String(), 100, 1, false},
		{"the first half", strings.Repeat(at(1, 5, 5), 99) + steps.String(), 100, 99, false},
		{"all near zero", relative, 100, 0, true},
		{"but for one near zero", relative + at(1, base, 5), 100, 1, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := readAll2(t, files(t, map[string]string{"a.pfw": "[\n" + test.text}))
			if len(r.jobs) != 1 || len(r.jobs[0].Processes) != 1 {
				t.Fatalf("jobs %+v, want one of one process", r.jobs)
			}
			p := r.jobs[0].Processes[0]
			if n := len(r.sinks[p].spans); n != test.spans || p.Spans != int64(n) || p.Aside != test.aside || p.RelativeClock != test.relative || p.Bad != 0 {
				t.Errorf("%d spans, process %+v; want %d, %d aside, relative clock %v, none bad", n, p, test.spans, test.aside, test.relative)
			}
			if !test.relative && (p.Start < base*1000 || p.LastSeen > (base+21*dayMicros)*1000) {
				t.Errorf("process from %d to %d, want within 21 days of the start", p.Start, p.LastSeen)
			}
		})
	}
}

// The end of a file ends its process, unless its time is impossible.
func TestImpossibleEnds(t *testing.T) {
	var steps strings.Builder
	for i := range int64(100) {
		steps.WriteString(at(int(i+10), base+i*1000, 900))
	}
	for name, c := range map[string]struct{ at, want int64 }{
		"a second later":                  {base + 1_000_000, (base + 1_000_000) * 1000},
		"40 days later":                   {base + 40*dayMicros, job.NoEnd},
		"before 1970":                     {-5, job.NoEnd},
		"beyond what nanoseconds can say": {1 << 62, job.NoEnd},
		"20 days later":                   {base + 20*dayMicros, (base + 20*dayMicros) * 1000},
	} {
		end := fmt.Sprintf(`{"id":1,"name":"end","cat":"dftracer","pid":7,"tid":1,"ts":%d,"dur":0,"ph":"X","args":{"hhash":"h"}}`+"\n", c.at)
		r := readAll2(t, files(t, map[string]string{"a.pfw": "[\n" + steps.String() + end}))
		if p := r.jobs[0].Processes[0]; p.End != c.want || p.Aside != 0 {
			t.Errorf("%s: ends at %d, want %d; %d aside", name, p.End, c.want, p.Aside)
		}
	}
}

// readAll2 is readAll for files that may be read again, for new sinks.
func readAll2(t *testing.T, paths ...string) *read {
	t.Helper()
	set, err := job.Open(paths...)
	if err != nil {
		t.Fatal(err)
	}
	set.Workers = 1
	r := &read{sinks: make(map[*job.Process]*sink), set: set}
	r.jobs, err = set.Read(func(p *job.Process) job.Sink {
		if old := r.sinks[p]; old != nil && old.closed != 1 {
			t.Error("a sink was left open")
		}
		s := &sink{}
		r.sinks[p] = s
		return s
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The same holds for heartbeats, in a process with spans, and in one with
// events only. For a process without other records they are used.
func TestImpossibleHeartbeats(t *testing.T) {
	const ms = base / 1000
	beat := func(at int64) string {
		return fmt.Sprintf(`{"type":"heartbeat","count":1,"pid":3,"event":{"attributes":{"timestamp_msec":%d}}}`+"\n", at)
	}
	span := fmt.Sprintf(`{"type":"complete","id":"1","name":"training_loop","start_event":{"attributes":{"timestamp_msec":%d}},"stop_event":{"attributes":{"timestamp_msec":%d}},"count":1,"pid":3}`+"\n", ms, ms+50)
	event := fmt.Sprintf(`{"type":"event","span_id":"5","event":{"name":"mine","attributes":{"timestamp_msec":%d}},"count":2,"pid":3}`+"\n", ms+7)
	far := int64(ms + 40*dayMicros/1000)
	for name, c := range map[string]struct {
		text string
		seen int64
		out  int
	}{
		"beside a span":   {span + beat(ms+90) + beat(far), ms + 90, 1},
		"beside an event": {event + beat(ms+90) + beat(far), ms + 90, 1},
		"beside both":     {span + event + beat(ms+60) + beat(far), ms + 60, 1},
		"of nothing else": {beat(ms) + beat(ms+90) + beat(far), far, 0},
	} {
		r := readAll(t, files(t, map[string]string{"a.jsonl": c.text}))
		if p := slices.Concat(r.jobs[0].Processes, r.jobs[0].Helpers)[0]; p.LastSeen != c.seen*1e6 || p.Aside != c.out {
			t.Errorf("%s: seen %d ms after, %d aside; want %d and %d", name, p.LastSeen/1e6-ms, p.Aside, c.seen-ms, c.out)
		}
	}
}

// The same holds for JSON lines, and a line that is too long is skipped and
// hides no other.
func TestInvalidLines(t *testing.T) {
	line := func(id int, ms, took int64) string {
		return fmt.Sprintf(`{"type":"start","count":1,"id":"%d","name":"training_single_iteration","pid":3,"start_event":{"attributes":{"timestamp_msec":%d}}}
{"type":"stop","count":2,"id":"%d","name":"training_single_iteration","pid":3,"stop_event":{"attributes":{"timestamp_msec":%d}}}
`, id, ms, id, ms+took)
	}
	var steps strings.Builder
	relative := ""
	for i := range int64(50) {
		steps.WriteString(line(int(i+10), base/1000+i*10, 9))
		relative += line(int(i+10), 1+i*10, 9)
	}
	long := `{"type":"event","count":9,"pid":3,"name":"` + strings.Repeat("x", fsread.MaxLine) + `"}` + "\n"
	for _, test := range []struct {
		name, text        string
		spans, aside, bad int
		relative          bool
	}{
		{"as they should be", steps.String(), 50, 0, 0, false},
		{"one in 2255", line(1, 9_000_000_000_000, 5) + steps.String(), 50, 1, 0, false},
		{"one 40 days later", steps.String() + line(1, base/1000+40*dayMicros/1000, 5), 50, 1, 0, false},
		{"one that ends before it begins", steps.String() + line(1, base/1000, -5), 50, 1, 0, false},
		{"a long line first", long + steps.String(), 50, 0, 1, false},
		{"a long line in the middle", steps.String() + long + line(1, base/1000, 5), 51, 0, 1, false},
		{"a long line last", steps.String() + strings.TrimSpace(long), 50, 0, 1, false},
		{"all near zero", relative, 50, 0, 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			head := `{"type":"heartbeat","count":0}` + "\n" // to recognize the file
			r := readAll(t, files(t, map[string]string{"a.jsonl": head + test.text}))
			var p *job.Process
			for q, s := range r.sinks {
				if q.PID == 3 {
					p = q
					if len(s.spans) != test.spans {
						t.Errorf("%d spans, want %d", len(s.spans), test.spans)
					}
				}
			}
			if p == nil || p.Aside != test.aside || p.Bad != test.bad || p.RelativeClock != test.relative || p.Torn {
				t.Errorf("process %+v, want %d aside, %d bad, relative clock %v, not torn", p, test.aside, test.bad, test.relative)
			}
		})
	}
}
