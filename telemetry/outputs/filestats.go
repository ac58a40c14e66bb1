package outputs

import "time"

// FileStats is what a writer of telemetry files has done so far. All counts
// only grow.
type FileStats struct {
	Output  string        // what the file is: "trace" or "records"
	Records int64         // lines written, or waiting for the disk
	Bytes   int64         // in the file
	Lost    int64         // lines that are missing in the file
	Errors  int64         // failures of the disk
	Outages int64         // times the file failed or stalled
	Blocked time.Duration // how long the program waited for the disk
}
