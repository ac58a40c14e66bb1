package rundir

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/environ"
	"github.com/trainspan/trainspan/internal/identity"
)

// Under fills in which start of the job a process belongs to, as far as nothing does:
// by what its launcher says and, where somebody has said it, by the number of the
// attempt. That number with an id beside it is counted by a launcher, as labels of
// Kubernetes say it, and not by us: another job of the same name counts as well.
func (w *Wanted) Under(ranks *config.Ranks, parent int, lookup func(string) (string, bool)) {
	said := func(name string) bool { text, _ := lookup(name); return text != "" }
	w.Start, w.Member = Started(ranks, w.Host, parent)
	w.Least = ranks.Attempt.Or(0)
	if w.Attempt < 0 && said(identity.Word(identity.Attempt, identity.Environment)) && (said(environ.Run) || !said(identity.Word(identity.Job, identity.Environment))) {
		w.Attempt = ranks.Attempt.Or(-1)
	}
}

// Started says which start a process belongs to, for Wanted, by what its launcher
// says. Where that gave ranks and no id of the job, as torchrun does, all that have
// the same parent on this node belong together. start is empty where nothing says
// that there is a launcher. A world of another size is another start: torchrun does
// not count those that it makes when nodes come and go.
func Started(ranks *config.Ranks, host string, parent int) (start, member string) {
	start = ranks.Run
	if start != "" {
		if ranks.Rank.IsSet() {
			member = fmt.Sprintf("rank%d", ranks.Rank.Get())
		}
	} else {
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
	start += "/" + strconv.Itoa(ranks.Attempt.Or(0))
	if n := ranks.WorldSize.Or(0); n > 0 {
		start += "/" + strconv.Itoa(n)
	}
	return start, member
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
