package dftracer_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/fsread"
	"github.com/trainspan/trainspan/internal/testkit/growth"
	"github.com/trainspan/trainspan/internal/testkit/gziptest"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/recovery"
	"github.com/trainspan/trainspan/internal/tracefile/validate"
)

// describe returns an event as text for comparison.
func describe(ev *dftracer.Event) string {
	b := []byte(ev.Phase.String())
	for _, n := range [...]int64{int64(ev.Type), int64(ev.ID), ev.PID, ev.TID, ev.TS, ev.Dur, int64(ev.Level), ev.Parent} {
		b = strconv.AppendInt(append(b, ' '), n, 10)
	}
	for _, s := range [...]string{ev.Name, ev.Cat, ev.HostHash} {
		b = append(append(append(b, ' ', '"'), s...), '"')
	}
	for _, a := range ev.Args {
		b = strconv.AppendQuote(append(b, ' '), a.Key)
		b = strconv.AppendInt(append(b, ':'), int64(tracefile.KindOf(a)), 10)
		b = tracefile.AppendArg(a, append(b, '='), dftracer.V2)
	}
	return string(b)
}

func readAll(t testing.TB, r io.Reader) ([]string, dftracer.ReadStats) {
	t.Helper()
	rd, err := dftracer.NewReader(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	var events []string
	for ev, err := range rd.All() {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, describe(ev))
	}
	return events, rd.Stats()
}

func TestReaderForms(t *testing.T) {
	const want = `X 0 5 1 2 30 4 2 1 "fwd" "compute" "ab" "epoch":0=7 "loss":2=0.5 "s":3="x\"é"`
	for _, line := range []string{
		`{"id":5,"name":"fwd","cat":"compute","pid":1,"tid":2,"ts":30,"dur":4,"ph":"X","args":{"hhash":"ab","level":2,"p_idx":1,"epoch":7,"loss":0.5,"s":"x\"é"}}`,
		`{"ph": "X", "cat": "compute", "name": "fwd", "id": 5, "pid": 1, "tid": 2, "ts": 30, "dur": 4, "args": {"p_idx": 1, "hhash": "ab", "level": 2, "epoch": 7, "loss": 0.5, "s": "x\u0022\u00e9"}},`,
		`  {"id":5.0,"name":"f\u0077d","cat":"compute","pid":"1","tid":2,"ts":30.7,"dur":4,"ph":1,"args":{"hhash":"ab","level":2,"p_idx":1,"epoch":7,"loss":5e-1,"s":"x\"é"}}` + "\r",
		`{"unknown":{"deep":[1,{"a":"}"}]},"id":5,"name":"fwd","cat":"compute","pid":1,"tid":2,"ts":30,"dur":4,"ph":1,"args":{"hhash":"ab","level":2,"p_idx":1,"epoch":7,"loss":0.5,"s":"x\"\u00e9"}}`,
	} {
		events, st := readAll(t, strings.NewReader("[\n"+line+"\n]"))
		if len(events) != 1 || events[0] != want || st.Bad != 0 || st.Lines != 2+1 && st.Lines != 2 {
			t.Errorf("%s\ngives %q\nwant  %q, %+v", line, events, want, st)
		}
	}
}

