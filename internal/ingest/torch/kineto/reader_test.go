package kineto_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/trainspan/trainspan/internal/ingest/torch/kineto"
	"github.com/trainspan/trainspan/internal/testkit/growth"
	"github.com/trainspan/trainspan/internal/testkit/gziptest"
)

// all reads a trace and returns its events as text.
func all(t testing.TB, r io.Reader) ([]string, *kineto.Info, error) {
	t.Helper()
	kr := kineto.NewReader(r)
	var ev kineto.Event
	var out []string
	for {
		err := kr.Next(&ev)
		if err == io.EOF {
			return out, kr.Info(), nil
		}
		if err != nil {
			return out, kr.Info(), err
		}
		out = append(out, string(ev.Name()))
	}
}

func TestTimesAreExact(t *testing.T) {
	for _, tc := range []struct {
		text    string
		ns      int64
		inexact int64
	}{
		{"0", 0, 0},
		{"1623142623460111", 1623142623460111000, 0},
		{"1712195495406752.797", 1712195495406752797, 0},
		{"4203669604595.407", 4203669604595407, 0},
		{"0.001", 1, 0},
		{".5", 500, 0},
		{"7.", 7000, 0},
		{"12.34", 12340, 0},
		{"1.0009", 1000, 1},
		{"1.0000", 1000, 0},
		{"-0.0005", -1, 1},
		{"-2.5", -2500, 0},
		{`"250.125"`, 250125, 0},
		{"1.5e3", 1500000, 0},
		{"1712195495406752797e-3", 1712195495406752797, 0},
		{"1.5E-3", 1, 1},
		{"9223372036854775.806", 9223372036854775806, 0},
	} {
		kr := kineto.NewReader(strings.NewReader(`{"traceEvents":[{"ph":"X","name":"a","ts":` + tc.text + `,"dur":1}]}`))
		var ev kineto.Event
		if err := kr.Next(&ev); err != nil {
			t.Errorf("%s: Next() = %v; defects %v", tc.text, err, kr.Info().Defects)
			continue
		}
		if ev.TS != tc.ns || kr.Info().InexactTimes != tc.inexact || !ev.HasTS {
			t.Errorf("%s = %d ns, %d inexact; want %d, %d", tc.text, ev.TS, kr.Info().InexactTimes, tc.ns, tc.inexact)
		}
	}
	for _, bad := range []string{"99999999999999999999", "1e400", "1e", "--1", ".", `""`, "true", "[1]", "1x"} {
		got, info, err := all(t, strings.NewReader(`{"traceEvents":[{"ph":"X","name":"a","ts":`+bad+`,"dur":1}]}`))
		if err != nil || len(got) != 0 || info.Skipped != 1 {
			t.Errorf("ts %s: %d events, %d skipped, %v; want 0, 1, no error", bad, len(got), info.Skipped, err)
		}
	}
}

func TestColumns(t *testing.T) {
	kr := kineto.NewReader(strings.NewReader(`[
		{"ph":"X","cat":"Kernel","name":"k","pid":0,"tid":"stream 7","ts":1,"dur":2,"id":9},
		{"ph":"X","cat":"Operator","name":"ProfilerStep#3","pid":"25738","tid":"25738","ts":1,"dur":2},
		{"ph":"X","name":"x","pid":"CPU functions","tid":-1,"ts":1,"dur":2}]`))
	var ev kineto.Event
	for _, want := range []struct {
		kind     kineto.Kind
		pid, tid kineto.ID
	}{
		{kineto.KindKernel, kineto.ID{IsNum: true}, kineto.ID{Num: 7, Stream: true}},
		{kineto.KindUserAnnotation, kineto.ID{Num: 25738, IsNum: true}, kineto.ID{Num: 25738, IsNum: true}},
		{kineto.KindCPUOp, kineto.ID{}, kineto.ID{Num: -1, IsNum: true}},
	} {
		if err := kr.Next(&ev); err != nil {
			t.Fatal(err)
		}
		if ev.Kind() != want.kind || ev.PID.Num != want.pid.Num || ev.PID.IsNum != want.pid.IsNum || ev.TID.Num != want.tid.Num || ev.TID.Stream != want.tid.Stream || ev.TID.IsNum != want.tid.IsNum {
			t.Errorf("%s: kind %v, pid %+v, tid %+v; want %v, %+v, %+v", ev.RawName(), ev.Kind(), ev.PID, ev.TID, want.kind, want.pid, want.tid)
		}
	}
	for range 2 {
		if err := kr.Next(&ev); err != io.EOF {
			t.Errorf("Next after the end = %v, want io.EOF", err)
		}
	}
}

