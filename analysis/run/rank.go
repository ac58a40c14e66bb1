package run

// RankOf returns the rank that the name of a file says, such as trace-3-of-8.pfw.gz
// or telemetry-rank3.jsonl, and -1 when it says none. It is that of the process
// that wrote the file, where no record says otherwise.
func RankOf(path string) int { return rankOf(path) }
