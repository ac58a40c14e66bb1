package job_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/testkit/growth"
)

// FuzzLines reads arbitrary data as JSON lines, or a trace, of a job.
func FuzzLines(f *testing.F) {
	f.Add([]byte(`{"type":"start","count":1,"id":"a","name":"training_loop","pid":3,"start_event":{"attributes":{"timestamp_msec":1704067200000}}}
{"type":"stop","count":2,"id":"a","name":"training_loop","pid":3,"rank":1,"attempt":2,"stop_event":{"attributes":{"timestamp_msec":1704067200100}}}
{"type":"event","count":3,"event":{"name":"x","attributes":{"timestamp_msec":NaN,"rank":99999999999}}}`))
	f.Add([]byte(strings.Repeat(`{"type":"heartbeat","count":1,"pid":7}`+"\n", 20)))
	f.Add([]byte(process(7, 0, 100, `,"rank":3`, app, fetch, beat)))
	path := filepath.Join(f.TempDir(), "a.jsonl")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		growth.Work(t, len(data)+8<<10, 512, func() {
			set, err := job.Open(path)
			if err != nil {
				return
			}
			set.Workers = 1
			if _, err := set.Read(func(*job.Process) job.Sink { return nothing{} }); err != nil {
				t.Fatal(err)
			}
		})
	})
}
