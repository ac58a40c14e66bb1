package kineto_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/ingest/torch/kineto"
	"github.com/trainspan/trainspan/internal/testkit/growth"
	"github.com/trainspan/trainspan/internal/testkit/gziptest"
)

// damages are traces with n damaged parts that are expensive to search.
var damages = map[string]func(n int) string{
	"events in events": func(n int) string { return strings.Repeat(`{"ph":[`, n) },
	"and more behind": func(n int) string {
		return strings.Repeat(`{"ph":[`, n) + strings.Repeat(`{"ph":"X","name":"ok","ts":1},`, n)
	},
	"an end that is wrong": func(n int) string { return strings.Repeat(`{"ph":"X","args":[`, n) + strings.Repeat(`]`, n) + "x" },
	"quotes":               func(n int) string { return strings.Repeat(`{"ph":"X","name":"a"b","ts":1},`, n) },
	"no colon":             func(n int) string { return strings.Repeat(`{"ph" "X"},`, n) },
	"bare words":           func(n int) string { return `{"ph":` + strings.Repeat("a", 40*n) + `"` },
	"blanks":               func(n int) string { return strings.Repeat(`{`+strings.Repeat(" ", 20), n) },
	"long strings":         func(n int) string { return `{"ph":"` + strings.Repeat(`\\{"ph":`, n) },
}

// Whatever is damaged, the rest is read in bounded work, and what is skipped
// without a search is counted.
func TestDamagedWithoutEnd(t *testing.T) {
	const n = 400_000 // 2.8 MB, which once took a quarter of an hour
	text := `{"traceEvents":[{"ph":"X","name":"first","ts":1},` + damages["events in events"](n)
	got, info, err := all(t, strings.NewReader(text+strings.Repeat(" ", 5<<20)+`,{"ph":"X","name":"last","ts":1}]}`))
	if err != nil || strings.Join(got, " ") != "first last" || info.Unsearched == 0 || info.SkippedBytes < int64(len(text))-100 {
		t.Errorf("events %q, %d places, %d bytes skipped, %d unsearched, error %v; want first and last, the rest skipped in part unsearched", got, info.Skipped, info.SkippedBytes, info.Unsearched, err)
	}
	// A trace with realistic damage is searched completely.
	text = `{"traceEvents":[` + strings.Repeat(`{"ph":"X","name":"a"b","ts":1},{"ph":"X","name":"ok","ts":1},`, 10_000) + `{"ph":"M"}]}`
	if got, info, err := all(t, strings.NewReader(text)); err != nil || len(got) < 10_000 || info.Unsearched != 0 {
		t.Errorf("%d events, %d places, %d unsearched, error %v; want 10,000 or more, none unsearched", len(got), info.Skipped, info.Unsearched, err)
	}
}

func BenchmarkGrowth(b *testing.B) {
	for name, damage := range damages {
		b.Run(name, func(b *testing.B) {
			const n = 20_000
			texts := map[int]string{}
			for _, n := range []int{n, 16 * n} {
				texts[n] = `{"traceEvents":[` + damage(n)
			}
			growth.Bench(b, n, func(n int) { drain(b, strings.NewReader(texts[n])) })
		})
	}
}

func TestGrowth(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			texts := map[int]string{1000: `{"traceEvents":[` + damage(1000), 16_000: `{"traceEvents":[` + damage(16_000)}
			growth.Allocated(t, 1000, func(n int) { drain(t, strings.NewReader(texts[n])) })
		})
	}
	// Members before the events; 16 MiB of them are kept.
	var b strings.Builder
	b.WriteString("{")
	for i := range 40 {
		fmt.Fprintf(&b, `"m%d": "%s",`, i, strings.Repeat("x", 1<<20-100))
	}
	info := drain(t, strings.NewReader(b.String()+`"traceEvents":[]}`))
	kept := 0
	for _, m := range info.Top {
		kept += len(m.Raw)
	}
	if len(info.Top) != 40 || kept > 16<<20 || kept < 15<<20 {
		t.Errorf("%d members, %d bytes are kept; want 40 and 15 to 16 MiB", len(info.Top), kept)
	}
}

// Nested gzip, and a hole in a tar, are refused.
func TestInflation(t *testing.T) {
	var inner bytes.Buffer
	w, err := gzip.NewWriterLevel(&inner, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, `{"traceEvents":[`); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(w, zeros{}, 160<<20); err != nil {
		t.Fatal(err)
	}
	w.Close()
	twice := gziptest.Pack(inner.Bytes())
	for name, data := range map[string][]byte{"once": inner.Bytes(), "twice": twice, "thrice": gziptest.Pack(twice)} {
		n := int64(0)
		err := kineto.Walk(bytes.NewReader(data), name, func(m kineto.Member) error {
			var err error
			n, err = io.Copy(io.Discard, m.Body)
			return err
		})
		if refused := err != nil && strings.Contains(err.Error(), "1,100 times its size"); refused != (name != "once") || n > 1100*int64(len(data))+65<<20 {
			t.Errorf("%s: %d bytes became %d, error %v; want a refusal unless compressed once", name, len(data), n, err)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// For any file, the amount read and the memory are bounded.
func FuzzWalk(f *testing.F) {
	trace := []byte(`{"traceEvents":[{"ph":"X","name":"a","ts":5}]}`)
	packed := gziptest.Pack(trace)
	var archive bytes.Buffer
	tw := tar.NewWriter(&archive)
	_ = tw.WriteHeader(&tar.Header{Name: "a.json.gz", Size: int64(len(packed)), Mode: 0o600})
	_, _ = tw.Write(packed)
	_ = tw.Close()
	for _, data := range [][]byte{trace, packed, archive.Bytes()} {
		f.Add(data)
	}
	if data, err := os.ReadFile("../testdata/era_array.json"); err == nil {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		n := int64(0)
		growth.Work(t, len(data), 4096, func() {
			_ = kineto.Walk(bytes.NewReader(data), "x", func(m kineto.Member) error {
				got, err := io.Copy(io.Discard, m.Body)
				n += got
				return err
			})
		})
		if most := int64(len(data))*4096 + 65<<20; n > most {
			t.Errorf("%d bytes became %d, want at most %d", len(data), n, most)
		}
	})
}
