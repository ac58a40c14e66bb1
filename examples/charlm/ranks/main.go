// Ranks trains the model of charlm in several processes with two faults that
// the report must find: one rank has a slow data loader, and one attempt is
// killed and resumed, as in `trainspan demo`, but with a model that learns.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

type options struct {
	out      string
	ranks    int
	steps    int
	save     int           // steps between checkpoints
	slow     int           // rank
	delay    time.Duration // of its data loader, each step
	killAt   int           // step
	pause    time.Duration // between the attempts
	text     string
	resuming bool
	address  string // of rank 0
}

func main() {
	var o options
	flag.StringVar(&o.out, "out", "out/demo-faults", "`directory` for everything")
	flag.IntVar(&o.ranks, "ranks", 4, "processes")
	flag.IntVar(&o.steps, "steps", 160, "training steps")
	flag.IntVar(&o.save, "save-every", 50, "steps between checkpoints")
	flag.IntVar(&o.slow, "slow-rank", 2, "rank that is slow in its data loader")
	flag.DurationVar(&o.delay, "delay", 60*time.Millisecond, "by how much, each step")
	flag.IntVar(&o.killAt, "kill-at", 90, "step at which all ranks of the first attempt are killed")
	flag.DurationVar(&o.pause, "pause", time.Second, "between the attempts")
	flag.StringVar(&o.text, "text", "", "text to train on (default: the Go standard library)")
	flag.BoolVar(&o.resuming, "resume", false, "of a worker: go on from the newest checkpoint")
	flag.StringVar(&o.address, "address", "", "of a worker: where rank 0 listens")
	flag.Parse()
	run := launch
	if o.address != "" {
		run = work
	}
	if err := run(context.Background(), &o); err != nil {
		fmt.Fprintln(os.Stderr, "ranks:", err)
		os.Exit(1)
	}
}

// launch does the work of a launcher of training jobs: it starts all ranks with
// their rank in the environment, and restarts all of them if one ends.
func launch(ctx context.Context, o *options) error {
	if err := clean(o.out); err != nil {
		return err
	}
	killed, err := attempt(ctx, o, 0, o.killAt)
	if err != nil || !killed {
		return errors.Join(err, fmt.Errorf("the first attempt was to be killed at step %d, and was not", o.killAt))
	}
	fmt.Printf("killed all ranks at step %d; resuming in %s\n", o.killAt, o.pause)
	time.Sleep(o.pause)
	_, err = attempt(ctx, o, 1, 0)
	return err
}

// clean removes an earlier run from a directory.
func clean(dir string) error {
	files, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(files) == 0 {
		return nil
	}
	if _, notRun := os.Stat(filepath.Join(dir, "attempt-0")); err == nil && notRun != nil {
		err = fmt.Errorf("%s has other files; name a new directory", dir)
	}
	for _, name := range []string{"attempt-0", "attempt-1", "checkpoints"} {
		if err == nil {
			err = os.RemoveAll(filepath.Join(dir, name))
		}
	}
	return err
}

// attempt runs all ranks once. It kills them when rank 0 has completed step
// killAt, unless that is 0.
func attempt(ctx context.Context, o *options, number, killAt int) (killed bool, err error) {
	ctx, stop := context.WithCancel(ctx) // canceling the context sends SIGKILL
	defer stop()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return false, err
	}
	defer listener.Close() //nolint:errcheck // rank 0 has its own
	shared, err := listener.File()
	if err != nil {
		return false, err
	}
	defer shared.Close() //nolint:errcheck // as above
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	args := append(append([]string{}, os.Args[1:]...), "-address", listener.Addr().String(), "-resume="+strconv.FormatBool(number > 0))
	cmds := make([]*exec.Cmd, o.ranks)
	for rank := range cmds {
		cmd := exec.CommandContext(ctx, self, args...)
		cmd.Stderr = os.Stderr
		cmd.Env = append(os.Environ(), "RANK="+strconv.Itoa(rank), "WORLD_SIZE="+strconv.Itoa(o.ranks), "LOCAL_RANK="+strconv.Itoa(rank),
			"TRAINSPAN_ATTEMPT="+strconv.Itoa(number), "TRAINSPAN_JOB=demo-faults", "TRAINSPAN_SESSION_TAG=demo-faults",
			"TRAINSPAN_DIR="+filepath.Join(o.out, fmt.Sprintf("attempt-%d", number), fmt.Sprintf("rank-%d", rank)))
		cmds[rank] = cmd
	}
	cmds[0].ExtraFiles = []*os.File{shared}
	progress, err := cmds[0].StdoutPipe()
	if err != nil {
		return false, err
	}
	for rank, cmd := range cmds {
		if err := cmd.Start(); err != nil {
			stop()
			for _, before := range cmds[:rank] {
				_ = before.Wait()
			}
			return false, err
		}
	}
	for lines := bufio.NewScanner(progress); lines.Scan(); {
		step, err := strconv.Atoi(strings.TrimPrefix(lines.Text(), "step "))
		if err == nil && step >= killAt && killAt > 0 && !killed {
			killed = true
			stop()
		}
		if err == nil && step%50 == 0 {
			fmt.Println(lines.Text())
		}
	}
	for rank, cmd := range cmds {
		if waitErr := cmd.Wait(); waitErr != nil && !killed {
			stop() // the others wait for this rank
			err = errors.Join(err, fmt.Errorf("rank %d: %w", rank, waitErr))
		}
	}
	return killed, err
}
