package torch

import (
	"slices"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/internal/ingest/torch/kineto"
	"github.com/trainspan/trainspan/internal/tracefile/place"
)

// Lanes without a thread of the process.
const (
	inferredLanes = 700_000_000 // forward and backward, two for every lane
	jobLane       = 710_000_000 // ai_root and train
	logLanes      = 800_000_000
	otherLanes    = 900_000_000 // threads of other process ids in the file
)

type laneKey struct {
	pid, tid int64
	text     string
}

func threadOf(pid, tid kineto.ID) laneKey {
	k := laneKey{pid: pid.Num, tid: tid.Num}
	if !tid.IsNum {
		k.text = string(tid.Text)
	}
	return k
}

type lane struct {
	laneKey
	tid  int64 // as emitted
	rows int64
}

type devKey struct {
	device, stream int64
	annotation     bool
}

type devLane struct {
	devKey
	tid  int64
	rows place.Rows // of rows that overlap without nesting
}

// devParts is into how many parts a device lane can be split if rows on one
// stream overlap without nesting.
const devParts = 5

// place returns the thread id for a row such that rows with one id nest, and
// the part of the lane: 0 for the lane itself, place.Shared if there is no free
// part.
func (l *devLane) place(start, end int64) (tid int64, part int) {
	part = l.rows.Place(0, 0, start, end)
	if part == place.Shared {
		return 0, part
	}
	return l.tid + int64(part)*100_000, part
}

// name returns the name of a part of a device lane.
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

// laneTable holds the lanes of a file: threads of the host, streams of devices.
type laneTable struct {
	host        []lane
	hostIDs     map[laneKey]uint32
	device      []devLane
	deviceIDs   map[devKey]uint32
	pidRows     map[int64]int64 // rows by process id
	threadNames map[[2]int64]string
	comm        []uint32 // lanes with collectives that the host runs
	last        uint32   // of the previous row
}

func newLaneTable() laneTable {
	return laneTable{hostIDs: map[laneKey]uint32{}, deviceIDs: map[devKey]uint32{}, pidRows: map[int64]int64{}}
}

// laneOf returns the lane of a host row.
func (t *laneTable) laneOf(pid, tid kineto.ID) uint32 {
	// Rows of one thread often follow each other.
	if int(t.last) < len(t.host) && tid.IsNum {
		if l := &t.host[t.last]; l.laneKey == (laneKey{pid: pid.Num, tid: tid.Num}) {
			l.rows++
			return t.last
		}
	}
	k := threadOf(pid, tid)
	id, ok := t.hostIDs[k]
	if !ok {
		id = uint32(len(t.host))
		t.hostIDs[k] = id
		t.host = append(t.host, lane{laneKey: k})
	}
	t.host[id].rows++
	t.last = id
	return id
}

// ofDevice returns the lane of a device row.
func (t *laneTable) ofDevice(k devKey) uint32 {
	id, ok := t.deviceIDs[k]
	if !ok {
		id = uint32(len(t.device))
		t.deviceIDs[k] = id
		t.device = append(t.device, devLane{devKey: k, tid: k.tid(int64(id)), rows: place.Rows{Max: devParts}})
	}
	return id
}

// tid returns a thread id for a device lane that no operating system assigns
// (Linux stops at 2^22) and that shows device and stream: 1DDDPSSSSS, P being 0
// to 4 for the parts of the lane and 5 to 9 for those of its annotations.
func (k devKey) tid(index int64) int64 {
	if k.device < 0 || k.device > 999 || k.stream < 0 || k.stream >= 100_000 {
		return 2_000_000_000 + index*1_000_000
	}
	tid := 1_000_000_000 + k.device*1_000_000 + k.stream
	if k.annotation {
		tid += 500_000
	}
	return tid
}

// communicates notes a lane with a collective that the host runs.
func (t *laneTable) communicates(lane uint32) {
	if !slices.Contains(t.comm, lane) && len(t.comm) < 64 {
		t.comm = append(t.comm, lane)
	}
}

