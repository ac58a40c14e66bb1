package tracefile

import (
	"strconv"
	"unicode/utf8"
)

// MaxLine is the length of the longest line, including its line feed, that
// readers accept.
const MaxLine = 16*1024 - 1

// MaxArgs is how many bytes of arguments fit into a line with names of any
// length.
const MaxArgs = MaxLine - 6*2*maxKeyPart - 512

// shorten returns s cut to at most limit bytes, with a note of how many bytes
// are missing, and whether it was cut. It never splits a character.
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

// QuickSize returns an upper bound of the encoded size of an event without
// looking at its bytes: every byte of a string may become six.
func QuickSize(ev *Event) int {
	n := 512 + 6*(len(ev.Name)+len(ev.Cat)+len(ev.HostHash)) + len(ev.encoded)
	return n + ArgsSize(ev.Args)
}

// ArgsSize returns an upper bound of the encoded size of arguments.
func ArgsSize(args []Arg) int {
	n := 0
	for i := range args {
		n += 40 + 6*(len(args[i].Key)+len(args[i].str))
	}
	return n
}

// AppendFitting encodes an event whose line may be too long. It finds the
// greatest length to which strings can be cut so that the line fits; shorter
// strings are not cut. It returns how many strings were cut or left out. The
// work is bounded by the size of the event: text that cannot fit is not
// encoded.
func AppendFitting(dst []byte, ev *Event, encode func([]byte, *Event) []byte) ([]byte, int) {
	if len(ev.encoded) > 0 {
		decoded := Decoded(ev)
		ev = &decoded
	}
	start := len(dst)
	try := func(ev *Event, limit int) (line []byte, cuts int, fits bool) {
		if ev.leastSize(limit) > MaxLine {
			return nil, 0, false
		}
		small, cuts := ev.cut(limit)
		line = encode(dst[:start], &small)
		return line, cuts, len(line)-start <= MaxLine
	}
	line, cuts, fits := try(ev, MaxLine)
	if fits {
		return line, cuts
	}
	lo, hi := 0, MaxLine // a limit that fits, and one that does not
	for hi-lo > 8 {
		mid := (lo + hi) / 2
		if _, _, fits = try(ev, mid); fits {
			lo = mid
		} else {
			hi = mid
		}
	}
	if line, cuts, fits = try(ev, lo); fits {
		return line, cuts
	}
	// Cutting strings is not enough: there are too many arguments.
	small := *ev
	for keep := min(len(ev.Args)/2, MaxLine/leastArg); ; keep /= 2 {
		small.Args = append(append([]Arg(nil), ev.Args[:keep]...), Int("args_dropped", int64(len(ev.Args)-keep)))
		if line, cuts, fits = try(&small, 64); fits {
			return line, cuts + len(ev.Args) - keep
		}
		if keep == 0 {
			tiny, n := small.cut(64)
			return encode(dst[:start], &tiny), n + len(ev.Args)
		}
	}
}

// leastArg is the size of the smallest argument in a line.
const leastArg = len(`,"":0`)

// leastSize returns a lower bound of the line's size with strings cut to limit.
// It stops counting when the line is too long.
func (ev *Event) leastSize(limit int) int {
	const note = 48 // a cut string may be this much shorter than the limit
	long, key := max(limit-note, 0), max(limit/4-note, 0)
	n := min(len(ev.Name), long) + min(len(ev.Cat), long)
	for i := range ev.Args {
		if n > MaxLine {
			break
		}
		a := &ev.Args[i]
		n += leastArg + min(len(a.Key), key)
		if a.kind == KindString || len(a.str) > limit { // line breaks of raw values are left out
			n += min(len(a.str), long)
		}
	}
	return n
}

// cut returns a copy of the event with every string cut to limit.
func (ev *Event) cut(limit int) (Event, int) {
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
			a.kind = KindString // JSON that was cut is not valid JSON
			a.str = short(a.str, limit)
		}
		small.Args[i] = a
	}
	return small, cuts
}
