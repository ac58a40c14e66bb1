package torch

import (
	"maps"
	"slices"
	"time"
)

// union is the length of a set of intervals that come in order of their start.
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

func (b *busyDevice) add(class deviceClass, start, end int64) {
	b.classes[class].add(start, end)
	if class != classCopy {
		b.working.add(start, end)
	}
	b.all.add(start, end)
}

// maxDevices bounds the devices of one file.
const maxDevices = 1024

// busyDevices collects the unions of the devices of a file.
type busyDevices struct {
	byID   map[int64]*busyDevice
	last   *busyDevice
	lastID int64
}

// add adds a row of a class, which come in order of their start, to its device.
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

// reset lets what ran before the window count from its start.
func (b *busyDevice) reset(start int64) {
	for i := range b.classes {
		b.classes[i].end = start
	}
	b.working.end, b.all.end = start, start
}

// use lists the devices of the file.
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
