package dftracerexporter

import (
	"hash/fnv"
	"path/filepath"
	"strconv"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/trainspan/trainspan/dftracer"
)

// unknown stands for what a resource does not say.
const unknown = "unknown"

// identity tells processes apart. It is comparable.
type identity struct {
	host, service, instance string
	pid, rank               int
	ranked                  bool // rank is known
	anonymous               bool // nothing tells it from others of its host, service and rank
}

// identify reads who the spans of a resource are of. A process id is made up
// from the other parts when there is none, so that two such processes have two
// files.
func identify(attrs pcommon.Map) identity {
	id := identity{
		host:     text(attrs, unknown, "host.name", "k8s.node.name", "host.id"),
		service:  text(attrs, unknown, "service.name"),
		instance: text(attrs, "", "service.instance.id", "container.id", "k8s.pod.uid"),
	}
	rank, ok := number(attrs, "training.rank", "torch.rank", "rank")
	if ok && rank >= 0 {
		id.rank, id.ranked = int(rank), true
	}
	if pid, ok := number(attrs, "process.pid"); ok && pid > 0 {
		id.pid = int(pid)
		return id
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(id.host + "\x00" + id.service + "\x00" + id.instance + "\x00" + strconv.Itoa(id.rank)))
	id.anonymous = id.instance == ""
	id.pid = int(h.Sum32()&0x3fffffff) | 0x40000000 // above any real one
	return id
}

// process describes it to the writer, which would put the Collector itself in
// the place of anything left empty.
func (id *identity) process(attrs pcommon.Map) dftracer.Process {
	exec := text(attrs, "", "process.executable.name", "process.executable.path")
	command := text(attrs, "", "process.command") // the program; what follows it carries secrets
	if exec == "" {
		exec = id.service
	}
	exec = filepath.Base(exec)
	if command == "" {
		command = exec
	}
	parent, ok := number(attrs, "process.parent_pid")
	if !ok || parent <= 0 {
		parent = 1
	}
	return dftracer.Process{
		PID: id.pid, PPID: int(parent), Host: id.host, Exec: exec, Command: command,
		Dir: text(attrs, "/", "process.working_directory"),
	}
}

// job adds what the start event says of the job.
func (id *identity) job(attrs pcommon.Map, opts *dftracer.Options) {
	if id.ranked {
		opts.Rank = &id.rank
	}
	if n, ok := number(attrs, "training.attempt"); ok && n >= 0 {
		attempt := int(n)
		opts.Attempt = &attempt
	}
	opts.SessionTag = bounded(text(attrs, "", "training.session_tag"))
}

// text is the first of the attributes that is there and not empty.
func text(attrs pcommon.Map, otherwise string, keys ...string) string {
	for _, key := range keys {
		if v, ok := attrs.Get(key); ok {
			if s := v.AsString(); s != "" {
				return s
			}
		}
	}
	return otherwise
}

// number is the first of the attributes that is an integer, or the text of one:
// environment variables make ranks texts.
func number(attrs pcommon.Map, keys ...string) (int64, bool) {
	for _, key := range keys {
		if v, ok := attrs.Get(key); ok {
			if n, ok := integer(v); ok {
				return n, true
			}
		}
	}
	return 0, false
}

func integer(v pcommon.Value) (int64, bool) {
	switch v.Type() {
	case pcommon.ValueTypeInt:
		return v.Int(), true
	case pcommon.ValueTypeDouble:
		n := int64(v.Double())
		return n, float64(n) == v.Double()
	case pcommon.ValueTypeStr:
		n, err := strconv.ParseInt(strings.TrimSpace(v.Str()), 10, 64)
		return n, err == nil
	}
	return 0, false
}
