//go:build !unix

package servers

import "os"

// mostMemory is not known here.
func mostMemory(*os.ProcessState) int64 { return 0 }
