package rundir

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"github.com/trainspan/trainspan/config"
)

// Started says which start a process belongs to, for Wanted, by what its launcher
// says. Where that gave ranks and no id of the job, as torchrun does, all that have
// the same parent on this node belong together. start is empty where nothing says
// that there is a launcher.
func Started(ranks *config.Ranks, host string, parent int) (start, member string) {
	start = ranks.Run
	if start == "" {
		if parent <= 1 || !ranks.Rank.IsSet() && !ranks.LocalRank.IsSet() {
			return "", ""
		}
		began := began(parent)
		if began == "" {
			return "", ""
		}
		start = fmt.Sprintf("%s/%d/%s", host, parent, began)
		member = fmt.Sprintf("rank%d", ranks.Rank.Or(ranks.LocalRank.Or(0)))
	}
	return start + "/" + strconv.Itoa(ranks.Attempt.Or(0)), member
}

// began is when a process was started, in the system's clock ticks since boot,
// empty where that is not known. With its number it tells processes apart.
func began(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The name of the program stands in brackets and may hold anything.
	fields := bytes.Fields(text[max(bytes.LastIndexByte(text, ')'), 0):])
	if len(fields) < 21 {
		return ""
	}
	return string(fields[20])
}
