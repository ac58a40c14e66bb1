package torch

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/trainspan/trainspan/internal/platform/stats"
)

// clock maps the times of one file, in nanoseconds since 1970, to the axis of
// its ranks: t + offset + drift*(t-ref). The zero clock changes nothing. The
// order of times is kept, so that rows stay nested.
type clock struct {
	offset int64
	drift  float64
	ref    int64
}

func (c *clock) toTrace(t int64) int64 {
	if c.drift == 0 {
		return t + c.offset
	}
	return t + c.offset + int64(math.Round(c.drift*float64(t-c.ref)))
}

// point is one observation of two clocks: add y to x.
type point struct{ x, y int64 }

const (
	// maxDrift is the largest drift that a kernel's clock discipline corrects. A
	// larger value is not a clock's drift.
	maxDrift = 500e-6
	// fitSample bounds the points used for a slope.
	fitSample = 300
	// fitDrift is how many points an estimate of drift needs.
	fitDrift = 8
)

// fit is a robust line through points.
type fit struct {
	clock
	n, inliers int
	// scale is the spread of the residuals, as a robust standard deviation.
	scale time.Duration
}

// fitClock estimates offset and drift by medians, so that up to a third of
// wrong points has no effect. tolerance is the error that a right point may
// have.
func fitClock(pts []point, tolerance int64) fit {
	f := fit{n: len(pts)}
	if len(pts) == 0 {
		return f
	}
	slices.SortFunc(pts, func(a, b point) int { return cmp.Or(cmp.Compare(a.x, b.x), cmp.Compare(a.y, b.y)) })
	f.offset = medianOf(pts, func(p point) int64 { return p.y })
	f.ref = pts[len(pts)/2].x
	scale := f.spread(pts)
	if span := pts[len(pts)-1].x - pts[0].x; len(pts) >= fitDrift && span > 0 {
		g := fit{clock: clock{drift: slope(pts), ref: f.ref}, n: f.n}
		g.offset = medianOf(pts, func(p point) int64 { return p.x + p.y - g.toTrace(p.x) })
		bent := g.spread(pts)
		// A drift must explain more than an offset alone.
		moved := math.Abs(g.drift) * float64(span)
		if math.Abs(g.drift) <= maxDrift && moved > max(4*bent, 2000) && bent < 0.7*scale {
			f, scale = g, bent
		}
	}
	f.scale = time.Duration(scale)
	limit := max(float64(tolerance), 4*scale)
	for _, p := range pts {
		if math.Abs(float64(p.x+p.y-f.toTrace(p.x))) <= limit {
			f.inliers++
		}
	}
	return f
}

// spread returns the scaled median of the absolute residuals.
func (f *fit) spread(pts []point) float64 {
	return 1.4826 * float64(medianOf(pts, func(p point) int64 { return abs(p.x + p.y - f.toTrace(p.x)) }))
}

// slope returns the median of the slopes between all pairs of a sample
// (Theil-Sen).
func slope(pts []point) float64 {
	step := max(len(pts)/fitSample, 1)
	var slopes []float64
	for i := 0; i < len(pts); i += step {
		for j := i + step; j < len(pts); j += step {
			if dx := pts[j].x - pts[i].x; dx > 0 {
				slopes = append(slopes, float64(pts[j].y-pts[i].y)/float64(dx))
			}
		}
	}
	if len(slopes) == 0 {
		return 0
	}
	slices.Sort(slopes)
	return slopes[len(slopes)/2]
}

func medianOf(pts []point, of func(point) int64) int64 {
	v := make([]int64, len(pts))
	for i, p := range pts {
		v[i] = of(p)
	}
	return stats.MedianInt(v, 0)
}

func abs(v int64) int64 {
	if v < 0 {
		return -v
	}
	return v
}
