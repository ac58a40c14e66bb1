package main

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	runs "github.com/trainspan/trainspan/analysis/run"
	"github.com/trainspan/trainspan/dftracer"
)

// noFlush keeps the writer of a conversion from cutting small members: there
// is nobody who would wait for the lines.
const noFlush = time.Hour

// survey is what a first pass finds out about a trace that is written anew.
type survey struct {
	path    string
	filter  *filter // what of it is asked for; nil is everything
	hashes  *dftracer.Hashes
	dialect dftracer.Dialect
	host    string // hash in the first record
	maxID   uint64
	facts   int
	events  int64
	procs   map[procKey]bool
	ranks   map[procKey]string

	first      procKey // the process of the first record
	rankByName bool    // only the name of the file says the rank

	eventCounts map[uint64]int32 // of the spans that have events
	start       dftracer.Event
	startTime   int64
	endTime     int64
}

// survey reads a trace once and tells what is wrong with it.
func (a *app) survey(ctx context.Context, path string, q *filter, bar *progress) (*survey, error) {
	s := &survey{path: path, procs: make(map[procKey]bool), ranks: make(map[procKey]string)}
	if !q.all() {
		s.filter = q
	}
	st, hashes, err := a.scan(ctx, path, bar, func(ev *dftracer.Event) error {
		if s.filter != nil && !q.has(path, ev) {
			return nil
		}
		s.note(ev)
		return nil
	})
	s.hashes, s.dialect = hashes, st.Dialect
	if rank := runs.RankOf(path); rank >= 0 && len(s.ranks) == 0 {
		s.ranks[s.first], s.rankByName = strconv.Itoa(rank), true
	}
	return s, err
}

func (s *survey) note(ev *dftracer.Event) {
	if s.host == "" {
		s.host = ev.HostHash
	}
	if s.facts+int(s.events) == 0 {
		s.first = s.key(ev)
	}
	s.maxID = max(s.maxID, ev.ID)
	if ev.Phase == dftracer.PhaseMetadata {
		s.facts++
		if id, _, _, ok := eventOf(ev); ok && (len(s.eventCounts) < maxEventSpans || s.eventCounts[id] > 0) {
			if s.eventCounts == nil {
				s.eventCounts = make(map[uint64]int32)
			}
			s.eventCounts[id]++
		}
		if key, value := ev.Meta(); ev.Name == dftracer.NameProcess && key == "rank" {
			s.ranks[s.key(ev)] = value
		}
		return
	}
	s.events++
	if ev.Cat == dftracer.CatDFTracer && ev.Name == dftracer.NameStart && s.start.Name == "" {
		s.start = *ev
		s.start.Args = slices.Clone(ev.Args)
	}
	if ev.Cat != dftracer.CatDFTracer {
		s.procs[s.key(ev)] = true
	}
	if s.startTime == 0 || ev.TS < s.startTime {
		s.startTime = ev.TS
	}
	s.endTime = max(s.endTime, ev.End())
}

// key returns the process of an event.
func (s *survey) key(ev *dftracer.Event) procKey {
	if ev.HostHash == "" {
		return procKey{s.host, ev.PID}
	}
	return procKey{ev.HostHash, ev.PID}
}

// hostName returns the name behind the hash of a host.
func (s *survey) hostName(hash string) string {
	if name, ok := s.hashes.Host(hash); ok {
		return name
	}
	return "unknown-host"
}

// process returns who the trace is about.
func (s *survey) process() dftracer.Process {
	str := func(key string) string {
		arg, _ := s.start.Arg(key)
		if name, ok := s.hashes.String(arg.Text()); ok {
			return name
		}
		if name, ok := s.hashes.File(arg.Text()); ok {
			return name
		}
		return "unknown"
	}
	ppid, _ := s.start.Arg("ppid")
	p := dftracer.Process{PID: int(s.start.PID), PPID: max(int(ppid.Int64()), 1), Host: s.hostName(s.host),
		Exec: str("exec_hash"), Command: str("cmd_hash"), Dir: str("cwd")}
	if p.PID == 0 {
		for key := range s.procs {
			if p.PID == 0 || int(key.pid) < p.PID {
				p.PID = int(key.pid)
			}
		}
	}
	return p
}

// clock gives the framing of a rewritten trace the times of the original.
type clock struct{ us atomic.Int64 }

func (c *clock) now() time.Time { return time.UnixMicro(c.us.Load()) }
