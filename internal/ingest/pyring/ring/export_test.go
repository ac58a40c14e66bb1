package ring

import "time"

// SetSettle makes the reader wait as on processors other than amd64.
func (r *Ring) SetSettle(d time.Duration) { r.settle = d }
