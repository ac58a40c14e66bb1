package place_test

import (
	"reflect"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/tracefile/place"
)

// TestSenderOf checks that the options of the file come from the resource, and from the
// caller if the resource does not have them.
func TestSenderOf(t *testing.T) {
	attempt := 1
	for _, c := range []struct {
		name     string
		resource map[string]string
		want     place.Sender
		attempt  int
		tag, job string
		process  dftracer.Process
	}{
		{"Megatron", map[string]string{"megatron.rank": "3", "process.pid": "42", "k8s.node.name": "n1", "service.name": "llm", "process.parent_pid": "7"},
			place.Sender{Host: "n1", Service: "llm", PID: 42, Rank: 3}, 1, "mine", "4711", dftracer.Process{PID: 42, PPID: 7, Host: "n1", Exec: "llm", Command: "llm", Dir: "/"}},
		{"NeMo Lens", map[string]string{"nv.dl.rank": "5", "process.pid": "42", "host.id": "i-1", "training.attempt": "4", "training.job": "x", "training.session_tag": "tag", "process.executable.path": "/usr/bin/python3"},
			place.Sender{Host: "i-1", PID: 42, Rank: 5}, 4, "tag", "x", dftracer.Process{PID: 42, PPID: 1, Host: "i-1", Exec: "python3", Command: "python3", Dir: "/"}},
		{"no rank, no host", map[string]string{"process.pid": "42", "rank": "none", "process.parent_pid": "-2"},
			place.Sender{Host: "here", PID: 42, Rank: -1}, 1, "mine", "4711", dftracer.Process{PID: 42, PPID: 1, Host: "here", Exec: "unknown", Command: "unknown", Dir: "/"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := identity.FromResource(func(key string) string { return c.resource[key] })
			s := place.SenderOf(&id, "here", 0)
			if s != c.want {
				t.Errorf("SenderOf() = %+v, want %+v", s, c.want)
			}
			o := dftracer.Options{Process: dftracer.Process{Attempt: &attempt, SessionTag: "mine", JobID: "4711"}}
			s.Trace(&o, &id)
			c.process.Attempt, c.process.SessionTag, c.process.JobID = &c.attempt, c.tag, c.job
			if c.want.Rank >= 0 {
				c.process.Rank = &c.want.Rank
			}
			if !reflect.DeepEqual(o.Process, c.process) {
				t.Errorf("options %+v, want process %+v", o, c.process)
			}
		})
	}
	var nobody identity.Identity
	if s := place.SenderOf(&nobody, "", 0); !s.MadeUp || s.PID < 1<<30 || s.Host != identity.UnknownHost {
		t.Errorf("SenderOf() = %+v, want a made-up process number and an unknown host", s)
	}
	if s := place.SenderOf(&nobody, "", 12); s.MadeUp || s.PID != 12 {
		t.Errorf("SenderOf() = %+v, want process 12", s)
	}
}
