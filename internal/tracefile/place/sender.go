package place

import (
	"cmp"
	"path/filepath"
	"strings"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/platform/identity"
)

// Sender is a process that sends spans. It is comparable.
type Sender struct {
	Host, Service, Instance string

	PID  int
	Rank int // -1 is unknown
	// MadeUp says that nothing gave PID, which is made of the rest then.
	MadeUp bool
}

// SharedSender is who the spans of processes are of that are one too many.
var SharedSender = Sender{Host: "shared", Service: "shared", PID: 0x7fffffff, Rank: -1}

// SenderOf is the sender that a resource describes. host and pid stand for what it
// does not say; empty and 0 are unknown.
func SenderOf(id *identity.Identity, host string, pid int) Sender {
	s := Sender{Host: Bounded(cmp.Or(id.Host, host, identity.UnknownHost)), Service: Bounded(id.Service), Instance: Bounded(id.Instance),
		PID: id.PID.Or(pid), Rank: id.Rank.Or(-1)}
	if s.MadeUp = s.PID <= 0; s.MadeUp {
		s.PID = id.Instead(s.Host)
	}
	return s
}

// Unknown stands for a service that a resource does not name.
const Unknown = "unknown"

// Trace fills in what the options of the file of s say of the process and its job.
// What they have counts where the resource does not say it. Of the command line
// there is the program alone: what follows it can hold secrets.
func (s *Sender) Trace(o *dftracer.Options, id *identity.Identity) {
	exec := filepath.Base(cmp.Or(Bounded(id.Exec), s.Service, Unknown))
	p := &o.Process
	p.PID, p.PPID, p.Host = s.PID, id.Parent.Or(1), s.Host
	p.Exec, p.Command, p.Dir = exec, cmp.Or(p.Command, exec), cmp.Or(p.Dir, "/")
	if s.Rank >= 0 {
		p.Rank = &s.Rank
	}
	if id.Attempt.IsSet() {
		attempt := id.Attempt.Get()
		p.Attempt = &attempt
	}
	p.SessionTag, p.JobID = cmp.Or(Bounded(id.Session), p.SessionTag), cmp.Or(Bounded(id.Job), p.JobID)
}

// Arguments appends whose a span is, where its file does not say that.
func (s *Sender) Arguments(dst []dftracer.Arg) []dftracer.Arg {
	dst = append(dst, dftracer.String("resource.host", s.Host), dftracer.Int("resource.pid", int64(s.PID)))
	if s.Rank >= 0 {
		dst = append(dst, dftracer.Int("resource.rank", int64(s.Rank)))
	}
	return dst
}

// MaxText bounds a text that is kept of what a sender says; no line of a trace is
// longer.
const MaxText = 16 << 10

// Bounded is a text up to MaxText, as a copy where it is longer.
func Bounded(s string) string {
	if len(s) <= MaxText {
		return s
	}
	return strings.Clone(s[:MaxText])
}

// SafeName makes a part of a file name of what a sender says.
func SafeName(s string) string { return cmp.Or(fswrite.SafeName(s, 100), Unknown) }
