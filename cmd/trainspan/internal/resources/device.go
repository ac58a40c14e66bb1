package resources

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/trainspan/trainspan/dftracer"
)

// device is the GPU on which a process computes.
type device struct {
	index   string // the number in nvidia-smi; empty if unknown
	several bool   // the evidence names several GPUs
	asked   bool   // the environment of the process was read
	written string // the value in the trace
}

// note adds evidence for the GPU with the index. Contradicting evidence sets
// several.
func (d *device) note(index string) {
	d.several = d.several || d.index != "" && d.index != index
	d.index = index
}

// deviceEvery is the interval at which nvidia-smi lists the computing processes.
const deviceEvery = 10 * time.Second

// readProcesses calls each with a process and the UUID of a GPU on which it
// computes, until stop is closed.
func (g *GPUs) readProcesses(stop <-chan struct{}, each func(pid int, uuid string)) {
	g.query(stop, "--query-compute-apps=pid,gpu_uuid", deviceEvery, func(line string) {
		number, uuid, _ := strings.Cut(line, ",")
		if pid, err := strconv.Atoi(strings.TrimSpace(number)); err == nil && pid > 0 {
			each(pid, strings.TrimSpace(uuid))
		}
	})
}

// initialNamespace is the kernel's name for the initial PID namespace of the
// machine. The driver of a GPU lists processes by their ids there.
const initialNamespace = "pid:[4026531836]"

func inInitialNamespace(root string) bool {
	name, err := os.Readlink(filepath.Join(root, "self/ns/pid"))
	return err == nil && name == initialNamespace
}

// computes records that a process computes on the GPU with a UUID.
func (s *Sampler) computes(pid int, uuid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, index := s.tree.ours[pid], s.indexOf(uuid); p != nil && index != "" {
		p.device.note(index)
	}
}

// indexOf returns the index of the sampled GPU with a number, a UUID or a
// prefix of one, "" unless it is unique.
func (s *Sampler) indexOf(name string) (index string) {
	for i, u := range s.gpus {
		if i != name && (u.uuid == "" || !strings.HasPrefix(name, "GPU-") || !strings.HasPrefix(u.uuid, name)) {
			continue
		}
		if index != "" {
			return ""
		}
		index = i
	}
	return index
}

// device writes the GPU on which a process computes, when it is known: from the
// driver's list of processes, or because the process was started with one
// visible GPU. The n-th rank of a host need not use the n-th GPU.
func (s *Sampler) device(p *Process, now time.Time) {
	if s.writer == nil || len(s.gpus) == 0 {
		return
	}
	d := &p.device
	if !d.asked {
		d.asked = true
		if visible := variable(s.o.Proc, p.PID, "CUDA_VISIBLE_DEVICES"); visible != "" && !strings.Contains(visible, ",") {
			if index := s.indexOf(visible); index != "" {
				d.note(index)
			}
		}
	}
	index := d.index
	if d.several {
		index = "-1"
	}
	if index == d.written {
		return
	}
	n, err := strconv.ParseInt(index, 10, 64)
	if err != nil {
		return
	}
	d.written = index
	pid := int64(p.PID)
	s.writer.Write(&dftracer.Event{Phase: dftracer.PhaseCounter, Cat: Category, Name: "compute_gpu", PID: pid, TID: pid, TS: now.UnixMicro(), Args: []dftracer.Arg{dftracer.Int("gpu", n)}})
}

// variable returns a variable of the environment with which a process was
// started.
func variable(root string, pid int, name string) string {
	all, _ := os.ReadFile(filepath.Join(root, strconv.Itoa(pid), "environ")) // without it the value is unknown
	for v := range bytes.SplitSeq(all, []byte{0}) {
		if value, ok := bytes.CutPrefix(v, []byte(name+"=")); ok {
			return strings.TrimSpace(string(value))
		}
	}
	return ""
}
