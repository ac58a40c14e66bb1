package main

import (
	"strings"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/dft"
)

// flow is one end of an arrow between two events of an imported profile.
type flow struct {
	cat string
	out bool // the arrow starts here
	key int64
}

// flowsOf lists the arrows at an event: from a launch to what it started on a
// device, and from an operator of forward to that of backward.
func flowsOf(ev *dftracer.Event) (list [2]flow, n int) {
	if ev.Cat != "PP" || ev.Phase != dftracer.PhaseComplete {
		return list, 0
	}
	var launch, device, tied, backward bool
	var correlation, seq int64
	for i := range ev.Args {
		switch a := &ev.Args[i]; a.Key {
		case "kind":
			switch dft.Str(*a) {
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

// launches reports whether a call of a runtime starts work on a device, as
// opposed to waiting for it or asking about it.
func launches(name string) bool {
	for _, word := range [...]string{"Launch", "Memcpy", "Memset", "Enqueue", "Append"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}
