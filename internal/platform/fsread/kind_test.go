package fsread_test

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/trainspan/trainspan/internal/platform/fsread"
)

func packed(texts ...string) string {
	var b bytes.Buffer
	for _, text := range texts {
		z := gzip.NewWriter(&b)
		_, _ = z.Write([]byte(text)) // bytes.Buffer does not fail
		_ = z.Close()
	}
	return b.String()
}

func archive(t *testing.T, name, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(text)), Mode: 0o600}); err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.String()
}

func TestKindOf(t *testing.T) {
	const (
		event   = `{"id":1,"name":"a","cat":"c","pid":1,"tid":1,"ts":1,"dur":1,"ph":"X","args":{"traceEvents":1}}` + "\n"
		record  = `{"type":"start","id":"1","name":"application","count":1,"pid":3}` + "\n"
		profile = `{"schemaVersion": 1, "traceEvents": [{"ph":"X"}]}`
		log     = "V0822 14:00:48.902000 1543231 torch/_dynamo/utils.py:1288] {\"str\": [\"a.py\", 0]}\n"
	)
	for _, c := range []struct {
		name, file, text string
		kind             fsread.Kind
		why              string
	}{
		{"trace", "a", "[\n" + event, fsread.Trace, ""},
		{"trace without a bracket", "a", event, fsread.Trace, ""},
		{"trace behind lines of something else", "a", strings.Repeat("# \n", 2000) + event, fsread.Trace, ""},
		{"compressed", "a", packed("[\n"+event, event), fsread.Trace, ""},
		{"compressed, the first member holds no record", "a", packed("[\n", event), fsread.Trace, ""},
		{"compressed and cut off", "a.gz", packed("[\n"+event) + packed(event)[:12], fsread.Trace, ""},
		{"JSON lines", "a.pfw", record, fsread.Records, ""},
		{"flight recorder", "a", "\x80\x02}(X\x07\x00\x00\x00versionX\x04\x00\x00\x002.10X\x09\x00\x00\x00pg_config}X\x07\x00\x00\x00entries]u.", fsread.FlightDump, ""},
		{"stacks of py-spy", "a", "Process 7: python3 a.py\nPython v3.11.2 (/usr/bin/python3)\n\nThread 7 (idle): \"MainThread\"\n    f (a.py:1)\n", fsread.Stacks, ""},
		{"stacks of faulthandler", "a", "Timeout (0:00:30)!\nThread 0x7 (most recent call first):\n  File \"a.py\", line 1 in f\n", fsread.Stacks, ""},
		{"an exception in a log", "a", "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n", fsread.Unknown, `it begins with "Traceback (most "`},
		{"OTLP spans", "a", `{"resourceSpans":[]}` + "\n", fsread.Spans, ""},
		{"profile", "a.pfw", profile, fsread.Profile, ""},
		{"profile with an event a line", "a", "{\"traceEvents\":[\n{\"ph\":\"X\"},\n{\"ph\":\"X\"}\n]}", fsread.Profile, ""},
		{"profile in other words", "a", "\xEF\xBB\xBF{\n  \"schemaVersion\" : 1,", fsread.Profile, ""},
		{"array of events", "a", `[ {"ph":"X"}, {"ph":"X"}]`, fsread.Profile, ""},
		{"log of torch.compile", "a", log, fsread.CompileLog, ""},
		{"log of another program", "a.log", "I0822 14:00:48.902000 1 main.go:1] started\n", fsread.Unknown, `it begins with "I0822 14:00:48.9"`},
		{"archive", "a", archive(t, "rank0.json", profile), fsread.Tar, ""},
		{"archive, compressed", "a", packed(archive(t, "rank0.json", profile)), fsread.Tar, ""},
		{"ring", "a", fsread.RingMagic + "\x01", fsread.Ring, ""},
		{"digest", "a", fsread.DigestMagic + "\x03", fsread.Digest, ""},
		{"table", "a", "PAR1\x15\x04", fsread.Parquet, ""},
		{"run.json", "a", "{\n  \"version\": 1,\n  \"trainspan\": \"v1\",", fsread.RunInfo, ""},
		{"empty", "a", "", fsread.Unknown, "the file is empty"},
		{"empty, compressed", "a", packed(""), fsread.Unknown, "the file is empty"},
		{"another name", "a.pfw.gz", "Dear diary", fsread.Unknown, `not gzip: it begins with "Dear diary"`},
		{"gzip that is none", "a", "\x1f\x8bno more than that", fsread.Unknown, "invalid gzip data: gzip: invalid header"},
		{"zip", "a", "PK\x03\x04", fsread.Unknown, "a zip archive"},
		{"pickle", "a", "\x80\x04\x95", fsread.Unknown, "a Python pickle (a CUDA memory snapshot)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), c.file)
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			kind, err := fsread.KindOf(path)
			why := ""
			if err != nil {
				why = err.Error()
			}
			if kind != c.kind || why != c.why || fsread.Is(path, c.kind) != (c.kind != fsread.Unknown) {
				t.Errorf("%v, %q, want %v, %q", kind, why, c.kind, c.why)
			}
			if c.kind != fsread.Unknown && kind.String() == fsread.Unknown.String() {
				t.Errorf("kind %d has no text of its own", kind)
			}
		})
	}
	if _, err := fsread.KindOf(filepath.Join(t.TempDir(), "none")); !os.IsNotExist(err) {
		t.Errorf("KindOf an absent file: %v, want that it does not exist", err)
	}
}
