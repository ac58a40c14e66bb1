package pytorch

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/kineto"
	"github.com/trainspan/trainspan/internal/torchrules"
)

// deviceClass is what kind of work a device row is, an index of torchrules.Classes.
type deviceClass uint8

const (
	classCompute deviceClass = iota
	classComm
	classCopy
	classCount
)

// deviceRule is a compiled one.
type deviceRule struct {
	class deviceClass
	op    string
	re    *regexp.Regexp
}

// deviceHints are in the name of every kernel, in lower case, to which one of the
// default rules gives another class than computing. Looking for them first
// saves running all patterns over the long names of templates.
var deviceHints = []string{
	"ccl", "deep_ep", "barrier", "signal", "value32", "nvshmem", "shmem", "multimem", "nvls", "cross_device", "quickreduce", "userbuffers",
	"allreduce", "all_reduce", "allgather", "all_gather", "reducescatter", "reduce_scatter", "alltoall", "allto_all", "all_to", "a2a", "hcom", "memcpy", "memset",
}

func hinted(name string) bool {
	lower := strings.ToLower(name)
	return slices.ContainsFunc(deviceHints, func(hint string) bool { return strings.Contains(lower, hint) })
}

// deviceRules is the compiled table with the verdict for every name seen.
type deviceRules struct {
	rules []deviceRule
	own   int // rules of the user, which come first
	// verdicts by name id, 2 + index of the rule, 1 for none, 0 for not asked.
	verdicts []int16
	known    verdictCache
}

// verdictCache keeps verdicts by name over the files of an import: ranks have
// the same names, and patterns are slow on long ones. One import uses it in one
// goroutine.
type verdictCache map[string]int16

// maxVerdicts bounds the names in a cache.
const maxVerdicts = 1 << 14

func (c verdictCache) put(name string, verdict int16) {
	if len(c) < maxVerdicts {
		c[name] = verdict
	}
}

func compileDeviceRules(own []DeviceRule) (*deviceRules, error) {
	rules := append(append([]DeviceRule(nil), own...), torchrules.Kernels()...)
	if len(own) > 1000 {
		return nil, fmt.Errorf("pytorch: %d device rules, at most 1000 are allowed", len(own))
	}
	d := &deviceRules{rules: make([]deviceRule, len(rules)), own: len(own), known: verdictCache{}}
	for i, r := range rules {
		re, err := regexp.Compile(r.Pattern)
		if err != nil {
			return nil, fmt.Errorf("pytorch: device rule %d: %w", i, err)
		}
		class := slices.Index(torchrules.Classes[:], r.Class)
		if class < 0 {
			return nil, fmt.Errorf("pytorch: device rule %d (%s): no such class", i, r.Pattern)
		}
		d.rules[i] = deviceRule{deviceClass(class), r.Op, re}
	}
	return d, nil
}

func (d *deviceRules) fork() *deviceRules {
	return &deviceRules{rules: d.rules, own: d.own, known: d.known}
}

// match returns the rule for a kernel, nil when there is none.
func (d *deviceRules) match(r *row, name string) *deviceRule {
	for int(r.name) >= len(d.verdicts) {
		d.verdicts = append(d.verdicts, 0)
	}
	if r.name != 0 && d.verdicts[r.name] != 0 {
		if v := d.verdicts[r.name]; v > 1 {
			return &d.rules[v-2]
		}
		return nil
	}
	verdict, ok := d.known[name]
	if !ok {
		verdict = d.ask(name)
		d.known.put(name, verdict)
	}
	if r.name != 0 {
		d.verdicts[r.name] = verdict
	}
	if verdict > 1 {
		return &d.rules[verdict-2]
	}
	return nil
}

// ask runs the patterns.
func (d *deviceRules) ask(name string) int16 {
	list := d.rules
	if !hinted(name) {
		list = list[:d.own]
	}
	for i := range list {
		if list[i].re.MatchString(name) {
			return int16(i + 2)
		}
	}
	return 1
}

// classOf returns the class of a device row. A kernel that the trace itself
// calls a collective is one.
func (d *deviceRules) classOf(r *row, name string) deviceClass {
	switch r.kind {
	case kineto.KindMemcpy, kineto.KindMemset:
		return classCopy
	case kineto.KindKernel:
		if r.extra != "" {
			return classComm
		}
	}
	if rule := d.match(r, name); rule != nil && (rule.class != classComm || r.kind != kineto.KindKernel) {
		return rule.class
	}
	return classCompute
}

// opWords finds a collective inside the name of a kernel.
var opWords = []struct{ word, op string }{
	{"reduce_scatter", "reduce_scatter"}, {"reducescatter", "reduce_scatter"},
	{"all_reduce", "all_reduce"}, {"allreduce", "all_reduce"},
	{"all_gather", "all_gather"}, {"allgather", "all_gather"},
	{"all_to_all", "all_to_all"}, {"alltoall", "all_to_all"},
	{"broadcast", "bcast"}, {"barrier", "barrier"},
}

// kernelOp returns the collective that a kernel's name tells, and its word.
func kernelOp(rule *deviceRule, name string) (op, word string) {
	if w, ok := commKernel(name); ok {
		word = w
		op = commOp(w)
	} else {
		word = shortName(name)
		lower := strings.ToLower(name)
		for _, m := range opWords {
			if strings.Contains(lower, m.word) {
				op = m.op
				break
			}
		}
	}
	if rule != nil && rule.op != "" {
		op = rule.op
	}
	return op, word
}

// shortName cuts return type, namespaces, template and parameters off a
// kernel's name: void deep_ep::intranode::dispatch<8, 768>(int4*) is dispatch.
func shortName(name string) string {
	name = strings.TrimPrefix(name, "void ")
	name = strings.ReplaceAll(name, "(anonymous namespace)::", "")
	if i := strings.IndexAny(name, "<("); i > 0 {
		name = name[:i]
	}
	if i := strings.LastIndex(name, "::"); i >= 0 {
		name = name[i+2:]
	}
	return name
}
