package pytorch

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trainspan/trainspan/internal/identity"
	"github.com/trainspan/trainspan/internal/kineto"
	"github.com/trainspan/trainspan/internal/vocab"
)

// finish settles what could not be known before the end of the file, and returns
// what is wrong with the archive around it.
func (s *scanner) finish(in *kineto.Info) (cut error) {
	cut = s.report.fromInfo(in)
	s.counts.to(s.report.Counts)
	s.report.Foreign = !s.known && s.hasRows()
	s.nanos = in.FractionalTimes
	s.setBase(in)
	s.setIdentity(in)
	s.pid = s.lanes.finish()
	slices.SortStableFunc(s.steps, func(a, b step) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end))
	})
	s.dropTail()
	s.report.Steps = int64(len(s.steps))
	s.report.NamesRepaired = s.names.clean
	if !s.hasWindow && s.hasRows() {
		s.window = [2]int64{s.first, s.last}
	}
	return cut
}

// dropTail takes the step off that the profiler opened behind the last one.
func (s *scanner) dropTail() {
	n := len(s.steps) - 1
	var before []int64
	for _, st := range s.steps[:max(n, 0)] {
		before = append(before, st.end-st.start)
	}
	if n > 0 && vocab.IsTail(s.steps[n].end-s.steps[n].start, before) {
		s.tail, s.hasTail = s.steps[n], true
		s.steps = s.steps[:n]
	}
}

// setBase finds what has to be added to the times of the file.
func (s *scanner) setBase(in *kineto.Info) {
	r := s.report
	r.Era = in.Era()
	switch r.Era {
	case kineto.EraRelative:
		s.base = in.Base
		r.BaseSource = "baseTimeNanoseconds"
	case kineto.EraRelativeNoBase:
		stamp, source, ok := s.stamp()
		if !ok {
			r.warn("times are relative to a base that the file does not have, and neither its name nor its date tells it: times start in 1970")
			return
		}
		// The block in which the stamp lies, unless the trace would end after it.
		s.base = kineto.BaseFor(stamp)
		if s.base+in.MaxTS > stamp+int64(time.Hour) {
			s.base -= kineto.BaseBlockSeconds * int64(time.Second)
		}
		r.BaseSource = source
		r.guess("the time base was inferred from " + source)
	case kineto.EraProfilerClock:
		stamp, source, ok := s.stamp()
		if !ok {
			r.warn("times count from the start of the profiler and nothing anchors them: times start in 1970")
			return
		}
		s.base = stamp - in.MaxTS
		r.BaseSource = source
		r.guess("times count from the start of the profiler; the end of the trace was put at " + source)
	default:
		r.BaseSource = "absolute times"
	}
}

// stamp is about when the file was written, in nanoseconds, and what says so.
func (s *scanner) stamp() (ns int64, source string, ok bool) {
	if ns, ok := fileStamp(s.name); ok {
		return ns, "the time stamp in the file's name", true
	}
	if at := s.modTime; !at.IsZero() {
		return at.UnixNano(), "the file's modification time", true
	}
	return 0, "", false
}

// setIdentity reads rank, world, host and devices from the file.
func (s *scanner) setIdentity(in *kineto.Info) {
	r := s.report
	var id identity.Identity
	if raw, ok := in.Member("distributedInfo"); ok {
		d := kineto.Args(raw)
		for _, key := range [...]string{"rank", "world_size"} {
			if v, ok := d.Int(key); ok {
				id.Say(identity.Profile, key, strconv.FormatInt(v, 10))
			}
		}
		r.Backend, _ = d.Text("backend")
		s.comms.groupRanks = groupRanks(d)
	}
	if s.opts.Rank != nil {
		id.SayNumber(identity.Option, identity.Rank, *s.opts.Rank)
	}
	if rank := identity.RankInName(s.name); rank >= 0 {
		id.SayNumber(identity.Name, identity.Rank, int64(rank))
	}
	s.rank, s.world = int64(id.Rank.Or(-1)), int64(id.WorldSize.Or(-1))
	if from, known := id.From(identity.Rank); known {
		if r.RankSource = from.String(); from == identity.Name {
			r.guess("the rank was read from the file's name")
		}
	}
	if doubt := id.Doubt(); doubt != "" {
		r.warn("the " + doubt + " is said in two ways: distributedInfo counts first, then the caller, and the file's name last")
	}
	r.Rank, r.World = s.rank, s.world
	if raw, ok := in.Member("host_name"); ok {
		s.host, s.hostKnown = kineto.UnquoteText(raw), true
	}
	for _, key := range [...]string{"PT_PROFILER_JOB_NAME", "PT_PROFILER_JOB_VERSION", "PT_PROFILER_JOB_ATTEMPT_INDEX"} {
		if raw, ok := in.Member(key); ok {
			s.job += kineto.UnquoteText(raw) + "\x00"
		}
	}
	if raw, ok := in.Member("deviceProperties"); ok {
		kineto.Elements(raw, func(e []byte) bool {
			id, ok := kineto.Args(e).Int("id")
			name, _ := kineto.Args(e).Text("name")
			if ok && name != "" {
				s.deviceNames[id], _ = kineto.Clean([]byte(name))
			}
			return true
		})
	}
}

// groupRanks lists the ranks of the process groups that a file describes, by
// name. A name that stands for several groups is left out.
func groupRanks(info kineto.Args) map[string]string {
	out := map[string]string{}
	info.Each(func(key, raw []byte) bool {
		if string(key) != "pg_config" {
			return true
		}
		kineto.Elements(raw, func(e []byte) bool {
			name, ok := kineto.Args(e).Text("pg_name")
			ranks, have := kineto.Args(e).Raw("ranks")
			if !ok || !have {
				return true
			}
			text := membersKey(strings.Join(strings.Fields(strings.Trim(string(ranks), `"`)), ""))
			if held, twice := out[name]; twice && held != text {
				text = ""
			}
			out[name] = text
			return true
		})
		return false
	})
	return out
}