func TestReaderSkipsBadLines(t *testing.T) {
	text := strings.Join([]string{"[",
		`{"name":"a","cat":"c","pid":1,"tid":1,"ts":1,"dur":1,"ph":"X"}`,
		`{"name":"b","cat":"c","pid":1,"tid":1,"ts":1,"dur":1}`, // no phase
		`{"name":"quote "in" it","ph":"X"}`,
		``,
		`{"name":"c","cat":"c","pid":1,"tid":1,"ts":1,"dur":1,"ph":"B"}`,
		`null`,
		strings.Repeat("x", fsread.MaxLine+1),
		`{"name":"d","cat":"c","pid":1,"tid":1,"ts":01,"dur":1,"ph":"X"}`,
		`{"name":"e","cat":"c","pid":1,"tid":1,"ts":1,"dur":1,"ph":"C"}`,
		"]"}, "\n")
	var bad []int
	rd, err := dftracer.NewReader(iotest.HalfReader(strings.NewReader(text)), &dftracer.ReaderOptions{OnBad: func(e *dftracer.LineError) { bad = append(bad, e.Line) }})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range rd.All() {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	st := rd.Stats()
	if want := []int{3, 4, 6, 7, 8, 9}; n != 2 || !slices.Equal(bad, want) || st.Bad != len(want) || st.First[0].Line != 3 || st.Events != 2 {
		t.Errorf("%d events, bad lines %v, %+v; want 2 events and the bad lines %v", n, bad, st, want)
	}
	if _, err := rd.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
}

func TestReaderReportsIOErrors(t *testing.T) {
	broken := errors.New("broken")
	rd, err := dftracer.NewReader(io.MultiReader(strings.NewReader("[\n"), iotest.ErrReader(broken)), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range rd.All() {
		if !errors.Is(err, broken) {
			t.Errorf("Next() = %v, want %v", err, broken)
		}
	}
	if _, err := dftracer.OpenReader(filepath.Join(t.TempDir(), "none"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// stepsText returns a trace of n events as plain text.
func stepsText(t testing.TB, n int) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := dftracer.NewWriter(&out, &dftracer.Options{Compression: dftracer.CompressNone})
	if err != nil {
		t.Fatal(err)
	}
	writeSteps(w, 5, n)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestTimeUnits checks that times in any unit are read as microseconds, in all pieces.
func TestTimeUnits(t *testing.T) {
	var out bytes.Buffer
	w, err := dftracer.NewWriter(&out, &dftracer.Options{Dialect: dftracer.V22, Compression: dftracer.CompressNone})
	if err != nil {
		t.Fatal(err)
	}
	writeSteps(w, 5, 300)
	w.Write(&dftracer.Event{Phase: dftracer.PhaseAggregated, Name: "read", Cat: "posix", TS: 1_700_000_000_000_000, Args: []dftracer.Arg{dftracer.Int("dft_cnt", 3), dftracer.Int("dur_sum", 7_000_000), dftracer.Int("size_sum", 5_000_000)}})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	times := regexp.MustCompile(`"(ts|dur|dur_sum)":(\d+)`)
	scaled := func(text string, f func(us int64) int64) string {
		return times.ReplaceAllStringFunc(text, func(member string) string {
			m := times.FindStringSubmatch(member)
			us, _ := strconv.ParseInt(m[2], 10, 64)
			return `"` + m[1] + `":` + strconv.FormatInt(f(us), 10)
		})
	}
	for unit, c := range map[string]struct {
		write, read func(int64) int64 // the number for a time, and the time as it is read
	}{
		"NS":  {func(us int64) int64 { return us*1000 + 7 }, func(us int64) int64 { return us }},
		"US":  {func(us int64) int64 { return us }, func(us int64) int64 { return us }},
		"MS":  {func(us int64) int64 { return us / 1000 }, func(us int64) int64 { return us / 1000 * 1000 }},
		"SEC": {func(us int64) int64 { return us / 1e6 }, func(us int64) int64 { return us / 1e6 * 1e6 }},
	} {
		text := strings.Replace(scaled(out.String(), c.write), `"value":"US"`, `"value":"`+unit+`"`, 1)
		if unit == "NS" { // two times 7 ns are no microsecond
			text = regexp.MustCompile(`("dur":\d*)007\b`).ReplaceAllString(text, "${1}000")
		}
		want, _ := readAll(t, strings.NewReader(scaled(out.String(), c.read)))
		got, _ := readAll(t, strings.NewReader(text))
		got[2] = strings.Replace(got[2], unit, "US", 1) // the record of the unit
		if !slices.Equal(got, want) {
			t.Errorf("%s: Reader gave %.3q, want %.3q", unit, got, want)
		}
		path := filepath.Join(t.TempDir(), "trace")
		third := len(text) / 3
		for name, data := range map[string][]byte{"plain": []byte(text), "members": gziptest.Pack([]byte(text[:third]), []byte(text[third:2*third]), []byte(text[2*third:]))} {
			writeFile(t, path, string(data))
			var all []string
			if _, err := dftracer.Scan(path, nil, func(ev *dftracer.Event) error { all = append(all, describe(ev)); return nil }); err != nil {
				t.Fatal(err)
			}
			all[2] = strings.Replace(all[2], unit, "US", 1)
			if !slices.Equal(all, want) {
				t.Errorf("%s, %s: Scan gave %.3q, want %.3q", unit, name, all, want)
			}
		}
	}
}

// TestScanEqualsReader reads the same traces in all ways, also with members
// that end in the middle of a line.
func TestScanEqualsReader(t *testing.T) {
	text := stepsText(t, 1500)
	text = bytes.Replace(text, []byte(`"name":"item"`), []byte(`"name":item"`), 1)                               // one bad line
	long := bytes.ReplaceAll(text, []byte(`"name":"item"`), []byte(`"name":"`+strings.Repeat("item", 6000)+`"`)) // more than one piece of plain text
	cut := func(size int) (parts [][]byte) {
		for rest := text; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			parts = append(parts, rest[:min(size, len(rest))])
		}
		return parts
	}
	for _, test := range []struct {
		name string
		data []byte
	}{
		{"plain", long},
		{"single", gziptest.Pack(text)},
		{"members of odd sizes", gziptest.Pack(cut(70123)...)},
		{"tiny members", gziptest.Pack(cut(5001)...)},
		{"empty members", gziptest.Pack(text[:3000], nil, text[3000:9000], nil, nil, text[9000:])},
		{"torn", gziptest.Pack(cut(70123)...)[:len(gziptest.Pack(cut(70123)...))-5000]},
		{"torn plain", long[:len(long)-7777]},
		{"mixed headers", append(gziptest.Pack(text[:50000]), namedMember(text[50000:])...)},
	} {
		t.Run(test.name, func(t *testing.T) {
			want, st := readAll(t, bytes.NewReader(test.data))
			path := filepath.Join(t.TempDir(), "trace")
			if err := os.WriteFile(path, test.data, 0o666); err != nil {
				t.Fatal(err)
			}
			for _, opts := range []dftracer.ReaderOptions{{}, {Workers: 5}, {Concurrent: true}, {Concurrent: true, Workers: 7}, {Concurrent: true, Workers: 1}} {
				var mu sync.Mutex
				var got []string
				hashes := new(tracefile.Hashes)
				opts.Hashes = hashes
				sst, err := dftracer.Scan(path, &opts, func(ev *dftracer.Event) error {
					mu.Lock()
					defer mu.Unlock()
					got = append(got, describe(ev))
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				expect := want
				if opts.Concurrent {
					slices.Sort(got)
					expect = slices.Clone(want)
					slices.Sort(expect)
				}
				if !slices.Equal(got, expect) {
					t.Errorf("%+v: Scan gave %d events, want the %d of Reader", opts, len(got), len(want))
				}
				if sst.Lines != st.Lines || sst.Events != st.Events || sst.Bad != 1 || sst.Torn != st.Torn || sst.First[0].Line != st.First[0].Line {
					t.Errorf("%+v: Scan gave %+v, want as Reader %+v, with 1 bad line", opts, sst, st)
				}
				if hashes.Len() < 4 {
					t.Errorf("%d hashes, want at least 4", hashes.Len())
				}
			}
		})
	}
}

// namedMember returns a member with a file name in its header, as the gzip
// program writes it.
func namedMember(text []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Name = "trace.pfw"
	_, _ = z.Write(text)
	_ = z.Close()
	return out.Bytes()
}

func TestScanStops(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.pfw.gz")
	text := stepsText(t, 8000)
	if err := os.WriteFile(path, gziptest.Pack(text[:300000], text[300000:600000], text[600000:900000], text[900000:]), 0o666); err != nil {
		t.Fatal(err)
	}
	stop := errors.New("enough")
	for _, concurrent := range []bool{false, true} {
		var mu sync.Mutex
		n := 0
		_, err := dftracer.Scan(path, &dftracer.ReaderOptions{Concurrent: concurrent}, func(*dftracer.Event) error {
			mu.Lock()
			defer mu.Unlock()
			if n++; n == 1000 {
				return stop
			}
			return nil
		})
		if !errors.Is(err, stop) || n >= 8000 {
			t.Errorf("concurrent %v: %v after %d events", concurrent, err, n)
		}
	}
}

// TestTornEverywhere cuts a trace at every byte of its last member.
func TestTornEverywhere(t *testing.T) {
	text := stepsText(t, 100)
	cutAt := bytes.LastIndexByte(text[:len(text)-6000], '\n') + 1
	first, last := gziptest.Pack(text[:cutAt]), gziptest.Pack(text[cutAt:])
	want, _ := readAll(t, bytes.NewReader(text))
	whole := bytes.Count(text[:cutAt], []byte("\n")) - 1 // without "["
	path := filepath.Join(t.TempDir(), "trace.pfw.gz")
	most := 0
	for n := range last {
		data := append(bytes.Clone(first), last[:n]...)
		got, st := readAll(t, bytes.NewReader(data))
		if len(got) < whole || !slices.Equal(got, want[:len(got)]) || st.Bad > 0 || st.Torn != (n > 0) {
			t.Fatalf("cut at %d of %d: %d events, at least %d expected, %+v", n, len(last), len(got), whole, st)
		}
		most = max(most, len(got))
		if n%64 != 0 && n < len(last)-10 {
			continue
		}
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		report, err := recovery.File(path, nil)
		if err != nil || report.Clean {
			t.Fatalf("cut at %d: %+v, %v; want it repaired", n, report, err)
		}
		v, err := dftracer.ValidateFile(path, nil)
		if err != nil || !v.OK() {
			t.Fatalf("cut at %d: %v %v; want a valid trace", n, err, v.Err())
		}
		if records := v.Events + v.Metadata - report.Unfinished; records < len(got) || records > len(got)+2 { // there may also be the end event and a record of the damage
			t.Fatalf("cut at %d: %d records after recovery, want %d, or up to two more", n, records, len(got))
		}
	}
	if most <= whole {
		t.Errorf("got no records of the last member, want some")
	}
}

// TestDamagedMember breaks a member in the middle of a trace.
func TestDamagedMember(t *testing.T) {
	text := stepsText(t, 3000)
	var parts [][]byte
	for i, begin := 1, 0; i <= 4; i++ {
		end := len(text)
		if i < 4 {
			end = bytes.LastIndexByte(text[:len(text)*i/4], '\n') + 1
		}
		parts = append(parts, gziptest.Pack(text[begin:end]))
		begin = end
	}
	parts[1][len(parts[1])/2] ^= 0x55
	path := filepath.Join(t.TempDir(), "trace.pfw.gz")
	if err := os.WriteFile(path, slices.Concat(parts...), 0o666); err != nil {
		t.Fatal(err)
	}
	whole := 0
	for _, part := range []int{0, 2, 3} {
		events, _ := readAll(t, bytes.NewReader(parts[part]))
		whole += len(events)
	}
	st, err := dftracer.Scan(path, nil, func(*dftracer.Event) error { return nil })
	if err != nil || !st.Torn || st.DamagedAt != int64(len(parts[0])) || st.Events < whole || st.Events >= 3008 {
		t.Errorf("%v, %+v; want it torn at member 1, with %d events or more", err, st, whole)
	}
	report, err := recovery.File(path, nil)
	if err != nil || report.Clean || report.Lines < whole {
		t.Errorf("recovery: %v, %+v; want it not clean, with %d lines or more", err, report, whole)
	}
	if report.DamagedAt != int64(len(parts[0])) {
		t.Errorf("damaged at %d, want %d, the start of the member", report.DamagedAt, len(parts[0]))
	}
	v, err := dftracer.ValidateFile(path, nil)
	if err != nil || !v.OK() || v.Orphans != 0 || v.Events+v.Metadata != report.Lines+report.Unfinished {
		t.Errorf("%v %v %+v; want a valid trace without orphans and every line of the report", err, v.Err(), report)
	}
}

// FuzzReader reads arbitrary bytes: nothing may panic, and encoding/json must
// agree with what the fast parser accepts.
func FuzzReader(f *testing.F) {
	for _, name := range []string{"v1", "v2", "v22"} {
		text, err := os.ReadFile(filepath.Join("testdata", name+".pfw"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
		f.Add(gziptest.Pack(text))
	}
	f.Add([]byte(`{"ph":"X","args":{"a":-0,"b":1e400,"c":[1],"d":"\ud800"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		text := len(data) // the data and its decompressed text
		if z, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
			n, _ := io.Copy(io.Discard, z)
			text += int(n)
		}
		growth.Work(t, text, 256, func() {
			rd, err := dftracer.NewReader(bytes.NewReader(data), nil)
			if err != nil {
				return
			}
			for _, err := range rd.All() {
				if err != nil {
					t.Fatal(err)
				}
			}
		})
		growth.Work(t, text+4096, 512, func() { _, _ = validate.Stream(bytes.NewReader(data), nil) })
	})
}
