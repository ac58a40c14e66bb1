package report_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/growth"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// FuzzStart parses arbitrary data as a run.json.
func FuzzStart(f *testing.F) {
	f.Add([]byte(`{"version":1,"job":"j","session":"s","started":"2026-11-20T08:00:00Z","evidence":["a","b"],"exit_status":1}`))
	f.Add([]byte(`{"evidence":[[[[[["`))
	f.Fuzz(func(t *testing.T, data []byte) {
		growth.Work(t, len(data), 256, func() { report.ParseStart(data) })
	})
}

// FuzzDigest reads arbitrary data as a digest, and builds the reports of its jobs.
// It also reads parts unpacked, because checksums would find most damage.
func FuzzDigest(f *testing.F) {
	dir := f.TempDir()
	write(f, dir, simjob.Attempt{Ranks: 2, Steps: 24, Save: 10})
	s := collect(f, dir)
	var file bytes.Buffer
	if err := s.WriteDigest(&file); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes(), false)
	part, err := report.FirstPart(s)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(part, true)
	f.Fuzz(func(t *testing.T, data []byte, isPart bool) {
		var s *report.State
		var err error
		growth.Work(t, len(data)+16<<10, 2048, func() { // buffers, and columns of a bit for each number
			if isPart {
				s, err = report.StateOfPart(data)
			} else {
				s, err = report.ReadDigest(bytes.NewReader(data))
			}
		})
		if err != nil {
			return
		}
		for _, j := range s.Jobs() {
			r := report.Build(j)
			if err := report.JSON(io.Discard, r); err != nil {
				t.Fatal(err)
			}
			if err := report.Text(io.Discard, r); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.WriteDigest(io.Discard); err != nil {
			t.Fatal(err)
		}
	})
}
