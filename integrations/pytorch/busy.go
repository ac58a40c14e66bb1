package pytorch

import (
	"fmt"
	"strings"
	"time"

	"github.com/trainspan/trainspan/internal/human"
	"github.com/trainspan/trainspan/internal/visible"
)

// DeviceUse says how a device spent the profiler's window. All are unions: a
// moment counts once, however many streams worked in it.
type DeviceUse struct {
	// Device is the number of the device in its process.
	Device int64 `json:"device"`
	// Window is the length of the profiler's window, Idle the part in which
	// nothing ran.
	Window time.Duration `json:"window_ns"`
	Idle   time.Duration `json:"idle_ns"`
	// Compute, Comm and Copy are by class; ExposedComm is communication while
	// nothing computed.
	Compute     time.Duration `json:"compute_ns"`
	Comm        time.Duration `json:"comm_ns"`
	Copy        time.Duration `json:"copy_ns"`
	ExposedComm time.Duration `json:"comm_exposed_ns"`
}

func (d DeviceUse) String() string {
	use := func(part time.Duration) string {
		return human.Duration(int64(part)) + " (" + human.Share(int64(part), int64(d.Window)) + ")"
	}
	return fmt.Sprintf("device %d: compute %s, communication %s, %s of it exposed, copies %s, idle %s",
		d.Device, use(d.Compute), use(d.Comm), human.Duration(int64(d.ExposedComm)), use(d.Copy), use(d.Idle))
}

// union is the length of a set of stretches that come in order of their start.
type union struct{ end, sum int64 }

func (u *union) add(start, end int64) {
	if start = max(start, u.end); end > start {
		u.sum += end - start
		u.end = end
	}
}

// busyDevice collects the unions of one device.
type busyDevice struct {
	classes      [classCount]union
	working, all union // compute and communication; everything
}

func (b *busyDevice) add(class DeviceClass, start, end int64) {
	b.classes[class].add(start, end)
	if class != ClassCopy {
		b.working.add(start, end)
	}
	b.all.add(start, end)
}

// maxDevices bounds the devices of one file.
const maxDevices = 1024

// busy adds a row, which come in order of their start, to its device.
func (e *emitter) busy(r *row) {
	if !r.works() {
		return
	}
	if e.devices == nil {
		e.devices = map[int64]*busyDevice{}
	}
	b := e.lastBusy
	if b == nil || e.lastDevice != r.b {
		if b = e.devices[r.b]; b == nil {
			if len(e.devices) >= maxDevices {
				return
			}
			b = &busyDevice{}
			b.reset(e.p.window[0])
			e.devices[r.b] = b
		}
		e.lastBusy, e.lastDevice = b, r.b
	}
	b.add(e.class, r.start, min(r.end, max(e.p.window[1], r.start)))
}

// reset lets what ran before the window count from its start.
func (b *busyDevice) reset(start int64) {
	for i := range b.classes {
		b.classes[i].end = start
	}
	b.working.end, b.all.end = start, start
}

// use lists the devices of the file.
func (e *emitter) use() (out []DeviceUse) {
	window := max(e.p.window[1]-e.p.window[0], 0)
	for _, id := range sortedRanks(e.devices) {
		b := e.devices[id]
		out = append(out, DeviceUse{
			Device: id, Window: time.Duration(window), Idle: time.Duration(max(window-b.all.sum, 0)),
			Compute: time.Duration(b.classes[ClassCompute].sum), Comm: time.Duration(b.classes[ClassComm].sum), Copy: time.Duration(b.classes[ClassCopy].sum),
			ExposedComm: time.Duration(b.working.sum - b.classes[ClassCompute].sum),
		})
	}
	return out
}

func (r *FileReport) devicesText(b *strings.Builder) {
	for _, d := range r.Devices {
		visible.Fprintf(b, "  %s\n", d)
	}
}
