package run

import (
	"cmp"
	"strconv"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/dft"
	"github.com/trainspan/trainspan/internal/identity"
	"github.com/trainspan/trainspan/spans"
)

// MaxRanks bounds ranks, world sizes and attempts: a number from it on is none.
const MaxRanks = identity.MaxRanks

// hear takes what an event of a trace says of its process.
func (p *Process) hear(ev *dftracer.Event) {
	switch {
	case ev.Phase == dftracer.PhaseMetadata:
		key, value := ev.Meta()
		switch _, at := ev.Arg(argSpan); {
		case ev.Name == dft.NameProcess && key == argRank:
			p.say(identity.Record, key, value)
		case ev.Name == dft.NameCustom && key == spans.EventOneLoggerInitialization:
			p.arguments(identity.Event, ev)
		case ev.Name == dft.NameCustom && !at && key != argRank: // which is that of PR
			p.say(identity.Record, key, value)
		}
	case ev.Cat == dftracer.CatDFTracer && ev.Name == dft.NameStart:
		p.arguments(identity.Start, ev)
	}
}

func (p *Process) arguments(from identity.Source, ev *dftracer.Event) {
	for i := range ev.Args {
		p.say(from, ev.Args[i].Key, ev.Args[i].Text())
	}
}

// attributes takes what the attributes of an event of JSON lines say.
func (p *Process) attributes(all arguments) {
	for _, a := range all {
		switch n, whole := dft.Whole(a); {
		case dft.KindOf(a) == dft.KindString:
			p.say(identity.Event, a.Key, a.Text())
		case whole:
			p.say(identity.Event, a.Key, strconv.FormatInt(n, 10))
		}
	}
}

func (p *Process) say(from identity.Source, key, value string) {
	p.who.Say(from, key, value)
	p.known()
}

func (p *Process) sayNumber(from identity.Source, f identity.Field, n int) {
	p.who.SayNumber(from, f, int64(n))
	p.known()
}

// named takes what the name of its file says of a process.
func (p *Process) named(path string) {
	if rank := identity.RankInName(path); rank >= 0 {
		p.sayNumber(identity.Name, identity.Rank, rank)
	}
}

// known tells what the evidence so far says. Recorded attempts count from 0.
func (p *Process) known() {
	id := p.who
	p.Rank, p.RankKnown = id.Rank.Get(), id.Rank.IsSet()
	if p.AttemptKnown = id.Attempt.IsSet(); p.AttemptKnown {
		p.Attempt = id.Attempt.Get() + 1
		p.recorded = p.Attempt
	}
	p.WorldSize, p.ParentPID = id.WorldSize.Get(), int64(id.Parent.Get())
	p.Host, p.JobID, p.SessionTag = cmp.Or(id.Host, p.Host), id.Job, id.Session
	p.BadNumbers, p.Doubt = id.Bad, id.Doubt()
}
