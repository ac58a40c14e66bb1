package vocab

import (
	"strings"

	"github.com/trainspan/trainspan/spans"
)

// byEvent finds the standard spans by their names in a trace file.
var byEvent = func() map[[2]string]int {
	m := make(map[[2]string]int, spans.Count)
	for i, info := range spans.All() {
		m[[2]string{info.Category, info.Event}] = i
	}
	return m
}()

// indexOf returns the index of the standard span that has that category and name in
// a trace file, or -1.
func indexOf(category, event string) int {
	if i, ok := byEvent[[2]string{strings.ToLower(category), event}]; ok {
		return i
	}
	return -1
}

// ByEvent finds the standard span that has that category and name in a trace
// file. The case of the category does not matter.
func ByEvent(category, event string) (info spans.Info, ok bool) {
	if i := indexOf(category, event); i >= 0 {
		return spans.At(i), true
	}
	return spans.Info{}, false
}

// meanings has the meaning of each standard span by its [spans.Index].
var meanings = func() (all [spans.Count]Meaning) {
	for i, info := range spans.All() {
		m := byRule(info.Category, info.Event)
		m.Name, m.Holds = info.Name, info.Long
		if m.Class == ClassStartUp {
			m.Kind = info.Event
		}
		all[i] = m
	}
	return all
}()

// Standard returns the meaning of the standard span of a [spans.Index]. It must not
// be changed.
func Standard(index int) *Meaning { return &meanings[index] }

// Of returns the meaning of a span by its category and name in a trace file. The
// case of the category does not matter. A span of JSON lines, which has no
// category, has the empty one and is looked up by its standard name.
//
// It is meant to be asked once for each name: it goes through a table.
func Of(category, event string) Meaning {
	i := indexOf(category, event)
	if i < 0 && category == "" {
		i = spans.Index(event)
	}
	if i >= 0 {
		return meanings[i]
	}
	m := byRule(strings.ToLower(category), event)
	if m.Class == ClassCollective || m.For == ClassCollective {
		m.Kind = CollectiveKind(event)
	}
	return m
}

// OnDevice returns the meaning of a row of a device in an imported profile by its
// arguments: the kind that the profiler gives it, the class that the import found,
// and whether it is marked as a collective's. ok is false for other rows.
func OnDevice(kind, class, name string, collective bool) (m Meaning, ok bool) {
	switch kind {
	case "kernel", "gpu_memcpy", "gpu_memset":
		m = byRule(kind, name)
	case "device": // of a maker that has a category of its own
		m = byRule("kernel", name)
	default:
		return Meaning{}, false
	}
	switch {
	case collective || class == "comm":
		m.Class, m.For = ClassDeviceWork, ClassCollective
	case class == "copy":
		m.Class, m.For = ClassTransfer, ClassOther
	}
	return m, true
}

// Operator reports whether a row of a profiler with that name is an operator that
// computes on the host: aten::mm, but no operator that communicates.
func Operator(category, name string) bool {
	space, _, ok := strings.Cut(name, "::")
	return ok && strings.EqualFold(category, "pp") && !strings.Contains(space, "c10d")
}

// Book remembers meanings, so that a reader of many spans asks for each name
// once. The zero value is ready for use. It is not safe for concurrent use.
type Book struct {
	known map[[2]string]*Meaning
	last  [32]page // by length and first letter
}

type page struct {
	key [2]string
	is  *Meaning
}

// maxBook bounds the names that a Book remembers: a program may make up a name
// for every span.
const maxBook = 1 << 14

// Of is [Of]. The result must not be changed.
func (b *Book) Of(category, event string) *Meaning {
	key := [2]string{category, event}
	at := uint(len(event) + len(category))
	if event != "" {
		at += uint(event[0])
	}
	last := &b.last[at%uint(len(b.last))]
	if last.is != nil && last.key == key {
		return last.is
	}
	m := b.known[key]
	if m == nil {
		key = [2]string{strings.Clone(category), strings.Clone(event)}
		of := Of(key[0], key[1])
		m = &of
		if b.known == nil {
			b.known = make(map[[2]string]*Meaning)
		}
		if len(b.known) < maxBook {
			b.known[key] = m
		}
	}
	last.key, last.is = key, m
	return m
}
