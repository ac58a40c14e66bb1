//go:build unix

package session

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/resources"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"golang.org/x/sys/unix"
)

// usage samples the resources of the command's processes.
type usage struct {
	*start
	sampler  *resources.Sampler
	node     *resources.Node
	counters *dftracer.Writer
}

func startUsage(s *start, pid int, cgroup *resources.Cgroup) *usage {
	u := &usage{start: s}
	own := resources.Member{Command: pid, Base: s.set.PID, Exclude: unix.Getpid()}
	visible := os.Getenv("CUDA_VISIBLE_DEVICES")
	gpus := resources.FindGPUs(visible, s.ranks.LocalRank.Or(-1))
	if gpus != nil {
		own.GPUs = gpus.Only
	}
	if s.ranks.LocalRank.IsSet() || s.ranks.Rank.IsSet() { // this node may have other ranks
		job, err := filepath.Abs(s.where.Job) // the same path for all processes on this node
		if err != nil {
			job = s.where.Job
		}
		for _, in := range []string{sharedMemory, os.TempDir()} {
			node, err := resources.Meet(in, fmt.Sprintf("%s/%d", job, s.where.Attempt), own)
			if err == nil {
				nameOwner(node.Dir(), os.Getpid())
				u.node = node
				break
			}
		}
	}
	u.sampler = resources.Start(resources.Options{Member: own, Node: u.node, Open: u.open, Cgroup: cgroup, Sampled: gpus})
	return u
}

// open makes the trace of resources.
func (u *usage) open() *dftracer.Writer {
	attempt := u.where.Attempt
	w, err := dftracer.Create(filepath.Join(u.dir, "resources.pfw.gz"), &dftracer.Options{
		Process: dftracer.Process{PID: u.set.PID, Exec: u.set.Command.Program, Command: u.set.Command.Program, Attempt: &attempt, SessionTag: u.tag(), JobID: u.run.Job},
		OnError: func(err error) { u.problem("resources: %v; see "+helptopic.File, err) },
	})
	if err != nil {
		u.problem("resources: %v; see "+helptopic.File, err) // the evidence does not need the trace
		w = nil
	}
	u.counters = w
	return w
}

// maxProcesses bounds the list in run.json.
const maxProcesses = 256

// describe adds the processes and the resources that they used to run.json.
func (u *usage) describe(r *rundir.Run) {
	if u == nil {
		return
	}
	list, more := u.sampler.Processes()
	slices.SortFunc(list, func(a, b resources.Process) int { return cmp.Or(a.First.Compare(b.First), cmp.Compare(a.PID, b.PID)) })
	r.Processes = r.Processes[:0]
	for i := range list[:min(len(list), maxProcesses)] {
		p := &list[i]
		r.Processes = append(r.Processes, rundir.Process{PID: p.PID, Parent: p.Parent, Program: p.Program, First: p.First, Seen: p.Seen})
	}
	r.MoreProcesses = more + max(len(list)-maxProcesses, 0)
	r.Evidence, r.CPU, r.GPUs = u.sampler.Evidence(), u.sampler.CPU(), u.sampler.GPUs()
}

// close ends the sampling. Another process of the node continues it for the
// others.
func (u *usage) close(ctx context.Context) error {
	u.sampler.Stop()
	if u.node != nil {
		u.node.Leave()
	}
	return u.counters.CloseContext(ctx)
}
