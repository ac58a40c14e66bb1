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
	"github.com/trainspan/trainspan/dftracer/dftest"
	"github.com/trainspan/trainspan/exporters/file"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/telemetry"
)

// deathVariable makes the test program a job that dies: its value is how.
const deathVariable = "TRAINSPAN_TELEMETRY_TEST_DEATH"

// dyingJob trains until it is killed or told to end itself, and says what it
// has recorded: a number in a line, when the record is older than the line.
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
		time.Sleep(2 * time.Millisecond)
		s.End()
		_ = cb.OnTrainingSingleIterationEnd(ctx)
		fmt.Println(n)
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

// Of a process that is killed, exits or panics without a Shutdown, the trace and
// the JSON lines have all that is older than a second, and the trace can be
// recovered.
func TestDeath(t *testing.T) {
	for _, how := range []string{"kill", "exit", "panic"} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), deathVariable+"="+how, deathVariable+"_DIR="+dir)
			in, err := cmd.StdinPipe()
			check(t, err)
			out, err := cmd.StdoutPipe()
			check(t, err)
			check(t, cmd.Start())
			type report struct {
				n   int
				ran time.Duration // until then
			}
			var reports []report
			lines := bufio.NewScanner(out)
			// Only the time counts in which the job ran: one that the machine stops
			// writes nothing meanwhile. It says something every few milliseconds.
			const stopped = 50 * time.Millisecond
			var ran, asked time.Duration
			last := time.Now()
			for lines.Scan() {
				n, err := strconv.Atoi(lines.Text())
				if err != nil {
					t.Fatalf("the job says %q", lines.Text())
				}
				now := time.Now()
				ran += min(now.Sub(last), stopped)
				last = now
				reports = append(reports, report{n, ran})
				if asked == 0 && ran > 1800*time.Millisecond {
					asked = ran
					if how == "kill" {
						check(t, cmd.Process.Kill())
					} else {
						_, err := in.Write([]byte("\n"))
						check(t, err)
					}
				}
			}
			if err := cmd.Wait(); err == nil {
				t.Error("the job ended well")
			}
			old := -1 // recorded more than a second before the end
			for _, r := range reports {
				if r.ran < asked-time.Second {
					old = r.n
				}
			}
			trace := filepath.Join(dir, "trace.pfw.gz")
			_, err = dftracer.Recover(trace, nil)
			check(t, err)
			var text strings.Builder
			for _, e := range dftest.Events(t, trace) {
				fmt.Fprintln(&text, e.Name)
			}
			dftest.Check(t, trace)
			complete(t, "trace", text.String(), old, 1)
			data, err := os.ReadFile(filepath.Join(dir, "records.jsonl"))
			check(t, err)
			complete(t, "JSON lines", string(data), old, 2)
		})
	}
}

var stepName = regexp.MustCompile(`step\.(\d+)\.`)

// complete checks that every step up to the last is in a text so many times.
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
