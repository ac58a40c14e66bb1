package place

import (
	"cmp"
	"path/filepath"
	"strings"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/platform/identity"
)

// Sender identifies a process that sends spans. It is comparable.
type Sender struct {
	Host, Service, Instance string

	PID  int
	Rank int // -1 means unknown
	// MadeUp reports that PID is unknown and was derived from the other fields.
	MadeUp bool
}

// SharedSender is the sender of the spans of all processes beyond the limit.
var SharedSender = Sender{Host: "shared", Service: "shared", PID: 0x7fffffff, Rank: -1}

// SenderOf returns the sender that a resource describes. host and pid are used if the
// resource does not have them; empty and 0 mean unknown.
func SenderOf(id *identity.Identity, host string, pid int) Sender {
	s := Sender{Host: Bounded(cmp.Or(id.Host, host, identity.UnknownHost)), Service: Bounded(id.Service), Instance: Bounded(id.Instance),
		PID: id.PID.Or(pid), Rank: id.Rank.Or(-1)}
	if s.MadeUp = s.PID <= 0; s.MadeUp {
		s.PID = id.Instead(s.Host)
	}
	return s
}

// Unknown is the name of a service that the resource does not name.
const Unknown = "unknown"

// Trace fills in the process and job of s in the options of its file. Existing values
// are used if the resource has none. It records only the program of the command line,
// because arguments can contain secrets.
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

// Arguments appends the arguments that identify the sender of a span, for a file that
// several senders share.
func (s *Sender) Arguments(dst []dftracer.Arg) []dftracer.Arg {
	dst = append(dst, dftracer.String("resource.host", s.Host), dftracer.Int("resource.pid", int64(s.PID)))
	if s.Rank >= 0 {
		dst = append(dst, dftracer.Int("resource.rank", int64(s.Rank)))
	}
	return dst
}

// MaxText bounds each text from a sender, in bytes. No line of a trace is longer.
const MaxText = 16 << 10

// Bounded returns the first MaxText bytes of s. It returns a copy if s is longer.
func Bounded(s string) string {
	if len(s) <= MaxText {
		return s
	}
	return strings.Clone(s[:MaxText])
}

// SafeName returns a text from a sender as a safe part of a file name.
func SafeName(s string) string { return cmp.Or(fswrite.SafeName(s, 100), Unknown) }
