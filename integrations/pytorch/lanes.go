package pytorch

import (
	"slices"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/kineto"
)

// Lanes that no thread of the process is on.
const (
	inferredLanes = 700_000_000 // forward and backward, two for every lane
	jobLane       = 710_000_000 // ai_root and train
	logLanes      = 800_000_000
	otherLanes    = 900_000_000 // threads of other process ids in the file
)

// maxThreadNames bounds the thread names kept of one file.
const maxThreadNames = 4096

// noteThread keeps the name that the profiler gives to a thread, such as
// "thread 1262 (pt_autograd_0)".
func (p *process) noteThread(ev *kineto.Event) {
	name, ok := ev.Args.Text("name")
	if !ok || !ev.PID.IsNum || !ev.TID.IsNum || len(p.threadNames) >= maxThreadNames {
		return
	}
	if _, inner, found := strings.Cut(name, "("); found {
		name = strings.TrimSuffix(inner, ")")
	} else if strings.HasPrefix(name, "thread ") {
		return
	}
	if p.threadNames == nil {
		p.threadNames = map[[2]int64]string{}
	}
	p.threadNames[[2]int64{ev.PID.Num, ev.TID.Num}], _ = kineto.Clean([]byte(strings.TrimSpace(name)))
}

// mainLane returns the lane of the training loop: that of the steps, else that
// of the first thread, else the busiest without a backward.
func (p *process) mainLane(engines map[uint32]bool) int {
	if len(p.steps) > 0 {
		return int(p.steps[0].lane)
	}
	best := -1
	for i := range p.lanes {
		l := &p.lanes[i]
		if l.laneKey.pid != p.pid || engines[uint32(i)] {
			continue
		}
		if l.laneKey.tid == p.pid {
			return i
		}
		if best < 0 || l.rows > p.lanes[best].rows {
			best = i
		}
	}
	return best
}

// nameLanes writes what viewers show beside each lane of the host.
func (e *emitter) nameLanes() {
	p := e.p
	engines := map[uint32]bool{}
	for _, v := range p.envelopes {
		engines[v.lane] = true
	}
	main := p.mainLane(engines)
	var autograd, loaders int
	for i := range p.lanes {
		l := &p.lanes[i]
		if l.rows == 0 {
			continue
		}
		own := p.threadNames[[2]int64{l.laneKey.pid, l.laneKey.tid}]
		name := ""
		switch {
		case i == main:
			name = "main"
			if p.rank >= 0 {
				name = "rank " + strconv.FormatInt(p.rank, 10) + " main"
			}
		case l.laneKey.pid < 0:
			name = "profiler overhead"
		case engines[uint32(i)] || strings.HasPrefix(own, "pt_autograd"):
			autograd++
			name = ordinal("autograd", autograd)
		case strings.HasPrefix(own, "pt_data") || strings.Contains(strings.ToLower(own), "loader"):
			loaders++
			name = "loader " + strconv.Itoa(loaders)
		case slices.Contains(p.hostComm, uint32(i)):
			name = "communication " + strconv.FormatInt(l.laneKey.tid, 10)
		default:
			name = "thread " + strconv.FormatInt(l.laneKey.tid, 10)
			if own != "" {
				name += " (" + own + ")"
			}
		}
		e.nameLane(l.tid, name)
	}
	for _, l := range p.devLanes {
		e.nameLane(l.tid, l.name(0))
	}
}

func ordinal(word string, n int) string {
	if n == 1 {
		return word
	}
	return word + " " + strconv.Itoa(n)
}

// name is the name of a part of a device lane.
func (l *devLane) name(part int) string {
	name := "GPU " + strconv.FormatInt(l.device, 10) + " stream " + strconv.FormatInt(l.stream, 10)
	if l.annotation {
		name += " annotations"
	}
	if part > 0 {
		name += ", overlapping " + strconv.Itoa(part)
	}
	return name
}

// nameLane names a lane once.
func (e *emitter) nameLane(tid int64, name string) {
	if e.laneNamed == nil {
		e.laneNamed = map[int64]bool{}
	}
	if e.laneNamed[tid] {
		return
	}
	e.laneNamed[tid] = true
	e.meta(dftracer.NameThreadName, tid, dftracer.String("name", name), dftracer.String("value", dftracer.NameThreadName))
}
