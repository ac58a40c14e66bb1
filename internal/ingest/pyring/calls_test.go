package pyring_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/ingest/pyring"
	"github.com/trainspan/trainspan/internal/testkit/ringtest"
)

const kindCall = 7 << 32

// called returns a ring buffer with calls of one-logger's API: "name arguments".
func called(t *testing.T, calls ...string) *ringtest.Image {
	m := ringtest.New(t, 1)
	slot := 0
	for i, call := range calls {
		name, args, _ := strings.Cut(call, " ")
		m.Side += fmt.Sprintf(`{"n":%d,"name":%q,"cat":"onelogger"}`+"\n", i+2, name)
		slot = m.Text(slot, uint64(i+1), args)
		m.Put(slot, ringtest.Slot{Start: ringtest.At(i), Depth: 1, Args: uint64(i + 1), Word: kindCall | uint64(i+2)})
		slot++
	}
	return m
}

// records returns the JSON lines of the process of a ring buffer.
func records(t *testing.T, m *ringtest.Image) string {
	t.Helper()
	out := t.TempDir()
	if _, err := pyring.Import(t.Context(), []string{m.Write()}, pyring.Options{Out: out, Attempt: -1, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(out, fmt.Sprintf("telemetry-%d.jsonl", os.Getpid())))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// configured is the start of a program with one-logger's API.
const configured = `configure_provider {"base_config":{"application_name":"app","session_tag_or_fn":"s","world_size_or_fn":1}}`

// TestOldTimesOfCallbacks replays calls with times long before them, which the client has
// accepted: imports may take longer than the window of explicit times.
func TestOldTimesOfCallbacks(t *testing.T) {
	const old = 1_000_001_000_000 - 15*60_000 // milliseconds, 15 minutes before the calls
	got := records(t, called(t, configured,
		fmt.Sprintf(`on_app_start {"start_time_msec":%d}`, old),
		fmt.Sprintf(`start {"span":1,"name":"prepare","start_time_msec":%d}`, old+1000),
		fmt.Sprintf(`event {"span":1,"name":"tokenized","time_msec":%d}`, old+2000),
		fmt.Sprintf(`stop {"span":1,"finish_time_msec":%d}`, old+3000),
		`on_app_end {}`))
	for _, want := range []string{`"application"`, `"prepare"`, `"tokenized"`, fmt.Sprint(old), fmt.Sprint(old + 3000)} {
		if !strings.Contains(got, want) {
			t.Errorf("want %s in the records:\n%s", want, got)
		}
	}
}
