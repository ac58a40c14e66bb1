package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"go.uber.org/goleak"
)

// TestOpenServesTheTrace checks that a viewer's page gets the trace once, and
// that other requests are refused.
func TestOpenServesTheTrace(t *testing.T) {
	defer goleak.VerifyNone(t)
	defer http.DefaultClient.CloseIdleConnections()
	out, in := io.Pipe()
	status := make(chan int, 1)
	var stderr bytes.Buffer
	go func() {
		args := []string{"open", smallTrace(t), "--no-browser", "--once", "--port", "0", "--name", "forward"}
		status <- run(context.Background(), args, ui.Streams{Out: in, Err: &stderr})
	}()
	link, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	page, trace, ok := strings.Cut(strings.TrimSpace(link), "/#!/?url=")
	if !ok || page != "https://ui.perfetto.dev" {
		t.Fatalf("link opens %q, want https://ui.perfetto.dev", link)
	}
	at, err := url.Parse(trace)
	if err != nil || at.Hostname() != "127.0.0.1" {
		t.Fatalf("address to open is %v, %v; want host 127.0.0.1", at, err)
	}
	word := strings.TrimSuffix(strings.TrimPrefix(at.Path, "/"), "/trace.json")
	if len(word) != 43 {
		t.Errorf("the word in %s has %d characters, want the 43 of 256 bits", at.Path, len(word))
	}
	get := func(method, path, host, origin string) (*http.Response, []byte) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+at.Host+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		if origin != "" {
			req.Header.Set("Origin", origin)
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
		return resp, body
	}
	for _, wrong := range []struct {
		method, path, host, origin string
		status                     int
	}{
		{"GET", "/other", "", "", 404}, {"GET", "/", "", "", 404},
		{"GET", "/trace.json", "", "", 404}, // without the secret word
		{"GET", "/" + word[:42] + "/trace.json", "", "", 404},
		{"GET", at.Path + "/", "", "", 404},
		{"POST", at.Path, "", "", 405},
		{"GET", at.Path, "evil.example", "", 403},
		{"GET", at.Path, "localhost", "", 403},
		{"GET", at.Path, "", "https://evil.example", 403},
		{"GET", at.Path, "", "null", 403},
		{"OPTIONS", at.Path, "", "https://evil.example", 403},
		{"OPTIONS", at.Path, "", page, 204},
	} {
		resp, _ := get(wrong.method, wrong.path, wrong.host, wrong.origin)
		if resp.StatusCode != wrong.status {
			t.Errorf("%s %s for host %q and origin %q: %s, want %d", wrong.method, wrong.path, wrong.host, wrong.origin, resp.Status, wrong.status)
		}
		if o := resp.Header.Get("Access-Control-Allow-Origin"); wrong.status == 403 && o != "" {
			t.Errorf("%s %s is allowed to origin %q, want no origin", wrong.method, wrong.path, o)
		}
	}
	resp, body := get("GET", at.Path, "", page)
	if o := resp.Header.Get("Access-Control-Allow-Origin"); o != "https://ui.perfetto.dev" {
		t.Errorf("origin %q, want \"https://ui.perfetto.dev\"", o)
	}
	var events []struct{ Name, Ph string }
	if err := json.Unmarshal(body, &events); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, ev := range events {
		if ev.Name == "forward" {
			n++
		} else if ev.Ph == "X" && ev.Name != "start" && ev.Name != "end" {
			t.Errorf("event %s is there, want only start and end", ev.Name)
		}
	}
	if s := <-status; s != ui.StatusOK || n != 4 {
		t.Errorf("status %d and %d spans, want 0 and 4: %s", s, n, stderr.String())
	}
}

// TestOpenStartsOnce checks that the address with which the browser is started
// leads to the link only once, because it is visible in the list of processes.
func TestOpenStartsOnce(t *testing.T) {
	h := &traceServer{host: "127.0.0.1:9001", start: "/start", path: "/word/trace.json", link: "https://ui.perfetto.dev/#!/?url=http://127.0.0.1:9001/word/trace.json"}
	for i, want := range []int{http.StatusSeeOther, http.StatusGone, http.StatusGone} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1:9001/start", nil))
		if w.Code != want || (w.Header().Get("Location") == h.link) != (i == 0) || i > 0 && strings.Contains(w.Body.String(), "word") {
			t.Errorf("request %d: %d to %q: %s; want %d", i, w.Code, w.Header().Get("Location"), w.Body, want)
		}
	}
}

// TestOpenOfAPortInUse checks that a port in use is reported before the traces
// are read, and that an interrupt is reported as one.
func TestOpenOfAPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := t.TempDir()
	var traces []string
	for _, name := range []string{"a.pfw.gz", "b.pfw.gz"} { // merging them would fail
		traces = append(traces, filepath.Join(dir, name))
		if err := os.WriteFile(traces[len(traces)-1], []byte("no trace"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	status, _, said := call(append([]string{"open", "--no-browser", "--port", port}, traces...)...)
	if status != 2 || !strings.Contains(said, "cannot listen on 127.0.0.1:"+port) || !strings.Contains(said, "--viewer") {
		t.Errorf("status %d, %q; want 2, that the port is in use, and a remedy", status, said)
	}
}
