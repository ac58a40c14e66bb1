package dftracer

import (
	"strconv"
	"unicode/utf8"
)

// shorten returns s cut to at most limit bytes with a note of how much is
// missing, and whether it had to. It never splits a character.
func shorten(s string, limit int) (string, bool) {
	if len(s) <= limit {
		return s, false
	}
	const note = len("...[+18446744073709551615 bytes]")
	cut := max(limit-note, 0)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "...[+" + strconv.Itoa(len(s)-cut) + " bytes]", true
}

// quickSize bounds, without looking at any byte, what an event can take:
// every byte of a string may become six.
func quickSize(ev *Event) int {
	n := 512 + 6*(len(ev.Name)+len(ev.Cat)+len(ev.HostHash))
	return n + argsSize(ev.Args)
}

func argsSize(args []Arg) int {
	n := 0
	for i := range args {
		n += 40 + 6*(len(args[i].Key)+len(args[i].str))
	}
	return n
}

// appendFitting encodes an event whose line may be too long. It looks for the
// greatest length to which strings can be cut so that the line fits; shorter
// strings stay whole. It reports how many strings were cut or left out.
func appendFitting(dst []byte, ev *Event, encode func([]byte, *Event) []byte) ([]byte, int) {
	start := len(dst)
	try := func(limit int) ([]byte, int) {
		small, cuts := cutEvent(ev, limit)
		return encode(dst[:start], &small), cuts
	}
	line, cuts := try(maxLine)
	if len(line)-start <= maxLine {
		return line, cuts
	}
	lo, hi := 0, maxLine // a limit that fits, and one that does not
	for hi-lo > 8 {
		mid := (lo + hi) / 2
		if line, _ = try(mid); len(line)-start <= maxLine {
			lo = mid
		} else {
			hi = mid
		}
	}
	if line, cuts = try(lo); len(line)-start <= maxLine {
		return line, cuts
	}
	// Cut strings do not suffice: there are too many arguments.
	small := *ev
	for keep := len(ev.Args) / 2; ; keep /= 2 {
		small.Args = append(append([]Arg(nil), ev.Args[:keep]...), Int("args_dropped", int64(len(ev.Args)-keep)))
		tiny, n := cutEvent(&small, 64)
		if line = encode(dst[:start], &tiny); len(line)-start <= maxLine || keep == 0 {
			return line, n + len(ev.Args) - keep
		}
	}
}

// cutEvent returns a copy of the event with every string cut to limit.
func cutEvent(ev *Event, limit int) (Event, int) {
	cuts := 0
	short := func(s string, limit int) string {
		s, cut := shorten(s, limit)
		if cut {
			cuts++
		}
		return s
	}
	small := *ev
	small.Name, small.Cat = short(ev.Name, limit), short(ev.Cat, limit)
	small.HostHash = short(ev.HostHash, limit)
	small.Args = make([]Arg, len(ev.Args))
	for i, a := range ev.Args {
		a.Key = short(a.Key, max(limit/4, 48))
		if len(a.str) > limit {
			a.kind = KindString // cut JSON is no longer JSON
			a.str = short(a.str, limit)
		}
		small.Args[i] = a
	}
	return small, cuts
}
