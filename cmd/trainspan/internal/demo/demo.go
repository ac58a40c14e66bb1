// Package demo is the training job of trainspan demo: processes that compute
// nothing, synchronize once in each step, and record themselves like a program
// in Go.
package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"github.com/trainspan/trainspan"
	"github.com/trainspan/trainspan/ai"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
)

// Job configures the processes of the demo. Rank Slow fetches its batches later
// than the others by Delay. After step KillAt all processes are killed, unless
// that is 0.
type Job struct {
	Ranks, Steps, Save, First int
	Slow, KillAt              int
	Delay                     time.Duration
}

// Standard is the job of trainspan demo.
var Standard = Job{Ranks: 4, Steps: 120, Save: 40, Slow: 2, KillAt: 60, Delay: 30 * time.Millisecond}

// Durations of the phases of a step.
const (
	load     = 500 * time.Microsecond
	forward  = 4 * time.Millisecond
	backward = 8 * time.Millisecond
	update   = time.Millisecond
	saving   = 60 * time.Millisecond
)

// ErrKilled means that the processes were killed as planned.
var ErrKilled = errors.New("all ranks were killed, as planned")

// Launch starts the processes of a job, each by command and the address at
// which they synchronize, and waits for them. It returns [ErrKilled] after it
// has killed them.
func Launch(ctx context.Context, j *Job, command ...string) error {
	ctx, stop := context.WithCancel(ctx) // its end kills with SIGKILL
	defer stop()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close() //nolint:errcheck // nothing was written
	progress := make(chan int)
	met := make(chan error, 1)
	go func() { met <- meet(listener, j.Ranks, progress) }()
	killed := false // read once the goroutine has ended
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for step := range progress {
			if j.KillAt > 0 && step >= j.KillAt-j.First && !killed {
				killed = true
				stop()
			}
		}
	}()
	cmds := make([]*exec.Cmd, j.Ranks)
	for rank := range cmds {
		cmd := exec.CommandContext(ctx, command[0], append(slices.Clone(command[1:]), listener.Addr().String())...)
		cmd.Stderr = os.Stderr
		cmd.Env = append(os.Environ(), "RANK="+strconv.Itoa(rank), "LOCAL_RANK="+strconv.Itoa(rank), "WORLD_SIZE="+strconv.Itoa(j.Ranks))
		if err := cmd.Start(); err != nil {
			stop()
			for _, before := range cmds[:rank] {
				_ = before.Wait()
			}
			return err
		}
		cmds[rank] = cmd
	}
	var failed error
	for rank, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			failed = errors.Join(failed, fmt.Errorf("rank %d: %w", rank, err))
			stop() // the others wait for it
		}
	}
	_ = listener.Close()
	err = <-met
	close(progress)
	<-watched
	switch {
	case killed:
		return ErrKilled
	case failed != nil:
		return failed
	}
	return err
}

// meet releases all ranks whenever the last one of them has come, and sends the
// number of times. It returns when they have left.
func meet(listener net.Listener, ranks int, progress chan<- int) error {
	conns := make([]net.Conn, 0, ranks)
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for range ranks {
		c, err := listener.Accept()
		if err != nil {
			return nil //nolint:nilerr // a rank did not start, which is reported
		}
		conns = append(conns, c)
	}
	var b [1]byte
	for n := 1; ; n++ {
		for _, c := range conns {
			if _, err := io.ReadFull(c, b[:]); err != nil {
				return nil //nolint:nilerr // it has ended
			}
		}
		progress <- n
		for _, c := range conns {
			if _, err := c.Write(b[:]); err != nil {
				return nil //nolint:nilerr // it has ended
			}
		}
	}
}

// rank is one process of the job.
type rank struct {
	*Job
	number int
	tel    *telemetry.Provider
	conn   net.Conn
	peers  *bufio.Reader
}

// Work runs one process of a job. RANK in the environment is its rank, and
// address is where the processes synchronize.
func Work(ctx context.Context, j *Job, address string) (err error) {
	r := &rank{Job: j}
	if r.number, err = strconv.Atoi(os.Getenv(identity.Rank.Word(identity.Environment))); err != nil {
		return fmt.Errorf("only trainspan demo starts this process: %w", err)
	}
	if r.conn, err = new(net.Dialer).DialContext(ctx, "tcp", address); err != nil {
		return err
	}
	defer r.conn.Close() //nolint:errcheck // the process ends
	r.peers = bufio.NewReader(r.conn)
	if r.tel, err = trainspan.Start(ctx, trainspan.WithName("demo")); err != nil {
		return err
	}
	err = r.tel.Run(ctx, spans.Application, r.train)
	return errors.Join(err, r.tel.Shutdown(ctx))
}

func (r *rank) train(ctx context.Context) error {
	return r.tel.Run(ctx, spans.TrainingLoop, func(ctx context.Context) error {
		for step := r.First; step < r.Steps; step++ {
			if err := r.tel.Run(ctx, spans.TrainingIteration, r.step); err != nil {
				return err
			}
			if done := step + 1; r.number == 0 && done%r.Save == 0 {
				if err := r.tel.Run(ctx, spans.CheckpointSave, sleep(saving), telemetry.SaveStart{GlobalStep: done}); err != nil {
					return err
				}
			}
		}
		return nil
	}, telemetry.LoopStart{IterationsStart: r.First, IterationsTarget: config.Value(r.Steps)})
}

// step runs one training step.
func (r *rank) step(ctx context.Context) error {
	data := load
	if r.number == r.Slow {
		data += r.Delay
	}
	for _, phase := range []struct {
		span string
		take time.Duration
	}{{spans.DataLoading, data}, {spans.ModelForward, forward}, {spans.ModelBackward, backward}} {
		if err := r.tel.Run(ctx, phase.span, sleep(phase.take)); err != nil {
			return err
		}
	}
	all := ai.Comm.AllReduce.Start(ctx)
	_, err := r.conn.Write([]byte{1})
	if err == nil {
		_, err = r.peers.ReadByte()
	}
	if all.EndErr(&err); err != nil {
		return err
	}
	return r.tel.Run(ctx, spans.OptimizerUpdate, sleep(update))
}

func sleep(d time.Duration) func(context.Context) error {
	return func(context.Context) error {
		time.Sleep(d)
		return nil
	}
}
