// Package meet matches the collectives that the ranks of a job recorded, and
// determines which ranks waited in them for which. Goodput accounting and the
// diagnosis both use it, so that their results agree.
//
// The n-th collective of a process group in a step of one rank is the n-th of
// that group in the same step of every other member. All members leave it
// together, and the one that entered last did not wait. So the shortest
// duration among the members is communication, and the rest of another member's
// duration is waiting, for the member with the shortest duration. Only
// durations are compared, never the clocks of two ranks.
package meet

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Group is a process group in the records of one rank.
type Group struct {
	Name string // empty: all ranks; or from Named
	Size int    // members, 0 if not recorded
	// SetUp marks the set-up of communication, in which all ranks wait for each
	// other. It is not a collective and is matched only with other set-ups.
	SetUp bool
}

// ofMember separates the name of a group from the number of its first member.
const ofMember = "\x00of rank "

// Named returns the name of the group that has this first member: other groups with the same
// recorded name have other members.
func Named(recorded string, first int) string { return recorded + ofMember + strconv.Itoa(first) }

// Recorded returns the recorded name of a group, without the first member that [Named] adds,
// which is -1 if unknown.
func Recorded(name string) (recorded string, first int) {
	recorded, member, _ := strings.Cut(name, ofMember)
	if first, err := strconv.Atoi(member); err == nil {
		return recorded, first
	}
	return recorded, -1
}

// Members are the ranks of one process group.
type Members struct {
	Group             // with its recorded name
	Ranks       []int // by index, in order
	Part, Parts int   // the number of this group among the groups with its name, and their number
	Guessed     bool  // the members of the groups with this name are not recorded
}

// Groups holds the numbered process groups of the ranks of one attempt.
type Groups struct {
	List   []Members
	Number [][]int // of each rank, for each group that it recorded: the index in List
}

// Strides has, by name, how far apart the members of groups that share the name are in
// the order of their ranks. Names that it does not have stand for neighbors.
type Strides map[string]int

// Correction is what the meetings of an attempt show about its records. The zero value
// changes nothing.
type Correction struct {
	// Clocks has, by rank, the nanoseconds to add to its clock. Ranks that it does not have
	// keep their clocks.
	Clocks  map[int]int64
	Strides Strides
}

// Corrections has the corrections of a job by attempt number. Attempts that it does not have
// are correct.
type Corrections map[int]Correction

// NumberGroups numbers the groups in the records of ranks, by name and first member. If more
// ranks use a name without a first member than the group has members, there are several groups
// with that name: the ranks in order are divided among them, with the given strides. Ranks
// without records, whose list is nil, have a place among them if all can then be divided
// evenly, or else if they can together with ranks whose list is empty: those that have records
// but no groups.
func NumberGroups(ranks [][]Group, strides Strides) *Groups {
	type key struct {
		name  string
		first int
		setUp bool
	}
	keyOf := func(g Group) key {
		name, first := Recorded(g.Name)
		return key{name, first, g.SetUp}
	}
	users, sizes := make(map[key][]int), make(map[key]int)
	var absent, idle []int // without records; these and those that recorded no groups
	for r, groups := range ranks {
		if groups == nil {
			absent = append(absent, r)
		}
		if len(groups) == 0 {
			idle = append(idle, r)
		}
		for _, g := range groups {
			k := keyOf(g)
			sizes[k] = max(sizes[k], g.Size)
			if n := len(users[k]); n == 0 || users[k][n-1] != r {
				users[k] = append(users[k], r)
			}
		}
	}
	out := &Groups{Number: make([][]int, len(ranks))}
	at := make(map[key]int, len(users))     // index in List
	partOf := make(map[key]func(i int) int) // by index in users: the number of the group among those of the name
	order := func(a, b key) int {
		if c := cmp.Compare(a.name, b.name); c != 0 || a.setUp == b.setUp {
			return cmp.Or(c, cmp.Compare(a.first, b.first))
		}
		if b.setUp {
			return -1
		}
		return 1
	}
	for _, k := range slices.SortedFunc(maps.Keys(users), order) {
		of, size, parts := users[k], sizes[k], 1
		if size > 0 && k.first < 0 {
			for _, more := range [...][]int{absent, idle} {
				if len(of) > size && (len(of)+len(more))%size == 0 {
					of = slices.Sorted(slices.Values(slices.Concat(of, more)))
					users[k] = of
					break
				}
			}
			if len(of) > size && len(of)%size == 0 {
				parts = len(of) / size
			}
		}
		at[k] = len(out.List)
		partOf[k] = func(i int) int { return i * parts / len(of) }
		if by := strides[k.name]; by > 1 && parts%by == 0 {
			partOf[k] = func(i int) int { return i/(by*size)*by + i%by }
		}
		for range parts {
			out.List = append(out.List, Members{Group: Group{Name: k.name, Size: size, SetUp: k.setUp}, Guessed: k.first < 0})
		}
		for i, r := range of {
			m := &out.List[at[k]+partOf[k](i)]
			m.Ranks = append(m.Ranks, r)
		}
	}
	for i := 0; i < len(out.List); {
		n := i + 1
		for n < len(out.List) && out.List[n].Name == out.List[i].Name && out.List[n].SetUp == out.List[i].SetUp {
			n++
		}
		for part := range n - i {
			out.List[i+part].Part, out.List[i+part].Parts = part, n-i
		}
		i = n
	}
	for r, groups := range ranks {
		for _, g := range groups {
			k := keyOf(g)
			i, _ := slices.BinarySearch(users[k], r)
			out.Number[r] = append(out.Number[r], at[k]+partOf[k](i))
		}
	}
	return out
}

// Expected returns the number of members of a meeting of the group in a job
// with that many ranks.
func (m *Members) Expected(ranks int) int {
	switch {
	case m.Name == "":
		return ranks
	case m.Size == 0:
		return len(m.Ranks)
	}
	return m.Size
}

// Meeting is one collective in the records of its members. The zero value has
// no members.
type Meeting struct {
	Members int   // number of members with a record
	Least   int64 // the shortest duration, which is communication
	Last    int   // the rank with it: the others waited for this one

	op     uint32
	latest int // the rank that was added last
	unsure bool
}

// Enter adds a member and its duration. op identifies the called collective, 0
// if unknown. Ranks are added in order.
func (m *Meeting) Enter(rank int, op uint32, took int64) {
	if m.Members == 0 || took < m.Least {
		m.Least, m.Last = took, rank
	}
	m.unsure = m.unsure || m.Members > 0 && (rank == m.latest || op != m.op)
	m.latest, m.op = rank, op
	m.Members++
}

// Wait returns how long a member with that duration waited for Last.
func (m *Meeting) Wait(took int64) int64 { return max(took-m.Least, 0) }

// IsWhole reports whether the expected number of members entered the same
// collective, each of them once. Otherwise records are missing, or a rank
// repeated a step, and the match is uncertain.
func (m *Meeting) IsWhole(expected int) bool { return m.Members == expected && !m.unsure }
