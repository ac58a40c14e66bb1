package dftracer_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/growth"
	"github.com/trainspan/trainspan/internal/testkit/gziptest"
	"github.com/trainspan/trainspan/internal/tracefile/recovery"
)

// FuzzRecover repairs arbitrary data. A repaired file must be a trace that
// needs no further repair; otherwise the file must be unchanged.
func FuzzRecover(f *testing.F) {
	const begun = `{"name":"CM","ph":"M","pid":1,"tid":1,"cat":"dftracer","id":9,"args":{"hhash":"h","name":"span.begin","value":"forward","begin_id":4,"begin_ts":1700000000000000,"begin_cat":"compute"}}`
	const span = `{"id":5,"name":"forward","cat":"compute","pid":1,"tid":1,"ts":1700000000000000,"dur":5,"ph":"X","args":{"hhash":"h","level":2,"p_idx":4}}`
	zip := func(text, more string) []byte { return gziptest.Pack([]byte(text), []byte(more)) }
	for _, text := range []string{"", "[\n", "[\n" + span + "\n]", "[\n" + begun + "\n" + span + "\n", "[\n" + span + "\n" + span[:40], span + "\n", "no trace", "]\n]\n["} {
		f.Add([]byte(text))
		zipped := zip(text, "["+text)
		f.Add(zipped)
		f.Add(zipped[:len(zipped)*3/4])
	}
	path := filepath.Join(f.TempDir(), "a.pfw")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		text := int64(len(data))
		if z, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
			n, _ := io.Copy(io.Discard, z) // as much as can be decompressed
			text += n
		}
		var first recovery.Report
		var failed error
		growth.Work(t, int(text)+16<<10, 512, func() { first, failed = recovery.File(path, nil) })
		now, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if failed != nil || first.Clean {
			if !bytes.Equal(now, data) {
				t.Fatalf("recovery failed with %v and changed the file: %+v", failed, first)
			}
			return
		}
		second, err := recovery.File(path, nil)
		if err != nil || !second.Clean {
			t.Fatalf("second recovery: %+v, %v; want the file clean; the first was %+v\n%q\n%q", second, err, first, data, now)
		}
		var wrong *dftracer.LineError
		if _, err := dftracer.ValidateFile(path, nil); err != nil && !errors.As(err, &wrong) {
			t.Fatalf("ValidateFile of the recovered trace: %v, want a trace that can be read", err)
		}
	})
}