func TestArgs(t *testing.T) {
	a := kineto.Args(`{"External id": 5,"q":"7", "f": 1.25, "s": "a\"b\u00e9\n\\U", "n": N/A, "l": [[1, 2], [], "x,]"], "o": {"k": [1]}}`)
	if v, ok := a.Int("External id"); !ok || v != 5 {
		t.Errorf("Int = %v, %v, want 5, true", v, ok)
	}
	if v, ok := a.Int("q"); !ok || v != 7 {
		t.Errorf("quoted Int = %v, %v, want 7, true", v, ok)
	}
	if v, ok := a.Float("f"); !ok || v != 1.25 {
		t.Errorf("Float = %v, %v, want 1.25, true", v, ok)
	}
	if v, ok := a.Text("s"); !ok || v != "a\"bé\n\\U" {
		t.Errorf("Text(s) = %q, %v; want the unescaped text", v, ok)
	}
	if _, ok := a.Int("n"); ok {
		t.Error("N/A parsed as a number, want not")
	}
	if _, ok := a.Raw("absent"); ok {
		t.Error("got a value for an absent member, want none")
	}
	raw, _ := a.Raw("l")
	var elems []string
	kineto.Elements(raw, func(e []byte) bool { elems = append(elems, string(e)); return true })
	if strings.Join(elems, "|") != `[1, 2]|[]|"x,]"` {
		t.Errorf(`elements %q, want [1, 2], [] and "x,]"`, elems)
	}
	if o, ok := a.Raw("o"); !ok || string(o) != `{"k": [1]}` {
		t.Errorf(`Raw(o) = %q, want {"k": [1]}`, o)
	}
	kineto.Args("{broken").Each(func(_, _ []byte) bool { t.Error("Each found members in a broken object"); return false })
	kineto.Args(nil).Each(func(_, _ []byte) bool { t.Error("Each found members in nil arguments"); return false })
}

func TestDefectsAreSkippedByOffset(t *testing.T) {
	const ok1, ok2 = `{"ph":"X","name":"one","ts":1,"dur":1}`, `{"ph":"X","name":"two","ts":2,"dur":1}`
	for _, tc := range []struct {
		name, text string
		want       string
		skipped    int64
		truncated  bool
	}{
		{"clean", `{"traceEvents":[` + ok1 + `,` + ok2 + `]}`, "one two", 0, false},
		{"empty", `{"traceEvents":[]}`, "", 0, false},
		{"unescaped quotes", `{"traceEvents":[{"ph":"X","name":"a "b" c","ts":1},` + ok1 + `]}`, "one", 1, false},
		{"odd quote", `{"traceEvents":[{"ph":"X","name":"a"b","ts":1},` + ok1 + `,` + ok2 + `]}`, "one two", 1, false},
		{"odd backslash", `{"traceEvents":[{"ph":"X","name":"a\","ts":1},` + ok1 + `,` + ok2 + `]}`, "one two", 1, false},
		{"stray bytes", `{"traceEvents":[` + ok1 + `, garbage, ` + ok2 + `]}`, "one two", 1, false},
		{"last is broken", `{"traceEvents":[` + ok1 + `,{"ph":"X","name":"a "b","ts":1}]}`, "one", 1, false},
		{"trailing comma", `{"traceEvents":[` + ok1 + `,]}`, "one", 0, false},
		{"cut in an event", `{"traceEvents":[` + ok1 + `,` + ok2[:20], "one", 1, true},
		{"cut after an event", `{"traceEvents":[` + ok1, "one", 0, true},
		{"cut before the end", `{"traceEvents":[` + ok1 + `]`, "one", 0, true},
		{"broken head", `{"v": 1, "INFO": ["say "hi there"], "traceEvents":[` + ok1 + `]}`, "one", 1, false},
		{"broken tail", `{"traceEvents":[` + ok1 + `], "ERROR": ["say "hi"], "baseTimeNanoseconds": 1775078550000000000}`, "one", 1, false},
		{"byte order mark", "\xEF\xBB\xBF" + `{"traceEvents":[` + ok1 + `]}`, "one", 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, src := range []io.Reader{strings.NewReader(tc.text), iotest.OneByteReader(strings.NewReader(tc.text))} {
				got, info, err := all(t, src)
				if err != nil || strings.Join(got, " ") != tc.want || info.Skipped != tc.skipped || info.Truncated != tc.truncated {
					t.Errorf("events %q, skipped %d, truncated %v, error %v: %v; want %q, %d, %v", got, info.Skipped, info.Truncated, err, info.Defects, tc.want, tc.skipped, tc.truncated)
				}
				if tc.name == "broken tail" && info.Base != 1775078550000000000 {
					t.Errorf("base %d, want 1775078550000000000", info.Base)
				}
				if tc.skipped > 0 {
					d := info.Defects[0]
					if d.Offset <= 0 || d.End > int64(len(tc.text)) || d.End <= d.Offset {
						t.Errorf("defect %v is not a range within %d bytes", d, len(tc.text))
					}
				}
			}
		})
	}
}

