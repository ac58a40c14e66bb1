package report

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/hang"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/fsread"
)

// takeEvidence reads the stack dumps and flight recorder dumps among the skipped files of a
// set. A file that cannot be read remains skipped, with the reason.
func takeEvidence(set *job.Set) (out []*hang.File) {
	for i, f := range set.Skipped {
		if !errors.Is(f.Err, job.ErrForeign) || len(out) == maxOthers {
			continue
		}
		if kind, err := fsread.KindOf(f.Path); err != nil || kind != fsread.FlightDump && kind != fsread.Stacks {
			continue
		}
		if e, err := hang.Read(f.Path); err != nil {
			set.Skipped[i] = &job.FileError{Path: f.Path, Err: err}
		} else {
			out = append(out, e)
		}
	}
	set.Skipped = slices.DeleteFunc(set.Skipped, func(f *job.FileError) bool {
		return slices.ContainsFunc(out, func(e *hang.File) bool { return e.Path == f.Path })
	})
	return out
}

// uniqueOthers returns the files of several parts without duplicates, in an order that does
// not depend on the parts.
func uniqueOthers(all []*hang.File) []*hang.File {
	text := make(map[*hang.File]string, len(all))
	for _, f := range all {
		b, _ := json.Marshal(f) // cannot fail
		text[f] = string(b)
	}
	out := slices.Clone(all)
	slices.SortFunc(out, func(a, b *hang.File) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(text[a], text[b]))
	})
	out = slices.CompactFunc(out, func(a, b *hang.File) bool { return text[a] == text[b] })
	return out[:min(len(out), maxOthers)]
}

const (
	maxOthers = 4096
	// dumpedWithin is how long after the last record a dump may be written: a watchdog waits
	// before it writes one.
	dumpedWithin = time.Hour
	quotedRanks  = 3
)

// readEvidence adds the evidence of other programs to the hangs of attempts. It takes the
// missing ranks from them only if the records do not show these.
func (r *Report) readEvidence(j *Job) {
	for i := range r.Attempts {
		a := &r.Attempts[i]
		v := a.Straggler
		if v == nil || v.Kind != finding.Hang {
			continue
		}
		until := a.Stop + int64(dumpedWithin)
		if i+1 < len(r.Attempts) {
			until = min(until, r.Attempts[i+1].Start)
		}
		var procs []*job.Process
		for _, p := range j.Job.Processes {
			if p.Attempt == a.Number {
				procs = append(procs, p)
			}
		}
		var dumps []*hang.Dump
		var stacks []*hang.File
		for _, f := range j.others {
			switch {
			case f.At < a.Start || f.At > until:
			case f.Dump != nil:
				dumps = append(dumps, f.Dump)
			default:
				stacks = append(stacks, f)
			}
		}
		if m := hang.Meet(dumps); m != nil {
			if len(v.Ranks) == 0 && len(m.Ranks) > 0 {
				v.Blame(m.Ranks, hostsIn(procs, m.Ranks), m.Mismatch, m.Text)
			}
			v.Witness = append(v.Witness, "PyTorch's flight recorder: "+m.Text)
		}
		of := v.Ranks
		if len(of) == 0 { // all ranks wait: show where
			for _, p := range procs {
				of = append(of, p.Rank)
			}
			slices.Sort(of)
			of = slices.Compact(of)
		}
		for _, rank := range of[:min(len(of), quotedRanks)] {
			if s, at := stackOf(rank, procs, stacks); s != nil {
				from := straggler.Stack{Rank: rank, Place: s.Place, Function: s.Function, From: s.From, At: at, Frames: s.Frames}
				if waited := at - waiting(v, procs); waited > 0 {
					from.After = float64(waited) / 1e6
				}
				v.Stacks = append(v.Stacks, from)
			}
		}
		v.Render()
	}
}

// waiting returns when the wait of a hang began, as far as the records show.
func waiting(v *straggler.Verdict, procs []*job.Process) int64 {
	seen := int64(0)
	for _, p := range procs {
		seen = max(seen, p.LastSeen)
	}
	if v.Evidence == nil {
		return seen
	}
	return seen - int64(v.Evidence.Waited*1e6)
}

// stackOf returns the newest stack of a rank and when it was taken, or nil.
func stackOf(rank int, procs []*job.Process, files []*hang.File) (out *hang.Stack, newest int64) {
	for _, f := range files {
		for i := range f.Stacks {
			if s := &f.Stacks[i]; rankOf(s, f, procs) == rank && (out == nil || f.At > newest) {
				out, newest = s, f.At
			}
		}
	}
	return out, newest
}

// rankOf returns the rank of a stack, or -1 if unknown. The name of the file comes first: in
// containers all ranks may have the same process id. Such an id alone shows no rank.
func rankOf(s *hang.Stack, f *hang.File, procs []*job.Process) int {
	if f.Rank >= 0 && len(f.Stacks) == 1 {
		return f.Rank
	}
	rank := -1
	for _, p := range procs {
		if s.PID != 0 && s.PID == p.PID || s.PID == 0 && f.Rank < 0 && slices.Contains(f.PIDs, p.PID) {
			if rank >= 0 && rank != p.Rank {
				return -1
			}
			rank = p.Rank
		}
	}
	return rank
}

// stackSentence describes where a hanging rank is, or was if the job has ended.
func (r *Report) stackSentence(s *straggler.Stack) string {
	is := "was"
	if n := len(r.Attempts); n > 0 && r.Attempts[n-1].Running {
		is = "is"
	}
	text := fmt.Sprintf("rank %d %s in %s (%s)", s.Rank, is, s.Place, s.Function)
	if s.After > 0 {
		text += " after " + display.Duration(int64(s.After*1e6))
	}
	return text + ", by " + s.From
}

func hostsIn(procs []*job.Process, ranks []int) (out []string) {
	for _, p := range procs {
		if host := p.KnownHost(); slices.Contains(ranks, p.Rank) && host != "" && !slices.Contains(out, host) {
			out = append(out, host)
		}
	}
	return out
}
