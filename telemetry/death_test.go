package telemetry_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/file"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/testkit/until"
	"github.com/trainspan/trainspan/internal/tracefile/recovery"
	"github.com/trainspan/trainspan/telemetry"
)

// deathVariable makes the test program a job that dies: its value is how.
const deathVariable = "TRAINSPAN_TELEMETRY_TEST_DEATH"

// dyingJob trains until it is killed or told to end itself, and prints a number
// per line for each record older than the line.
func dyingJob(how, dir string) {
	cfg := base()
	cfg.WorldSize = config.Value(1)
	ctx := context.Background()
	tel, err := telemetry.NewTrainingTelemetryBuilder().WithBaseConfig(cfg).WithLogger(quietLog()).
		WithExporter(pfw.New(filepath.Join(dir, "trace.pfw.gz"), nil)).
		WithExporter(file.New(filepath.Join(dir, "records.jsonl"), nil)).ConfigureProvider(ctx)
	if err != nil {
		fmt.Println(err)
		os.Exit(3)
	}
	cb := callbacks.New(tel)
	_, _ = cb.OnAppStart(ctx)
	_, _ = cb.OnTrainStart(ctx, callbacks.TrainStart{})
	in := bufio.NewReader(os.Stdin)
	end := make(chan struct{})
	go func() {
		_, _ = in.ReadString('\n')
		close(end)
	}()
	for n := 0; ; n++ {
		_, _ = cb.OnTrainingSingleIterationStart(ctx)
		_, s := tel.StartSpan(ctx, fmt.Sprintf("step.%d.", n))
		time.Sleep(2 * time.Millisecond) // simulated work
		s.End()
		_ = cb.OnTrainingSingleIterationEnd(ctx)
		fmt.Println(n, time.Now().UnixNano())
		select {
		case <-end:
			if how == "exit" {
				os.Exit(2)
			}
			panic("the job fails")
		default:
		}
	}
}

// What a process has recorded gets into the trace and the JSON lines by itself;
// if the process is then killed, exits or panics without a Shutdown, it is in
// the files, and the trace can be recovered.
func TestDeath(t *testing.T) {
	for _, how := range []string{"kill", "exit", "panic"} {
		t.Run(how, func(t *testing.T) {
			const old = 100 // the step
			dir := t.TempDir()
			trace, records := filepath.Join(dir, "trace.pfw.gz"), filepath.Join(dir, "records.jsonl")
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), deathVariable+"="+how, deathVariable+"_DIR="+dir)
			in, err := cmd.StdinPipe()
			check(t, err)
			out, err := cmd.StdoutPipe()
			check(t, err)
			check(t, cmd.Start())
			lines := bufio.NewScanner(out)
			for lines.Scan() {
				if n, _ := recorded(t, lines.Text()); n != old+1 {
					continue
				}
				until.True(t, "a step in both files, which nobody flushes", func() bool {
					want := fmt.Sprintf("step.%d.", old+1)
					return strings.Contains(namesIn(trace), want) && strings.Contains(textOf(records), want)
				})
				if how == "kill" {
					check(t, cmd.Process.Kill())
				} else {
					_, err := in.Write([]byte("\n"))
					check(t, err)
				}
			}
			if err := cmd.Wait(); err == nil {
				t.Error("the job exited with status 0, want a failure")
			}
			_, err = recovery.File(trace, nil)
			check(t, err)
			dftest.Check(t, trace)
			complete(t, "trace", namesIn(trace), old, 1)
			complete(t, "JSON lines", textOf(records), old, 2)
		})
	}
}

// namesIn returns the names of the events in a trace so far.
func namesIn(path string) string {
	r, err := dftracer.OpenReader(path, nil)
	if err != nil {
		return ""
	}
	defer r.Close() //nolint:errcheck // only read
	var text strings.Builder
	for e, err := range r.All() {
		if err == nil {
			fmt.Fprintln(&text, e.Name)
		}
	}
	return text.String()
}

func textOf(path string) string {
	data, _ := os.ReadFile(path)
	return string(data)
}

// recorded parses a line of the job: the number of a step, and when it was
// recorded.
func recorded(t testing.TB, line string) (n int, at time.Time) {
	t.Helper()
	var ns int64
	if _, err := fmt.Sscan(line, &n, &ns); err != nil {
		t.Fatalf("the job says %q", line)
	}
	return n, time.Unix(0, ns)
}

var stepName = regexp.MustCompile(`step\.(\d+)\.`)

// complete checks that a text has every step up to the last, the given number
// of times.
func complete(t *testing.T, what, text string, last, times int) {
	t.Helper()
	seen := map[string]int{}
	for _, m := range stepName.FindAllStringSubmatch(text, -1) {
		seen[m[1]]++
	}
	for n := range last + 1 {
		if seen[strconv.Itoa(n)] < times {
			t.Errorf("%s: step %d of %d is there %d times, want %d", what, n, last, seen[strconv.Itoa(n)], times)
			return
		}
	}
}
