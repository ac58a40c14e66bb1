package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
)

// The page of a viewer gets the trace, once, and nobody else does.
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
		t.Fatalf("link %q", link)
	}
	at, err := url.Parse(trace)
	if err != nil || at.Hostname() != "127.0.0.1" {
		t.Fatalf("%v, %v", at, err)
	}
	get := func(method, path, host string) (*http.Response, []byte) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+at.Host+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
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
		method, path, host string
		status             int
	}{{"GET", "/other", "", 404}, {"POST", "/trace.json", "", 405}, {"GET", "/trace.json", "evil.example", 403}, {"OPTIONS", "/trace.json", "", 204}} {
		if resp, _ := get(wrong.method, wrong.path, wrong.host); resp.StatusCode != wrong.status {
			t.Errorf("%s %s: %s", wrong.method, wrong.path, resp.Status)
		}
	}
	resp, body := get("GET", at.Path, "")
	if o := resp.Header.Get("Access-Control-Allow-Origin"); o != "https://ui.perfetto.dev" {
		t.Errorf("origin %q", o)
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
			t.Errorf("%s is there", ev.Name)
		}
	}
	if s := <-status; s != ui.StatusOK || n != 4 {
		t.Errorf("status %d, %d spans: %s", s, n, stderr.String())
	}
}
