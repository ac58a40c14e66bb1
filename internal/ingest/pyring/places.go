package pyring

import "sort"

// maxPlaces bounds how many changes of epoch and step are remembered.
const maxPlaces = 4096

// places holds the training's epoch and step over time.
type places []standing

type standing struct{ since, epoch, step int64 }

func (p *places) set(at, epoch, step int64) {
	last := standing{epoch: -1, step: -1}
	if n := len(*p); n > 0 {
		last = (*p)[n-1]
		at = max(at, last.since)
	}
	if len(*p) >= 2*maxPlaces {
		*p = append((*p)[:0], (*p)[len(*p)-maxPlaces:]...)
	}
	*p = append(*p, standing{at, changed(last.epoch, epoch), changed(last.step, step)})
}

// position returns epoch and step at a time; -1 if unknown.
func (p places) position(t int64) (epoch, step int64) {
	n := len(p)
	if n == 0 {
		return -1, -1
	}
	if p[n-1].since <= t {
		return p[n-1].epoch, p[n-1].step
	}
	i := sort.Search(n, func(i int) bool { return p[i].since > t }) - 1
	if i < 0 {
		return -1, -1
	}
	return p[i].epoch, p[i].step
}
