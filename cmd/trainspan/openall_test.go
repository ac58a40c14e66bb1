package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
)

// TestOpenServesAllRanks checks that several traces, such as those of a run's
// ranks, are served as one.
func TestOpenServesAllRanks(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	t.Chdir(t.TempDir())
	makeRuns(t)
	_, body, status := serve(t, "train.2")
	for _, pid := range []string{`"pid":101`, `"pid":102`} { // both attempts of train.2
		if got := strings.Count(body, pid); got < 10 {
			t.Errorf("%d events with %s are served, want 10 steps at least", got, pid)
		}
	}
	if status != ui.StatusOK {
		t.Errorf("status %d, want %d", status, ui.StatusOK)
	}
}

// TestOpenNamesTheRun checks that the message names the run of several traces, not the temporary file that
// is served.
func TestOpenNamesTheRun(t *testing.T) {
	t.Chdir(t.TempDir())
	makeRuns(t)
	for ref, want := range map[string]string{
		"":        "trainspan: serving eval.1 (1 trace); press Ctrl-C to stop\n",
		"train":   "trainspan: serving train.2 (2 traces); press Ctrl-C to stop\n",
		"train.1": "trainspan: serving train.1 (1 trace); press Ctrl-C to stop\n",
	} {
		ctx, cancel := context.WithCancel(t.Context())
		said, in := io.Pipe()
		ended := make(chan int, 1)
		go func() {
			ended <- run(ctx, append([]string{"open", "--no-browser", "--port", "0"}, strings.Fields(ref)...), ui.Streams{Out: io.Discard, Err: in})
			_ = in.Close()
		}()
		got, _ := bufio.NewReader(said).ReadString('\n')
		cancel()
		if status := <-ended; got != want || status != ui.StatusOK {
			t.Errorf("open %s: status %d, %q, want %q", ref, status, got, want)
		}
	}
}

// serve runs trainspan open until the trace was fetched once. It returns the
// parameters of the link after the address of the trace, and the trace.
func serve(t *testing.T, args ...string) (more, trace string, status int) {
	t.Helper()
	out, in := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(context.Background(), append([]string{"open", "--no-browser", "--once", "--port", "0"}, args...), ui.Streams{Out: in, Err: io.Discard})
	}()
	link, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, at, _ := strings.Cut(strings.TrimSpace(link), "/#!/?url=")
	at, more, _ = strings.Cut(at, "&")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return more, string(body), <-ended
}

// TestOpenShowsATime checks that the link has the time of --from and --to, as far
// as it is within the trace, and that some of the trace around it is served. The
// parameters are those of Perfetto's page:
// https://perfetto.dev/docs/visualization/deep-linking-to-perfetto-ui
func TestOpenShowsATime(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	dir := t.TempDir()
	path := filepath.Join(dir, "trace.pfw.gz")
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	w, err := dftracer.Create(path, &dftracer.Options{Start: at})
	if err != nil {
		t.Fatal(err)
	}
	key := dftracer.NewKey("pipeline", "train.iteration")
	for n := range 60 {
		w.WriteComplete(&key, dftracer.Span{TS: at.Add(time.Duration(n) * time.Second).UnixMicro(), Dur: 900_000}, dftracer.Int("step", int64(n)))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flags          string
		from, to       time.Duration // the time that is shown, after the start
		least, largest int           // steps that are served
		all            bool          // no time is shown
	}{
		{"--from +30s --to +32s", 30 * time.Second, 32 * time.Second, 10, 51, false},
		{"--from 2026-03-01T10:00:30Z --to 2026-03-01T10:00:30.5Z", 30 * time.Second, 30500 * time.Millisecond, 25, 35, false},
		{"--from +0s --to +1s", 0, time.Second, 0, 10, false},
		{"--from +59s --to +2h", 59 * time.Second, 59900 * time.Millisecond, 0, 59, false},
		{"--from +58s", 0, 0, 58, 59, true},
		{"", 0, 0, 0, 59, true},
	} {
		more, trace, status := serve(t, append(strings.Fields(c.flags), path)...)
		want := fmt.Sprintf("visStart=%d&visEnd=%d", at.Add(c.from).UnixNano(), at.Add(c.to).UnixNano())
		if c.all {
			want = ""
		}
		if more != want || status != ui.StatusOK {
			t.Errorf("open %s: status %d, %q, want %q", c.flags, status, more, want)
		}
		for n := range 60 {
			if has := strings.Contains(trace, fmt.Sprintf(`"step":%d}`, n)); has != (n >= c.least && n <= c.largest) {
				t.Errorf("open %s: step %d is served, %v; want those from %d to %d", c.flags, n, has, c.least, c.largest)
			}
		}
	}
}
