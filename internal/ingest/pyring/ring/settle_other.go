//go:build !amd64

package ring

import "time"

// settle is how long after its last word a slot is read. Processors such as
// arm64 may show that word to another process before the rest of the slot; a
// stored word stays in the processor for nanoseconds.
const settle = 50 * time.Microsecond
