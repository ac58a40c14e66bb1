// Package identity determines the identity of a process (rank, world size,
// attempt, job) from programs, launchers and files: one table has their words,
// in the order of precedence.
package identity

import (
	"cmp"
	"hash/fnv"
	"os"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/attributes"
)

// Identity is the identity of a process, as far as evidence gives it. The zero
// Identity is unknown. The order in which evidence is added does not matter.
type Identity struct {
	// Rank, LocalRank and Attempt count from 0.
	Rank, LocalRank, WorldSize, Attempt attributes.Opt[int]
	// PID and Parent are the ids of the process and of its parent.
	PID, Parent attributes.Opt[int]

	Job     string // the launcher's job id
	Session string // the tag of all starts of a job
	Host    string // name of the node
	// Service and Instance are OpenTelemetry's names for the program and one start
	// of it, and Exec is the program's file.
	Service, Instance, Exec string

	// Bad counts impossible ranks, world sizes and attempts.
	Bad int

	by      [fields]strength // the evidence for each field
	differs [fields]bool     // other evidence gave another value
}

// strength orders evidence by its source and by its place in the row of the
// table: less is stronger, 0 means no evidence.
type strength uint16

// Say adds the value that a source has for a key. Keys that are not in the
// table are ignored.
func (id *Identity) Say(from Source, key, value string) {
	for f := range fields {
		for i, k := range table[f][from] {
			if k == key {
				id.say(f, strength(from+1)<<8|strength(i), value)
			}
		}
	}
}

// FromResource reads the attributes of a resource. value returns the text of an
// attribute, or "".
func FromResource(value func(key string) string) Identity {
	var id Identity
	for f := range fields {
		for i, key := range table[f][Resource] {
			id.say(f, strength(Resource+1)<<8|strength(i), value(key))
		}
	}
	return id
}

// SayNumber is like Say for a number without a key in the table.
func (id *Identity) SayNumber(from Source, f Field, n int64) {
	id.take(f, strength(from+1)<<8, n)
}

func (id *Identity) say(f Field, by strength, value string) {
	if to := id.text(f); to != nil {
		if value != "" && id.wins(f, by, strings.Compare(value, *to)) {
			*to = value
		}
		return
	}
	if n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64); err == nil {
		id.take(f, by, n)
	}
}

func (id *Identity) take(f Field, by strength, n int64) {
	switch {
	case f == PID || f == Parent:
		if n < 1 || n > 1<<53 {
			return
		}
	case f == WorldSize && n == 0: // the program does not know it
		return
	case n < 0 || n >= MaxRanks:
		id.Bad++
		return
	}
	to := id.number(f)
	if id.wins(f, by, f.compare(int(n), to.Get())) {
		*to = attributes.Some(int(n))
	}
}

// Add adds evidence about the same process from another Identity.
func (id *Identity) Add(o *Identity) {
	for f := range fields {
		if to := id.text(f); to != nil {
			if from := *o.text(f); o.by[f] != 0 && id.wins(f, o.by[f], strings.Compare(from, *to)) {
				*to = from
			}
		} else if to, from := id.number(f), *o.number(f); o.by[f] != 0 && id.wins(f, o.by[f], f.compare(from.Get(), to.Get())) {
			*to = from
		}
		id.differs[f] = id.differs[f] || o.differs[f]
	}
	id.Bad += o.Bad
}

// compare orders numbers with equal evidence: the lower rank and the larger
// world size count.
func (f Field) compare(a, b int) int {
	if f == WorldSize {
		a, b = b, a
	}
	return cmp.Compare(a, b)
}

// wins reports whether a value replaces that of f: if its evidence is stronger
// or, with equal evidence, its value comes first.
func (id *Identity) wins(f Field, by strength, after int) bool {
	have := id.by[f]
	id.differs[f] = id.differs[f] || have != 0 && after != 0
	if have != 0 && (by > have || by == have && after >= 0) {
		return false
	}
	id.by[f] = by
	return true
}

func (id *Identity) number(f Field) *attributes.Opt[int] {
	return [...]*attributes.Opt[int]{&id.Rank, &id.LocalRank, &id.WorldSize, &id.Attempt, &id.PID, &id.Parent}[f]
}

func (id *Identity) text(f Field) *string {
	if f < Job {
		return nil
	}
	return [...]*string{&id.Job, &id.Session, &id.Host, &id.Service, &id.Instance, &id.Exec}[f-Job]
}

// From returns the source of a field, and whether it has one.
func (id *Identity) From(f Field) (Source, bool) {
	return Source(id.by[f]>>8) - 1, id.by[f] != 0
}

// Doubt returns the first of rank, world size and attempt on which evidence
// disagrees, or that contradicts another; empty if there is none.
func (id *Identity) Doubt() string {
	for _, f := range [...]Field{Rank, WorldSize, Attempt} {
		if id.differs[f] {
			return f.String()
		}
	}
	if id.Rank.IsSet() && id.WorldSize.IsSet() && id.Rank.Get() >= id.WorldSize.Get() {
		return WorldSize.String()
	}
	return ""
}

// Instead returns a substitute process id for a process of a host that has
// none: made of its other fields, and above any real id.
func (id *Identity) Instead(host string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(host + "\x00" + id.Service + "\x00" + id.Instance + "\x00" + strconv.Itoa(id.Rank.Or(-1))))
	return int(h.Sum32()&0x3fffffff) | 0x40000000
}

// UnknownHost replaces an unknown host name.
const UnknownHost = "unknown-host"

// HostName returns the name of this machine.
func HostName() string {
	host, _ := os.Hostname() // empty if it fails
	return cmp.Or(host, UnknownHost)
}

// HostOf returns a substitute host name for a process of an unknown host, made
// of its rank.
func HostOf(rank int64) string {
	if rank < 0 {
		return UnknownHost
	}
	return "rank" + strconv.FormatInt(rank, 10) + "@" + UnknownHost
}

// IsKnown reports whether a host name is not empty and no substitute.
func IsKnown(host string) bool { return host != "" && !strings.HasSuffix(host, UnknownHost) }

// Version is this library's version in records.
const Version = "0.1.0"
