package nest

// Interval is an interval of time, its end excluded.
type Interval struct{ Start, End int64 }

// Union appends what two lists cover to dst, as intervals that lie apart: those
// that touch become one, also with the last of dst. Each list is in the order of
// starts. The first may lie in the memory of dst.
func Union(dst, a, b []Interval) []Interval {
	for i, j := 0, 0; i < len(a) || j < len(b); {
		var next Interval
		if j == len(b) || i < len(a) && a[i].Start <= b[j].Start {
			next, i = a[i], i+1
		} else {
			next, j = b[j], j+1
		}
		if n := len(dst); n > 0 && next.Start <= dst[n-1].End {
			dst[n-1].End = max(dst[n-1].End, next.End)
			continue
		}
		dst = append(dst, next)
	}
	return dst
}

// Intersection appends what two lists share to dst. The intervals of each list are in
// order and apart.
func Intersection(dst, a, b []Interval) []Interval {
	for i, j := 0, 0; i < len(a) && j < len(b); {
		if from, to := max(a[i].Start, b[j].Start), min(a[i].End, b[j].End); from < to {
			dst = append(dst, Interval{Start: from, End: to})
		}
		if a[i].End < b[j].End {
			i++
		} else {
			j++
		}
	}
	return dst
}

// Length is that of all intervals of a list.
func Length(list []Interval) (sum int64) {
	for _, x := range list {
		sum += x.End - x.Start
	}
	return sum
}
