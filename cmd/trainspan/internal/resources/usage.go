package resources

import (
	"math"
	"time"
)

// usage sums up what a process used.
type usage struct {
	cpu         float64 // seconds
	first, last time.Time
	read, wrote uint64 // bytes by calls
	stored      uint64 // bytes to storage
	fetched     uint64 // bytes from storage
	peak        int64  // bytes of memory
	memory      trend
	workers     bool // it is one of several children that run their parent's program
}

func (u *usage) seconds() float64 { return u.last.Sub(u.first).Seconds() }

// trend fits a line to samples as they come.
type trend struct{ n, x, y, xx, xy, yy float64 }

func (t *trend) add(x, y float64) {
	t.n++
	t.x, t.y = t.x+x, t.y+y
	t.xx, t.xy, t.yy = t.xx+x*x, t.xy+x*y, t.yy+y*y
}

// line is the slope of the line and how much of the variance it explains.
func (t *trend) line() (slope, fit float64) {
	vx, vy, c := t.n*t.xx-t.x*t.x, t.n*t.yy-t.y*t.y, t.n*t.xy-t.x*t.y
	if vx <= 0 || vy <= 0 {
		return 0, 0
	}
	return c / vx, math.Min(c*c/(vx*vy), 1)
}
