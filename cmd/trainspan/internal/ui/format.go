package ui

import "time"

// Moment writes a time of microseconds since the Unix epoch.
func Moment(us int64) string {
	return time.UnixMicro(us).UTC().Format("2006-01-02 15:04:05.000 UTC")
}
