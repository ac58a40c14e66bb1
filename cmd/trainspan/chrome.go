package main

import (
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// chromeFormat writes Chrome's trace event format as one JSON array.
type chromeFormat struct {
	from *survey
	n    int64
	any  bool
}

func (c *chromeFormat) begin(dst []byte) []byte { return append(dst, '[') }
func (c *chromeFormat) end(dst []byte) []byte   { return append(dst, "\n]\n"...) }
func (c *chromeFormat) count() int64            { return c.n }

func (c *chromeFormat) event(dst []byte, ev *dftracer.Event) []byte {
	switch ev.Phase {
	case dftracer.PhaseMetadata:
		return c.fact(dst, ev)
	case dftracer.PhaseComplete:
		dst = c.head(dst, ev, "X")
		dst = append(dst, `,"ts":`...)
		dst = strconv.AppendInt(dst, ev.TS, 10)
		dst = append(dst, `,"dur":`...)
		dst = strconv.AppendInt(dst, ev.Dur, 10)
	case dftracer.PhaseCounter:
		dst = c.head(dst, ev, "C")
		dst = append(dst, `,"ts":`...)
		dst = strconv.AppendInt(dst, ev.TS, 10)
	default:
		return dst // viewers cannot show folded events
	}
	if ev.Cat != dftracer.CatDFTracer {
		c.n++
	}
	dst = append(dst, `,"args":{`...)
	first := true
	for i := range ev.Args {
		arg := &ev.Args[i]
		if ev.Phase == dftracer.PhaseCounter && tracefile.KindOf(*arg) != tracefile.KindInt && tracefile.KindOf(*arg) != tracefile.KindUint && tracefile.KindOf(*arg) != tracefile.KindFloat {
			continue // viewers only draw numbers
		}
		key, value := arg.Key, *arg
		if isHashKey(key) {
			key, value = c.named(key, arg)
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = appendText(dst, key)
		dst = append(dst, ':')
		dst = tracefile.AppendArg(value, dst, dftracer.V2)
	}
	return c.flows(append(dst, "}}"...), ev)
}

// named replaces a hash by its name.
func (c *chromeFormat) named(key string, arg *dftracer.Arg) (string, dftracer.Arg) {
	if name, ok := c.from.hashes.File(arg.Text()); ok {
		if key == "fhash" {
			key = "file"
		}
		return key, dftracer.String(key, name)
	}
	if name, ok := c.from.hashes.String(arg.Text()); ok {
		return key, dftracer.String(key, name)
	}
	return key, *arg
}

func (c *chromeFormat) head(dst []byte, ev *dftracer.Event, phase string) []byte {
	if c.any {
		dst = append(dst, ',')
	}
	c.any = true
	dst = append(dst, "\n{\"name\":"...)
	dst = appendText(dst, ev.Name)
	dst = append(dst, `,"cat":`...)
	dst = appendText(dst, ev.Cat)
	dst = append(dst, `,"ph":"`...)
	dst = append(dst, phase...)
	dst = append(dst, `","pid":`...)
	dst = strconv.AppendInt(dst, ev.PID, 10)
	dst = append(dst, `,"tid":`...)
	return strconv.AppendInt(dst, ev.TID, 10)
}

// fact converts the names of processes and threads; viewers know no other
// metadata.
func (c *chromeFormat) fact(dst []byte, ev *dftracer.Event) []byte {
	key, _ := ev.Meta()
	if ev.Name != tracefile.NameProcessName && ev.Name != tracefile.NameThreadName {
		return dst
	}
	dst = c.head(dst, &dftracer.Event{Name: ev.Name, Cat: "__metadata", PID: ev.PID, TID: ev.TID}, "M")
	dst = append(dst, `,"args":{"name":`...)
	dst = appendText(dst, key)
	return append(dst, "}}"...)
}

// appendText appends a string as JSON.
func appendText(dst []byte, s string) []byte {
	arg := dftracer.String("", s)
	return tracefile.AppendArg(arg, dst, dftracer.V2)
}

// flows writes the arrows at an event. Their numbers distinguish processes and
// are exact in readers that use doubles.
func (c *chromeFormat) flows(dst []byte, ev *dftracer.Event) []byte {
	list, n := flowsOf(ev)
	for _, f := range list[:n] {
		phase := "f"
		if f.out {
			phase = "s"
		}
		dst = c.head(dst, &dftracer.Event{Name: f.cat, Cat: f.cat, PID: ev.PID, TID: ev.TID}, phase)
		if !f.out {
			dst = append(dst, `,"bp":"e"`...)
		}
		dst = append(dst, `,"ts":`...)
		dst = strconv.AppendInt(dst, ev.TS, 10)
		dst = append(dst, `,"id":`...)
		dst = strconv.AppendUint(dst, c.process(ev)<<32|uint64(f.key)&(1<<32-1), 10)
		dst = append(dst, '}')
	}
	return dst
}

// process returns a 20-bit number for a process.
func (c *chromeFormat) process(ev *dftracer.Event) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(strconv.AppendInt([]byte(ev.HostHash), ev.PID, 10)) // never fails
	return h.Sum64() >> 44
}

// flow is one end of an arrow between two events of an imported profile.
type flow struct {
	cat string
	out bool // the arrow starts here
	key int64
}

// flowsOf returns the arrows at an event: from a launch to what it started on a
// device, and from a forward operator to its backward operator.
func flowsOf(ev *dftracer.Event) (list [2]flow, n int) {
	if ev.Cat != "PP" || ev.Phase != dftracer.PhaseComplete {
		return list, 0
	}
	var launch, device, tied, backward bool
	var correlation, seq int64
	for i := range ev.Args {
		switch a := &ev.Args[i]; a.Key {
		case "kind":
			switch tracefile.Str(*a) {
			case "cuda_runtime", "cuda_driver":
				launch = launches(ev.Name)
			case "kernel", "gpu_memcpy", "gpu_memset", "device":
				device = true
			}
		case "correlation":
			correlation = a.Int64()
		case "seq":
			tied, seq = true, a.Int64()
		case "fwd_id":
			backward = true
		}
	}
	if correlation != 0 && (launch || device) {
		list[n] = flow{cat: "ac2g", out: launch, key: correlation}
		n++
	}
	if tied {
		list[n] = flow{cat: "fwdbwd", out: !backward, key: seq}
		n++
	}
	return list, n
}

// launches reports whether a runtime call starts work on a device, as opposed
// to waiting for it or querying it.
func launches(name string) bool {
	for _, word := range [...]string{"Launch", "Memcpy", "Memset", "Enqueue", "Append"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}
