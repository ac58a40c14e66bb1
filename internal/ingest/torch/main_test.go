package torch_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/torch"
	"github.com/trainspan/trainspan/internal/tracefile"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// capture keeps copies of all events.
type capture struct{ events []dftracer.Event }

func (c *capture) Write(e *dftracer.Event) {
	c.events = append(c.events, tracefile.Decoded(e))
}

// pick returns the events of a category, and with a name unless it is empty, in
// order of time.
func (c *capture) pick(cat, name string) []dftracer.Event {
	var out []dftracer.Event
	for _, e := range c.events {
		if e.Cat == cat && (name == "" || e.Name == name) {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b dftracer.Event) int { return int(a.TS - b.TS) })
	return out
}

func (c *capture) one(t *testing.T, cat, name string) dftracer.Event {
	t.Helper()
	list := c.pick(cat, name)
	if len(list) != 1 {
		t.Fatalf("%d events %s/%s, want one", len(list), cat, name)
	}
	return list[0]
}

func names(events []dftracer.Event) []string {
	var out []string
	for _, e := range events {
		out = append(out, e.Name)
	}
	return out
}

func arg(e dftracer.Event, key string) string {
	a, ok := e.Arg(key)
	if !ok {
		return ""
	}
	return a.Text()
}

func num(t *testing.T, e dftracer.Event, key string) int64 {
	t.Helper()
	a, ok := e.Arg(key)
	if !ok {
		t.Fatalf("%s/%s has no argument %s: %v", e.Cat, e.Name, key, e.Args)
	}
	return a.Int64()
}

func load(t *testing.T, opts *torch.Options, files ...string) (*capture, *torch.Report) {
	t.Helper()
	var paths []string
	for _, f := range files {
		paths = append(paths, filepath.Join("testdata", f))
	}
	return loadPaths(t, opts, paths...)
}

func loadPaths(t *testing.T, opts *torch.Options, paths ...string) (*capture, *torch.Report) {
	t.Helper()
	srcs, err := torch.Files(paths...)
	if err != nil {
		t.Fatal(err)
	}
	c := &capture{}
	rep, err := torch.Import(t.Context(), c, srcs, opts)
	if err != nil {
		t.Fatal(err)
	}
	return c, rep
}

func fromBytes(name string, data []byte) torch.Source {
	return torch.Source{Name: name, Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
}

// shared skips the test if the real traces are absent.
func shared(t testing.TB, name string) string {
	t.Helper()
	path := sharedTraces + name
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no real traces here: %v", err)
	}
	return path
}

func importBytes(ctx context.Context, sink torch.Sink, opts *torch.Options, name string, data []byte) (*torch.Report, error) {
	return torch.Import(ctx, sink, []torch.Source{fromBytes(name, data)}, opts)
}

func fileOpener(path string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return os.Open(path) }
}
