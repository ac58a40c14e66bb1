//go:build !unix

package servers

import "os"

// mostMemory returns 0: unknown on this system.
func mostMemory(*os.ProcessState) int64 { return 0 }
