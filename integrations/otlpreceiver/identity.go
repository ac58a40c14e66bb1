package otlpreceiver

import (
	"cmp"
	"hash/fnv"
	"path/filepath"
	"strconv"
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/integrations/vocabulary"
)

// identity tells processes apart. It is comparable.
type identity struct {
	host, service, instance string
	pid                     int
	rank                    int // -1 is unknown
}

// attrs are the attributes of a resource.
type attrs []*commonpb.KeyValue

func (a attrs) value(keys ...string) *commonpb.AnyValue {
	for _, key := range keys {
		for _, kv := range a {
			if kv.GetKey() == key && kv.GetValue().GetValue() != nil {
				return kv.GetValue()
			}
		}
	}
	return nil
}

func (a attrs) text(keys ...string) string {
	switch v := a.value(keys...).GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return v.StringValue
	case *commonpb.AnyValue_IntValue:
		return strconv.FormatInt(v.IntValue, 10)
	}
	return ""
}

// number reads an integer, or the text of one: environment variables make ranks texts.
func (a attrs) number(keys ...string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimSpace(a.text(keys...)))
	return n, err == nil && n >= 0
}

// identify reads who the spans of a resource are of. host and pid stand for what
// it does not say; a process without a number gets one made of the rest.
func identify(res attrs, host string, pid int) identity {
	id := identity{
		host:    cmp.Or(res.text("host.name", "k8s.node.name"), host),
		service: res.text("service.name"), instance: res.text("service.instance.id"), rank: -1,
	}
	if n, ok := res.number(vocabulary.RankKeys()...); ok {
		id.rank = n
	}
	if n, ok := res.number("process.pid"); ok && n > 0 {
		pid = n
	}
	if id.pid = pid; id.pid > 0 {
		return id
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(id.host + "\x00" + id.service + "\x00" + id.instance + "\x00" + strconv.Itoa(id.rank)))
	id.pid = int(h.Sum32()&0x3fffffff) | 0x40000000 // above any real one
	return id
}

// process describes it to the writer, which would put this process in the
// place of anything left empty. Command lines are left out: they hold secrets.
func (id *identity) process(res attrs) dftracer.Process {
	exec := filepath.Base(cmp.Or(res.text("process.executable.name", "process.executable.path"), id.service, "unknown"))
	parent, _ := res.number("process.parent_pid")
	return dftracer.Process{PID: id.pid, PPID: max(parent, 1), Host: id.host, Exec: exec, Command: exec, Dir: "/"}
}

// fileName is the file of a process.
func (id *identity) fileName() string {
	return "otlp-" + safeName(id.host) + "-" + strconv.Itoa(id.pid) + ".pfw.gz"
}

// maxNamePart bounds what a sender can put into a file name.
const maxNamePart = 100

// safeName makes a part of a file name of what a sender says.
func safeName(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '_'
	}, s[:min(len(s), maxNamePart)])
	return cmp.Or(strings.TrimLeft(s, "."), "unknown")
}
