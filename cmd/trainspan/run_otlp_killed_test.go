//go:build linux

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/proc"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/testkit/until"
)

// TestOTLPReceiverIsKilled checks that a receiver that is killed at a random
// time, alone or with its trainspan run, loses no acknowledged span, and an
// import writes none twice.
func TestOTLPReceiverIsKilled(t *testing.T) {
	rounds := 20
	if testing.Short() {
		rounds = 2
	}
	for round := range rounds {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			t.Parallel()
			both, batches := round%2 == 1, 1+rand.IntN(900)
			if round == 0 {
				batches = 900 // enough that the files contain the first spans when the receiver is killed
			}
			killReceiver(t, both, batches)
		})
	}
}

func killReceiver(t *testing.T, both bool, batches int) {
	dir := t.TempDir()
	acks := filepath.Join(dir, "acks")
	s := prepare(t, dir, "--otlp", "--quiet", "--no-resources", "--", "runjob", "ack", acks)
	s.begin()
	s.expect("ready")
	helper := helperOf(t, s.Process.Pid)
	taken := func() []string {
		text, _ := os.ReadFile(acks)
		return strings.Fields(string(text))
	}
	until.True(t, "acknowledged batches", func() bool { return len(taken()) >= batches })
	_, at := theRun(t, dir)
	if both {
		if err := s.Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Kill(helper, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if both {
		_, _ = s.Process.Wait() // the job holds the streams
		until.True(t, "the end of telemetry and of the job", func() bool {
			list, _ := filepath.Glob("/proc/[0-9]*/cwd")
			for _, path := range list {
				if to, err := os.Readlink(path); err == nil && to == dir {
					return false
				}
			}
			return !proc.Alive(helper, 0)
		})
	} else if _, status := s.rest(); status != 0 || !strings.Contains(s.err.String(), "received OTLP spans") || !strings.Contains(s.err.String(), "trainspan trace import "+dir) {
		t.Errorf("status %d, want 0 and advice to import the received OTLP spans: %s", status, s.err.String())
	}
	run := func(args ...string) string {
		cmd := exec.Command(s.Path, args...)
		cmd.Dir, cmd.Env = dir, s.Env
		out, err := cmd.CombinedOutput()
		if err != nil && args[0] == "trace" {
			t.Errorf("%v: %v, want no error: %s", args, err, out)
		}
		return string(out)
	}
	before := spansByName(t, at)
	if out := run("report", at); !strings.Contains(out, "are still in a journal") || !strings.Contains(out, "trainspan trace import "+at) {
		t.Errorf("report before the import: want advice to import the journal, got %s", out)
	}
	out := run("trace", "import", at)
	if !strings.Contains(out, "received by OTLP added") {
		t.Errorf("import: %s, want \"received by OTLP added\" in it", out)
	}
	if out := run("trace", "import", at); !strings.Contains(out, "nothing is left to import") {
		t.Errorf("a second import: %s, want \"nothing is left to import\" in it", out)
	}
	if out := run("report", at); strings.Contains(out, "are still in a journal") {
		t.Errorf("report after the import: want no journal, got %s", out)
	}
	list := taken()
	acked, _ := strconv.Atoi(list[len(list)-1])
	found, lost, old, doubled := spansByName(t, at), 0, 0, 0
	for n := 1; n <= acked; n++ {
		name := fmt.Sprintf("n%d", n)
		if found[name] == 0 {
			lost++
		}
		if before[name] == 0 {
			old++
		}
	}
	for _, n := range found {
		if n > 1 {
			doubled++
		}
	}
	t.Logf("of %d acknowledged spans %d were not in the traces before the import, %d after it; %d are there twice", acked, old, lost, doubled)
	if lost > 0 || doubled > 0 {
		t.Errorf("of %d acknowledged spans %d are lost and %d are duplicated, want none", acked, lost, doubled)
	}
	parts, _ := filepath.Glob(filepath.Join(at, "otlp-*.1.pfw.gz"))
	for _, path := range parts {
		dftest.Check(t, path)
	}
	if left, _ := filepath.Glob(filepath.Join(at, "*.journal")); len(left) > 0 {
		t.Errorf("%v are left, want none", left)
	}
}

// spansByName counts the spans of ackForTest in the traces of a directory.
func spansByName(t *testing.T, dir string) map[string]int {
	t.Helper()
	found := make(map[string]int)
	paths, _ := filepath.Glob(filepath.Join(dir, "otlp-*.pfw.gz"))
	for _, path := range paths {
		_, err := dftracer.Scan(path, nil, func(ev *dftracer.Event) error {
			if ev.Phase == dftracer.PhaseComplete && len(ev.Name) > 1 && ev.Name[0] == 'n' && ev.Name[1] >= '0' && ev.Name[1] <= '9' {
				found[ev.Name]++
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	return found
}

// TestTokenIsNowhere checks that the receiver's token is only in the
// environment of the command.
func TestTokenIsNowhere(t *testing.T) {
	for name, c := range map[string]struct {
		flags []string
		want  string
	}{
		"random": {[]string{"--otlp"}, ""},
		"given":  {[]string{"--otlp-token-file", "token"}, "given-token-of-the-user,="},
		"none":   {[]string{"--otlp-no-token"}, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "token"), []byte(c.want+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			s := prepare(t, dir, append(c.flags, "--", "sh", "-c", `echo "$OTEL_EXPORTER_OTLP_TRACES_HEADERS"; runjob send grpc 2 && runjob send http/protobuf 2 && echo sent`)...)
			s.Env = append(s.Env, "OTEL_EXPORTER_OTLP_HEADERS=x-key=a%20b")
			s.begin()
			lines, status := s.rest()
			out := strings.Join(lines, "\n") + "\n"
			if status != 0 || !strings.Contains(out, "sent") {
				t.Fatalf(`status %d, want 0 and "sent": %s%s`, status, out, s.err.String())
			}
			headers, _, _ := strings.Cut(out, "\n")
			_, token, ok := strings.Cut(headers, "x-key=a%20b,x-trainspan-token=")
			switch name {
			case "none":
				if headers != "" {
					t.Errorf("the headers are %q, want \"\"", headers)
				}
				return
			case "given":
				if token != "given-token-of-the-user%2C%3D" {
					t.Errorf("the headers of the command are %q, want the token of the user", headers)
				}
				token = c.want
			default:
				if !ok || len(token) != 64 {
					t.Errorf("the headers of the command are %q, want a token of 64 letters", headers)
				}
			}
			_, at := theRun(t, dir)
			err := filepath.WalkDir(at, func(path string, d os.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				text, err := os.ReadFile(path)
				if strings.HasSuffix(path, ".gz") {
					text = nil
					for _, ev := range dftest.Events(t, path) {
						text = fmt.Appendf(text, "%+v", ev)
					}
				}
				if bytes.Contains(text, []byte(token)) {
					t.Errorf("%s contains the token", path)
				}
				return err
			})
			if err != nil || strings.Contains(s.err.String(), token) {
				t.Errorf("%v, or the token is in stderr: %s", err, s.err.String())
			}
		})
	}
}