func TestBase(t *testing.T) {
	const ev = `"traceEvents":[{"ph":"X","name":"a","ts":5.5,"dur":1}]`
	for _, tc := range []struct {
		text  string
		era   kineto.Era
		after bool
	}{
		{`{"baseTimeNanoseconds": 1775078550000000000,` + ev + `}`, kineto.EraRelative, false},
		{`{` + ev + `,"baseTimeNanoseconds": 1775078550000000000}`, kineto.EraRelative, true},
		{`{` + ev + `}`, kineto.EraRelativeNoBase, false},
		{`{"traceEvents":[{"ph":"X","name":"a","ts":1712195495406752.797,"dur":1}]}`, kineto.EraAbsoluteFraction, false},
		{`{"traceEvents":[{"ph":"X","name":"a","ts":1712195495406752,"dur":1}]}`, kineto.EraAbsoluteMicros, false},
		{`[{"ph":"X","name":"a","ts":5,"dur":1}]`, kineto.EraProfilerClock, false},
		{`{"traceEvents":[{"ph":"M","name":"a","ts":5}]}`, kineto.EraUnknown, false},
	} {
		_, info, err := all(t, strings.NewReader(tc.text))
		if err != nil || info.Era() != tc.era || info.BaseAfterEvents != tc.after {
			t.Errorf("%s: era %v, base after events %v, %v; want %v, %v", tc.text, info.Era(), info.BaseAfterEvents, err, tc.era, tc.after)
		}
	}
	// The block of the base of a real file.
	if got := kineto.BaseFor(1778682779046038437); got != 1775078550000000000 {
		t.Errorf("base %d, want 1775078550000000000", got)
	}
}

func TestLongMemberIsPassedOver(t *testing.T) {
	text := `{"ERROR": ["` + strings.Repeat(`x]}\"`, 1<<20) + `"], "k": 1, "traceEvents":[{"ph":"X","name":"a","ts":5}], "z": {"a": 2}}`
	got, info, err := all(t, strings.NewReader(text))
	if err != nil || len(got) != 1 || info.Skipped != 0 {
		t.Fatalf("events %q, defects %v, %v; want one event, none skipped", got, info.Defects, err)
	}
	if _, ok := info.Member("ERROR"); ok {
		t.Error("got the value of a long member, want it skipped")
	}
	if raw, ok := info.Member("z"); !ok || string(raw) != `{"a": 2}` {
		t.Errorf(`member z is %q, want {"a": 2}`, raw)
	}
}

func TestRefused(t *testing.T) {
	for text, word := range map[string]string{
		``: "empty", `  `: "empty", `{"schema": "1.0", "nodes": []}`: "execution trace", `[[1, "CREATE", 2, 3]]`: "memory timeline", `[1, 2]`: "items are not events",
		`{"a": 1}`: "without traceEvents", "\x0a\x12\x50test protobuf": "Perfetto", "\x80\x04\x95": "pickle", "PK\x03\x04": "zip", "<!DOCTYPE html>": "HTML",
		"hello": "no JSON", "\x28\xb5\x2f\xfd": "zstd", "V0822 14:00:48.9 1 x.py:1] {}": "TORCH_TRACE", `{"schema": "1.0"}`: "execution trace", "{x": "invalid JSON",
	} {
		_, _, err := all(t, strings.NewReader(text))
		var refused *kineto.RefusedError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), word) {
			t.Errorf("%q: %v, want %q", text, err, word)
		}
	}
}

func TestSourceErrorIsReturned(t *testing.T) {
	boom := errors.New("disk on fire")
	_, _, err := all(t, io.MultiReader(strings.NewReader(`{"traceEvents":[{"ph":"X","name":"a","ts":5},`), iotest.ErrReader(boom)))
	if !errors.Is(err, boom) {
		t.Errorf("error %v", err)
	}
}

