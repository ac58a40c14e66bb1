package dftracer_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/validate"
)

// fixed makes everything in a trace reproducible.
func fixed(opts dftracer.Options) *dftracer.Options {
	opts.Compression = dftracer.CompressNone
	opts.Process = dftracer.Process{PID: 1028567, PPID: 1028565, Host: "corona171", Exec: "dlio_benchmark",
		Command: "/usr/bin/dlio_benchmark;workload=unet3d", Dir: "/p/lustre3/run"}
	opts.Now = func() time.Time { return time.Date(2025, 4, 13, 23, 25, 12, 981173000, time.UTC) }
	return &opts
}

// writeEverything writes one of each kind of record.
func writeEverything(t *testing.T, w *dftracer.Writer) {
	t.Helper()
	const ts = 1744611912990000
	train := &dftracer.Event{ID: w.NextID(), Name: "train", Cat: "pipeline", TID: 1028567, TS: ts, Level: 1, Parent: dftracer.NoParent}
	tracefile.WriteBegin(w, train)
	tracefile.WriteRank(w, 3)
	tracefile.WriteCores(w, []int{0, 1, 5})
	tracefile.WriteCustom(w, "epoch.start", "1744611912990001")
	file := w.Hash(tracefile.NameFileHash, "/p/lustre3/data/img_0.h5")
	w.Hash(tracefile.NameFileHash, "/p/lustre3/data/img_0.h5")
	text := w.Hash(tracefile.NameStringHash, "a \"quoted\" \\ string")
	if again := w.Hash("", "a \"quoted\" \\ string"); again != text {
		t.Errorf("Hash of no kind = %v, want that of a string: %v", again, text)
	}
	other := tracefile.HashText(w.Hash(tracefile.NameHostHash, "corona172"), w.Dialect())
	key := tracefile.WithType(dftracer.NewKey("compute", "forward"), tracefile.TypePython)
	w.WriteComplete(&key, dftracer.Span{ID: w.NextID(), TID: 1028567, TS: ts + 10, Dur: 20, Level: 2, Parent: int64(train.ID)},
		dftracer.Int("epoch", 1), dftracer.Int("step", 2), dftracer.Float("loss", 0.5), dftracer.Float("scale", 3))
	w.Write(&dftracer.Event{Name: "read", Cat: "POSIX", Type: tracefile.TypeLibcIO, TID: 1028567, TS: ts + 40, Dur: 5, Level: 2, Parent: int64(train.ID),
		Args: []dftracer.Arg{tracefile.HashArg("fhash", file), dftracer.Int("ret", 4096), tracefile.HashArg("shash", text),
			dftracer.Uint("big", math.MaxUint64), dftracer.Int("neg", math.MinInt64), dftracer.Bool("cached", true),
			dftracer.String("note", "tab\t\"<&>\" é \x01 \xff"), dftracer.Raw("shape", "[1,\n 2]"), dftracer.Raw("broken", "[1,"),
			dftracer.Float("nan", math.NaN()), dftracer.Float("inf", math.Inf(-1)), dftracer.Int("level", 9)}})
	w.Write(&dftracer.Event{Name: "recv", Cat: "comm", PID: 99, TID: 99, TS: ts + 50, Dur: 1, HostHash: other, Level: 1})
	w.Write(&dftracer.Event{Phase: dftracer.PhaseCounter, Cat: "sys", Name: "memory", TID: 1028567, TS: ts + 60, Args: []dftracer.Arg{dftracer.Float("used_pct", 12.25), dftracer.Int("free", 17)}})
	train.Dur = 100
	w.Write(train)
	w.SetEnd(time.Time{}, dftracer.Int("dropped_spans", 0))
}

func TestGolden(t *testing.T) {
	for _, test := range []struct {
		name string
		opts dftracer.Options
	}{
		{"v1", dftracer.Options{Dialect: dftracer.V1}},
		{"v2", dftracer.Options{}},
		{"v22", dftracer.Options{Dialect: dftracer.V22}},
		{"v22_nested", dftracer.Options{Dialect: dftracer.V22, Nesting: dftracer.NestingOn}},
		{"v1_bare", dftracer.Options{Dialect: dftracer.V1, NoMetadata: true}},
		{"v2_bare", dftracer.Options{NoMetadata: true}},
		{"v22_bare", dftracer.Options{Dialect: dftracer.V22, NoMetadata: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			w, err := dftracer.NewWriter(&out, fixed(test.opts))
			if err != nil {
				t.Fatal(err)
			}
			writeEverything(t, w)
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", test.name+".pfw")
			if *update {
				if err := os.WriteFile(path, out.Bytes(), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out.Bytes(), want) {
				t.Errorf("output differs from %s:\n%s, want %s", path, out.Bytes(), want)
			}
			report, err := validate.Stream(bytes.NewReader(out.Bytes()), nil)
			if err != nil || !report.OK() {
				t.Errorf("%v, %v; want a valid trace", err, report.Err())
			}
			if report.Dialect != test.opts.Dialect && !test.opts.NoMetadata {
				t.Errorf("dialect %v, want %v", report.Dialect, test.opts.Dialect)
			}
		})
	}
}

// TestFramingLines counts physical lines like DFTracer's own tests.
func TestFramingLines(t *testing.T) {
	for _, test := range []struct {
		name  string
		opts  dftracer.Options
		lines int
	}{
		{"v1", dftracer.Options{Dialect: dftracer.V1}, 8},
		{"v2", dftracer.Options{}, 9},
		{"v22", dftracer.Options{Dialect: dftracer.V22}, 8},
		{"v2 bare", dftracer.Options{NoMetadata: true}, 6},
		{"v22 bare", dftracer.Options{Dialect: dftracer.V22, NoMetadata: true}, 5},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			w, err := dftracer.NewWriter(&out, fixed(test.opts))
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			text := out.String()
			lines := strings.Count(text, "\n")
			if !strings.HasSuffix(text, "\n") {
				lines++
			}
			if lines != test.lines {
				t.Errorf("%d lines, want %d:\n%s", lines, test.lines, text)
			}
		})
	}
}

// TestV1MatchesReference compares the first records with those of a real trace,
// except for the arguments whose order DFTracer does not fix.
func TestV1MatchesReference(t *testing.T) {
	var out bytes.Buffer
	w, err := dftracer.NewWriter(&out, fixed(dftracer.Options{Dialect: dftracer.V1}))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	for i, want := range []string{
		`[`,
		`{"id":1,"name":"HH","cat":"dftracer","pid":1028567,"tid":1028567,"ph":"M","args":{"hhash":9509357668201227806,"name":"corona171","value":9509357668201227806}}`,
		`{"id":2,"name":"thread_name","cat":"dftracer","pid":1028567,"tid":1028567,"ph":"M","args":{"hhash":9509357668201227806,"name":"1028567","value":"thread_name"}}`,
	} {
		if lines[i] != want {
			t.Errorf("line %d is %s, want %s", i+1, lines[i], want)
		}
	}
	if want := `"name":"dlio_benchmark","value":15997048988198709261}}`; !strings.HasSuffix(lines[4], want) {
		t.Errorf("line 5 is %s, want it to end with %s", lines[4], want)
	}
	var start struct {
		Args map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(lines[5]), &start); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"version": "100008", "date": `"Sun Apr 13 23:25:12 2025"`, "ppid": "1028565", "p_idx": "-1", "level": "1", "exec_hash": "15997048988198709261"} {
		if got := string(start.Args[key]); got != want {
			t.Errorf("start has %s %s, want %s", key, got, want)
		}
	}
}
