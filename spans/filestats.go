package spans

import "time"

// FileStats is what a writer of telemetry files has done so far. All counts
// only grow. A span processor or native exporter with a method
//
//	FileStats() spans.FileStats
//
// that is safe for concurrent use has its counts reported as metrics by
// package telemetry.
type FileStats struct {
	Output  string        // what the file is: "trace" or "records"
	Records int64         // lines written, or waiting for the disk
	Bytes   int64         // in the file
	Lost    int64         // lines that are missing in the file
	Errors  int64         // failures of the disk
	Blocked time.Duration // how long the program waited for the disk
}
