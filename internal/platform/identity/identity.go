// Package identity says who a process is: one table of the words in which
// programs, launchers and files say it, in the order in which they count.
package identity

import (
	"cmp"
	"hash/fnv"
	"os"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/attributes"
)

// Identity is who a process is, as far as evidence says it. The zero Identity knows
// nothing. What is said in any order gives the same Identity.
type Identity struct {
	// Rank and LocalRank count from 0, and so does Attempt, as launchers count.
	Rank, LocalRank, WorldSize, Attempt attributes.Opt[int]
	// PID and Parent are the numbers of the process and of the one that started it.
	PID, Parent attributes.Opt[int]

	Job     string // id at the launcher
	Session string // tag of all starts of a job
	Host    string // name of the node
	// Service and Instance are what OpenTelemetry calls the program and one start
	// of it, and Exec is the program's file.
	Service, Instance, Exec string

	// Bad counts the ranks, world sizes and attempts that were said and cannot be.
	Bad int

	by      [fields]strength // of what said each field
	differs [fields]bool     // something else was said as well
}

// strength orders evidence by its source and by its place in the row of the
// table: less is stronger, 0 is none.
type strength uint16

// Say takes what a source says under a key. A key that the table does not have
// says nothing.
func (id *Identity) Say(from Source, key, value string) {
	for f := range fields {
		for i, k := range table[f][from] {
			if k == key {
				id.say(f, strength(from+1)<<8|strength(i), value)
			}
		}
	}
}

// FromResource reads the attributes of a resource. value gives the text of one,
// empty where it is not there.
func FromResource(value func(key string) string) Identity {
	var id Identity
	for f := range fields {
		for i, key := range table[f][Resource] {
			id.say(f, strength(Resource+1)<<8|strength(i), value(key))
		}
	}
	return id
}

// SayNumber is Say for a number that the source calls by no name of the table.
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
	case f == WorldSize && n == 0: // of a program that does not know it
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

// Add takes what was said of the same process elsewhere.
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

// compare orders numbers that are said by equal evidence: of ranks the lower one
// counts, of worlds the larger.
func (f Field) compare(a, b int) int {
	if f == WorldSize {
		a, b = b, a
	}
	return cmp.Compare(a, b)
}

// wins reports whether a value takes the place of the one that f has: where it is
// stronger or, of equal evidence, comes before it in the order of values.
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

// From returns what said a field, and whether anything did.
func (id *Identity) From(f Field) (Source, bool) {
	return Source(id.by[f]>>8) - 1, id.by[f] != 0
}

// Doubt names the first of rank, world size and attempt on which evidence
// disagrees, or that cannot be beside another; empty where there is none.
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

// Instead returns a process id for a process of a host that says none: made of what else
// is said, and above any real one.
func (id *Identity) Instead(host string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(host + "\x00" + id.Service + "\x00" + id.Instance + "\x00" + strconv.Itoa(id.Rank.Or(-1))))
	return int(h.Sum32()&0x3fffffff) | 0x40000000
}

// UnknownHost stands for the name of a host that nothing says.
const UnknownHost = "unknown-host"

// HostName returns the name of this machine.
func HostName() string {
	host, _ := os.Hostname() // empty where it fails
	return cmp.Or(host, UnknownHost)
}

// HostOf stands for the host of a process that only its rank tells from others
// whose hosts are unknown as well.
func HostOf(rank int64) string {
	if rank < 0 {
		return UnknownHost
	}
	return "rank" + strconv.FormatInt(rank, 10) + "@" + UnknownHost
}

// Version is the version of this library as records report it.
const Version = "0.1.0"
