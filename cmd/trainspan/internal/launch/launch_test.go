//go:build unix

package launch_test

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/launch"
)

const texts = 500

// TestMain defines the commands that the scripts in testdata/script run as
// separate processes.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "helper" {
		line := launch.NewLine(os.NewFile(4, "the launcher"))
		_ = line.Send(&launch.Message{Ready: &launch.Ready{}})
		_ = line.Send(&launch.Message{Say: launch.Bytes(strconv.Itoa(os.Getpid()))})
		for range texts {
			_ = line.Send(&launch.Message{Say: launch.Bytes("a line of the report\n")})
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// slowTerminal accepts no text until the telemetry process has ended. The first
// text is the id of that process.
type slowTerminal struct {
	pid  int
	text strings.Builder
}

func (s *slowTerminal) Write(p []byte) (int, error) {
	if s.pid == 0 {
		s.pid, _ = strconv.Atoi(string(p))
		for syscall.Kill(s.pid, 0) == nil {
			time.Sleep(time.Millisecond) // until the launcher has reaped it, which nothing else shows
		}
		return len(p), nil
	}
	runtime.Gosched()
	return s.text.Write(p)
}

// TestAllOutputReachesTheTerminal checks that all output that the telemetry process sent before
// it ended reaches the terminal, however late the launcher reads it.
func TestAllOutputReachesTheTerminal(t *testing.T) {
	var out slowTerminal
	code := launch.Run(launch.Options{
		Path: "/bin/true", Args: []string{"true"}, Env: os.Environ(), Helper: []string{"trainspan", "helper"}, Out: &out,
		Note: func(format string, args ...any) { t.Logf(format, args...) },
	})
	if got := strings.Count(out.text.String(), "\n"); code != 0 || got != texts {
		t.Errorf("status %d and %d lines, want 0 and %d", code, got, texts)
	}
}
