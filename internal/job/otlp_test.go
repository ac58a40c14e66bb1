package job_test

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/job"
)

// otlpLine returns a line of an exporter: spans of a process of rank 3.
func otlpLine(spans ...string) string {
	return `{"resourceSpans":[{"resource":{"attributes":[{"key":"host.name","value":{"stringValue":"n1"}},{"key":"process.pid","value":{"intValue":"77"}},` +
		`{"key":"training.rank","value":{"intValue":"3"}},{"key":"training.job","value":{"stringValue":"j"}}]},` +
		`"scopeSpans":[{"scope":{"name":"x"},"spans":[` + strings.Join(spans, ",") + `]}]}]}` + "\n"
}

const otlpStart = int64(1_700_000_000)

// otlpSpan returns a span between two seconds.
func otlpSpan(id, parent, name string, from, to int64, attributes ...string) string {
	return fmt.Sprintf(`{"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"%016s","parentSpanId":"%s","name":"%s","startTimeUnixNano":"%d","endTimeUnixNano":%d,"attributes":[%s]}`,
		id, parent, name, (otlpStart+from)*1e9, (otlpStart+to)*1e9, strings.Join(attributes, ","))
}

func attr(key, kind, value string) string {
	return fmt.Sprintf(`{"key":"%s","value":{"%s":%s}}`, key, kind, value)
}

// spanSink keeps spans.
type spanSink struct{ spans []job.Span }

func (s *spanSink) Span(sp *job.Span) { s.spans = append(s.spans, *sp) }
func (*spanSink) Event(*job.Event)    {}
func (*spanSink) Close() error        { return nil }

// readOTLP writes files and reads them; each line of the result is a span.
func readOTLP(t *testing.T, files ...string) (*job.Set, []*job.Process, []string) {
	t.Helper()
	dir := t.TempDir()
	for i, text := range files {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("spans-%d.otlp.jsonl", i)), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	set, err := job.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	sink := &spanSink{}
	procs, err := set.Processes(func(*job.Process) job.Sink { return sink })
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(sink.spans, func(a, b job.Span) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End))
	})
	var out []string
	for _, s := range sink.spans {
		end := "open"
		if s.End != job.NoEnd {
			end = fmt.Sprint(s.End/1e9 - otlpStart)
		}
		out = append(out, fmt.Sprintf("%s %d-%s %x<%x", s.Name, s.Start/1e9-otlpStart, end, s.ID, s.Parent))
	}
	return set, procs, out
}

func TestSpansOfOTLP(t *testing.T) {
	app := func(id, of, parent string, index int, from, to int64, more ...string) string {
		all := append([]string{attr("segment.index", "intValue", fmt.Sprintf(`"%d"`, index))}, more...)
		if of != "" {
			all = append(all, attr("segment.of", "stringValue", fmt.Sprintf(`"%016s"`, of)))
		}
		return otlpSpan(id, parent, "application", from, to, all...)
	}
	final := attr("segment.final", "boolValue", "true")
	load := func(id, parent string, from, to int64) string {
		return otlpSpan(id, parent, "checkpoint_load", from, to)
	}
	for _, c := range []struct {
		name  string
		files []string
		want  string
	}{
		{"a span and one below it", []string{otlpLine(load("b", "000000000000000a", 2, 3), otlpSpan("a", "", "application", 0, 9))},
			"application 0-9 a<0, checkpoint_load 2-3 b<a"},
		{"segments in several files", []string{otlpLine(load("b", "00000000000000c1", 12, 13)),
			otlpLine(app("a", "", "", 0, 0, 10)) + otlpLine(app("c1", "a", "", 1, 10, 20)), otlpLine(app("c2", "a", "", 2, 20, 30, final))},
			"application 0-30 a<0, checkpoint_load 12-13 b<a"},
		{"the last segment is missing", []string{otlpLine(app("a", "", "", 0, 0, 10)) + otlpLine(app("c1", "a", "", 1, 10, 20))},
			"application 0-open a<0"},
		{"the first segment is missing", []string{otlpLine(app("c1", "a", "", 1, 10, 20, final))}, "application 10-20 a<0"},
		{"the same batch twice", []string{otlpLine(load("b", "", 2, 3)) + otlpLine(load("b", "", 2, 3)), otlpLine(load("b", "", 2, 3))},
			"checkpoint_load 2-3 b<0"},
		{"a parent in another trace", []string{otlpLine(strings.TrimSuffix(load("b", "000000000000000f", 2, 3), "}") +
			`,"links":[{"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"000000000000000a","attributes":[` + attr("link.kind", "stringValue", `"parent"`) + `]}]}`)},
			"checkpoint_load 2-3 b<a"},
	} {
		_, procs, got := readOTLP(t, c.files...)
		if strings.Join(got, ", ") != c.want || len(procs) != 1 {
			t.Errorf("%s: %s of %d processes, want %s", c.name, got, len(procs), c.want)
			continue
		}
		if p := procs[0]; p.Rank != 3 || !p.RankKnown || p.PID != 77 || p.Host != "n1" || p.JobID != "j" || len(p.Sources) != len(c.files) {
			t.Errorf("%s: rank %d, pid %d, host %s, job %s, %d files; want 3, 77, n1, j, %d", c.name, p.Rank, p.PID, p.Host, p.JobID, len(p.Sources), len(c.files))
		}
	}
}

func TestDamagedOTLP(t *testing.T) {
	good := otlpLine(otlpSpan("a", "", "checkpoint_load", 0, 9))
	for _, c := range []struct {
		name string
		text string
		bad  int
		torn bool
		logs int64
	}{
		{"whole", good, 0, false, 0},
		{"no line end", strings.TrimSuffix(good, "\n"), 0, false, 0},
		{"a line cut off", good + good[:100], 0, true, 0},
		{"lines that are none", good + "{\n" + `{"a":1}` + "\n", 2, false, 0},
		{"an id that is none", good + strings.Replace(good, "000000000000000a", "xyz", 1), 1, false, 0},
		{"log records", `{"resourceLogs":[]}` + "\n" + good + `{"resourceMetrics":[]}` + "\n", 0, false, 2},
	} {
		_, procs, spans := readOTLP(t, c.text)
		if len(procs) != 1 || len(spans) != 1 {
			t.Errorf("%s: %d processes, spans %s; want one of each", c.name, len(procs), spans)
			continue
		}
		if p := procs[0]; p.Bad != c.bad || p.Torn != c.torn || p.OtherSignals != c.logs || p.Cut != (c.torn || c.bad > 0) {
			t.Errorf("%s: %d bad, torn %v, cut %v, %d other signals; want %d, %v, %d", c.name, p.Bad, p.Torn, p.Cut, p.OtherSignals, c.bad, c.torn, c.logs)
		}
	}
	set, procs, _ := readOTLP(t, good, `{"resourceLogs":[]}`+"\n"+`{"resourceLogs":[]}`+"\n")
	if len(procs) != 1 || len(set.Skipped) != 1 || !errors.Is(set.Skipped[0], job.ErrForeign) || !strings.Contains(set.Skipped[0].Error(), "2 lines of OTLP log records or metrics") {
		t.Errorf("%d processes, skipped %v; want 1 and a file with 2 lines of other OTLP data", len(procs), set.Skipped)
	}
}
