//go:build unix

package session

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/launch"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/torch"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
)

// TestLastProfile checks that an import that has begun when the command ends is
// completed.
func TestLastProfile(t *testing.T) {
	dir := t.TempDir()
	trace := filepath.Join(dir, "profiles.pfw.gz")
	path := filepath.Join(dir, "rank0.pt.trace.json")
	err := os.WriteFile(path, []byte(`{"schemaVersion":1,"traceEvents":[
{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":100,"tid":100,"ts":1778000000000000,"dur":1000,"args":{"External id":1}}
],"traceName":"x"}`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	p := newProfiles(&start{record: &record{}, set: Settings{Profile: launch.Bytes(dir)}})
	begun := make(chan struct{})
	imported := make(chan error, 1)
	p.watch, err = torch.NewWatcher(dir, nil, &torch.WatchOptions{
		StateFile: filepath.Join(t.TempDir(), "state.json"),
		Written:   p.written,
		OnFile:    func(_ string, _ *torch.Report, err error) { imported <- err },
		Import: &torch.Options{Begin: func(first time.Time) (_ torch.Sink, err error) {
			close(begun)
			<-p.end // close has been called
			p.trace, err = dftracer.Create(trace, &dftracer.Options{Start: first, Heartbeat: -1})
			return p.trace, err
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.watch.Scan(t.Context()); err != nil { // the file is seen for the first time
		t.Fatal(err)
	}
	p.start()
	<-begun
	if err := p.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-imported; err != nil {
		t.Errorf("the last profile was not imported: %v", err)
	}
	if counts := dftest.Check(t, trace).Counts; counts["pipeline/train.iteration/X"] != 1 {
		t.Errorf("counts %v, want one train.iteration", counts)
	}
}
