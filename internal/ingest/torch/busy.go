package torch

import (
	"maps"
	"slices"
	"time"
)

// union is the total length of intervals added in order of their start.
type union struct{ end, sum int64 }

func (u *union) add(start, end int64) {
	if start = max(start, u.end); end > start {
		u.sum += end - start
		u.end = end
	}
}

// busyDevice holds the busy times of one device.
type busyDevice struct {
	classes      [classCount]union
	working, all union // compute and communication; everything
}

func (b *busyDevice) add(class deviceClass, start, end int64) {
	b.classes[class].add(start, end)
	if class != classCopy {
		b.working.add(start, end)
	}
	b.all.add(start, end)
}

// maxDevices bounds the devices of one file.
const maxDevices = 1024

// busyDevices holds the busy times of a file's devices.
type busyDevices struct {
	byID   map[int64]*busyDevice
	last   *busyDevice
	lastID int64
}

// add adds a row of a class to its device. Rows come in order of their start.
func (d *busyDevices) add(r *row, class deviceClass, window [2]int64) {
	if !r.works() {
		return
	}
	if d.byID == nil {
		d.byID = map[int64]*busyDevice{}
	}
	b := d.last
	if b == nil || d.lastID != r.b {
		if b = d.byID[r.b]; b == nil {
			if len(d.byID) >= maxDevices {
				return
			}
			b = &busyDevice{}
			b.reset(window[0])
			d.byID[r.b] = b
		}
		d.last, d.lastID = b, r.b
	}
	b.add(class, r.start, min(r.end, max(window[1], r.start)))
}

// reset makes rows that ran before the window count from its start.
func (b *busyDevice) reset(start int64) {
	for i := range b.classes {
		b.classes[i].end = start
	}
	b.working.end, b.all.end = start, start
}

// use returns the use of the file's devices.
func (d *busyDevices) use(bounds [2]int64) (out []DeviceUse) {
	window := max(bounds[1]-bounds[0], 0)
	for _, id := range slices.Sorted(maps.Keys(d.byID)) {
		b := d.byID[id]
		out = append(out, DeviceUse{
			Device: id, Window: time.Duration(window), Idle: time.Duration(max(window-b.all.sum, 0)),
			Compute: time.Duration(b.classes[classCompute].sum), Comm: time.Duration(b.classes[classComm].sum), Copy: time.Duration(b.classes[classCopy].sum),
			ExposedComm: time.Duration(b.working.sum - b.classes[classCompute].sum),
		})
	}
	return out
}
