package ring

import "time"

// Parts of the layout, for rings that tests make by hand.
const (
	HeadSize   = headSize
	RegionSize = regionSize
	Magic      = magic
)

// SetSettle makes the reader wait as it does on processors other than amd64.
func (r *Ring) SetSettle(d time.Duration) { r.settle = d }