// finish determines and returns the process id, and numbers the threads of the
// host.
func (t *laneTable) finish() (pid int64) {
	var best int64 = -1
	for pid, n := range t.pidRows {
		if best < 0 || n > t.pidRows[best] || n == t.pidRows[best] && pid < best {
			best = pid
		}
	}
	pid = max(best, 0)
	for i := range t.host {
		l := &t.host[i]
		l.laneKey.text = ""
		if l.laneKey.pid == pid && l.laneKey.tid >= 0 && l.laneKey.tid < 1_000_000_000 {
			l.tid = l.laneKey.tid
		} else {
			// Another namespace (Python rows at pid 0, overhead at pid -1).
			l.tid = otherLanes + int64(i)
		}
	}
	return pid
}

// maxThreadNames bounds the thread names kept of one file.
const maxThreadNames = 4096

// noteThread keeps the name of a thread, such as "thread 1262 (pt_autograd_0)".
func (t *laneTable) noteThread(ev *kineto.Event) {
	name, ok := ev.Args.Text("name")
	if !ok || !ev.PID.IsNum || !ev.TID.IsNum || len(t.threadNames) >= maxThreadNames {
		return
	}
	if _, inner, found := strings.Cut(name, "("); found {
		name = strings.TrimSuffix(inner, ")")
	} else if strings.HasPrefix(name, "thread ") {
		return
	}
	if t.threadNames == nil {
		t.threadNames = map[[2]int64]string{}
	}
	t.threadNames[[2]int64{ev.PID.Num, ev.TID.Num}], _ = kineto.Clean([]byte(strings.TrimSpace(name)))
}

// main returns the lane of the training loop: that of the steps, or that of the
// first thread, or the busiest without a backward.
func (t *laneTable) main(pid int64, steps []step, engines map[uint32]bool) int {
	if len(steps) > 0 {
		return int(steps[0].lane)
	}
	best := -1
	for i := range t.host {
		l := &t.host[i]
		if l.laneKey.pid != pid || engines[uint32(i)] {
			continue
		}
		if l.laneKey.tid == pid {
			return i
		}
		if best < 0 || l.rows > t.host[best].rows {
			best = i
		}
	}
	return best
}

// names calls yield with each lane and its display name. prefix is put before
// the main one.
func (t *laneTable) names(pid int64, prefix string, steps []step, envelopes []envelope, yield func(tid int64, name string)) {
	engines := map[uint32]bool{}
	for _, v := range envelopes {
		engines[v.lane] = true
	}
	main := t.main(pid, steps, engines)
	var autograd, loaders int
	for i := range t.host {
		l := &t.host[i]
		if l.rows == 0 {
			continue
		}
		own := t.threadNames[[2]int64{l.laneKey.pid, l.laneKey.tid}]
		name := ""
		switch {
		case i == main:
			name = prefix + "main"
		case l.laneKey.pid < 0:
			name = "profiler overhead"
		case engines[uint32(i)] || strings.HasPrefix(own, "pt_autograd"):
			autograd++
			name = ordinal("autograd", autograd)
		case strings.HasPrefix(own, "pt_data") || strings.Contains(strings.ToLower(own), "loader"):
			loaders++
			name = "loader " + strconv.Itoa(loaders)
		case slices.Contains(t.comm, uint32(i)):
			name = "communication " + strconv.FormatInt(l.laneKey.tid, 10)
		default:
			name = "thread " + strconv.FormatInt(l.laneKey.tid, 10)
			if own != "" {
				name += " (" + own + ")"
			}
		}
		yield(l.tid, name)
	}
	for _, l := range t.device {
		yield(l.tid, l.name(0))
	}
}

func ordinal(word string, n int) string {
	if n == 1 {
		return word
	}
	return word + " " + strconv.Itoa(n)
}
