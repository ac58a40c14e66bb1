package telemetry_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/tracefile/recovery"
)

// busyVariable makes the test program use a processor until its standard input
// ends.
const busyVariable = "TRAINSPAN_TELEMETRY_TEST_BUSY"

func busy() {
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		os.Exit(0)
	}()
	for range 1 << 62 {
	}
}

// BenchmarkKill kills a job beside four busy processes, once an iteration
// (-benchtime 40x), and prints the age of the oldest record that is in no file:
// the median of the kills and the maximum, in milliseconds.
func BenchmarkKill(b *testing.B) {
	for range 4 {
		cmd := exec.CommandContext(b.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), busyVariable+"=1")
		in, err := cmd.StdinPipe()
		check(b, err)
		check(b, cmd.Start())
		b.Cleanup(func() {
			_ = in.Close()
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	random := rand.New(rand.NewPCG(1, 2))
	var traces, lines []float64
	for b.Loop() {
		dir := b.TempDir()
		reports, killed := killAfter(b, dir, time.Duration(1000+random.IntN(1000))*time.Millisecond)
		trace := filepath.Join(dir, "trace.pfw.gz")
		_, err := recovery.File(trace, nil)
		check(b, err)
		text := ""
		for _, ev := range dftest.Events(b, trace) {
			text += ev.Name + "\n"
		}
		traces = append(traces, oldest(reports, killed, text, 1))
		data, err := os.ReadFile(filepath.Join(dir, "records.jsonl"))
		check(b, err)
		lines = append(lines, oldest(reports, killed, string(data), 2))
	}
	b.ReportMetric(0, "ns/op")
	for name, all := range map[string][]float64{"trace": traces, "lines": lines} {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], name+"-median-ms")
		b.ReportMetric(all[len(all)-1], name+"-most-ms")
	}
}

// killAfter kills a job after a time. It returns when the job recorded each
// step, and when it was killed.
func killAfter(b *testing.B, dir string, run time.Duration) (steps []time.Time, killed time.Time) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), deathVariable+"=kill", deathVariable+"_DIR="+dir)
	in, err := cmd.StdinPipe()
	check(b, err)
	defer func() { _ = in.Close() }()
	out, err := cmd.StdoutPipe()
	check(b, err)
	check(b, cmd.Start())
	said := bufio.NewScanner(out)
	for said.Scan() {
		_, at := recorded(b, said.Text())
		steps = append(steps, at)
		if killed.IsZero() && at.Sub(steps[0]) > run {
			killed = time.Now()
			check(b, cmd.Process.Kill())
		}
	}
	if err := cmd.Wait(); err == nil {
		b.Fatal("the job exited with status 0, want a failure")
	}
	return steps, killed
}

// oldest returns the age, in milliseconds, of the oldest step that a text does
// not have the given number of times.
func oldest(steps []time.Time, killed time.Time, text string, times int) float64 {
	seen := map[string]int{}
	for _, m := range stepName.FindAllStringSubmatch(text, -1) {
		seen[m[1]]++
	}
	for n, at := range steps {
		if seen[fmt.Sprint(n)] < times {
			return float64(max(killed.Sub(at), 0).Microseconds()) / 1e3
		}
	}
	return 0
}
