//go:build !unix

package growth

import "time"

var began = time.Now()

func cpu() time.Duration { return time.Since(began) }
