package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
)

// TestOpenServesAllRanks checks that several traces, such as those of a run's
// ranks, are served as one.
func TestOpenServesAllRanks(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	t.Chdir(t.TempDir())
	makeRuns(t)
	out, in := io.Pipe()
	status := make(chan int, 1)
	go func() {
		status <- run(context.Background(), []string{"open", "train.2", "--no-browser", "--once", "--port", "0"}, ui.Streams{Out: in, Err: io.Discard})
	}()
	link, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, trace, _ := strings.Cut(strings.TrimSpace(link), "/#!/?url=")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, trace, nil)
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
	for _, pid := range []string{`"pid":101`, `"pid":102`} { // both attempts of train.2
		if got := strings.Count(string(body), pid); got < 10 {
			t.Errorf("%d events with %s are served, want 10 steps at least", got, pid)
		}
	}
	if got := <-status; got != ui.StatusOK {
		t.Errorf("status %d, want %d", got, ui.StatusOK)
	}
}