func TestWalkLooksAtBytesNotNames(t *testing.T) {
	trace := []byte(`{"traceEvents":[{"ph":"X","name":"a","ts":5}]}`)
	var archive bytes.Buffer
	tw := tar.NewWriter(&archive)
	for name, data := range map[string][]byte{"d/r0.json": trace, "d/r1.json.gz": gziptest.Pack(trace), "d/readme.txt": []byte("x"), "d/._r0.json": []byte("x")} {
		if err := tw.WriteHeader(&tar.Header{Name: name, Size: int64(len(data)), Mode: 0o600}); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	tw.Close()
	two := append(gziptest.Pack(trace[:20]), gziptest.Pack(trace[20:])...)
	for name, tc := range map[string]struct {
		data    []byte
		members int
	}{
		"plain.gz": {trace, 1}, "gzip.json": {gziptest.Pack(trace), 1}, "two members": {two, 1}, "tar": {archive.Bytes(), 2}, "tar.gz": {gziptest.Pack(archive.Bytes()), 2},
	} {
		members, events := 0, 0
		err := kineto.Walk(bytes.NewReader(tc.data), name, func(m kineto.Member) error {
			members++
			got, _, err := all(t, m.Body)
			events += len(got)
			return err
		})
		if err != nil || members != tc.members || events != tc.members {
			t.Errorf("%s: %d members, %d events, %v; want %d of each", name, members, events, err, tc.members)
		}
	}
	cut := gziptest.Pack([]byte(`{"traceEvents":[` + strings.Repeat(`{"ph":"X","name":"a","ts":5},`, 5000) + `{"ph":"X","name":"z","ts":5}]}`))
	err := kineto.Walk(bytes.NewReader(cut[:len(cut)-20]), "cut.gz", func(m kineto.Member) error {
		got, info, err := all(t, m.Body)
		if !info.Truncated || info.Cause == nil || len(got) == 0 {
			t.Errorf("cut archive: %d events, %+v; want some events, truncated, with the cause", len(got), info)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestReaderAllocatesPerFileNotPerEvent(t *testing.T) {
	data := generate(3000)
	allocs := testing.AllocsPerRun(10, func() { drain(t, bytes.NewReader(data)) })
	if allocs > 40 {
		t.Errorf("%v allocations for 3000 events, want at most 40", allocs)
	}
}

func FuzzReader(f *testing.F) {
	files, _ := os.ReadDir("../testdata")
	for _, e := range files {
		if data, err := os.ReadFile("../testdata/" + e.Name()); err == nil {
			f.Add(data)
		}
	}
	f.Add([]byte(`{"a": [1, {"b": "\"}"}], "traceEvents":[{"ph":"X","args":{"x":"\\"},"ts":1e2},{"ph":"i"}], "z": null}`))
	f.Add([]byte(`{"traceEvents":[` + strings.Repeat(`{"ph":[`, 500)))
	f.Fuzz(func(t *testing.T, data []byte) {
		growth.Work(t, len(data), 16, func() { drain(t, bytes.NewReader(data)) })
		kr := kineto.NewReader(bytes.NewReader(data))
		var ev kineto.Event
		last, n := int64(-1), int64(0)
		for {
			err := kr.Next(&ev)
			if err != nil {
				if again := kr.Next(&ev); again == nil {
					t.Fatal("the second call returned no error, want the same error")
				}
				break
			}
			n++
			if ev.Offset <= last || ev.Offset >= int64(len(data)) || data[ev.Offset] != '{' {
				t.Fatalf("event %d is at %d after %d, want rising offsets of {", n, ev.Offset, last)
			}
			last = ev.Offset
			ev.Kind()
			kineto.Clean(ev.Name())
			ev.Args.Each(func(k, v []byte) bool { kineto.Elements(v, func([]byte) bool { return true }); return true })
		}
		info := kr.Info()
		if info.Events != n || info.SkippedBytes > int64(len(data)) || info.Bytes > int64(len(data)) {
			t.Fatalf("%d events, want the count and the bytes of %+v", n, info)
		}
		whole, _, _ := all(t, bytes.NewReader(data))
		if len(data) < 4096 {
			pieces, _, _ := all(t, iotest.OneByteReader(bytes.NewReader(data)))
			if strings.Join(whole, "\x00") != strings.Join(pieces, "\x00") {
				t.Fatalf("%q in one piece, want the same byte by byte, got %q", whole, pieces)
			}
		}
	})
}
