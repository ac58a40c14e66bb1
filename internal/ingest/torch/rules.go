package torch

import (
	"fmt"
	"regexp"

	"github.com/trainspan/trainspan/internal/ingest/torch/kineto"
	"github.com/trainspan/trainspan/internal/ingest/torch/torchrules"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// Rule maps rows of a profile to events of an AI category. The first rule whose
// pattern matches the name of a row decides.
type Rule = torchrules.Rule

// DeviceRule maps a kernel's name to a class. The first rule whose pattern
// matches decides; a kernel without a rule computes.
type DeviceRule = torchrules.DeviceRule

// ruleSet is the compiled table with the result for every name seen.
type ruleSet struct {
	rules []Rule
	res   []*regexp.Regexp
	keys  []string // their arguments, encoded: see out.str
	// seen has the rules that matched a row, by category and name.
	seen map[string]bool
	// Results by name id: 1 + index of the rule, -1 for none; one list for
	// annotations, one for operators.
	annotation, op []int16
	// The same by name, over all files.
	knownAnnotations, knownOps verdictCache
}

func compileRules(rules []Rule) (*ruleSet, error) {
	if rules == nil {
		rules = torchrules.Annotations()
	}
	if len(rules) > 1000 {
		return nil, fmt.Errorf("pytorch: %d rules, at most 1000 are allowed", len(rules))
	}
	rs := &ruleSet{rules: rules, res: make([]*regexp.Regexp, len(rules)), keys: make([]string, len(rules)), seen: map[string]bool{}, knownAnnotations: verdictCache{}, knownOps: verdictCache{}}
	for i, r := range rules {
		re, err := regexp.Compile(r.Pattern)
		if err != nil {
			return nil, fmt.Errorf("pytorch: rule %d: %w", i, err)
		}
		if (r.Cat == "") != (r.Name == "") {
			return nil, fmt.Errorf("pytorch: rule %d (%s): set both Cat and Name, or neither", i, r.Pattern)
		}
		rs.res[i], rs.keys[i] = re, tracefile.KeyText(r.Arg)
	}
	return rs, nil
}

// fork returns a set with the same rules and no cached results, for another
// file.
func (rs *ruleSet) fork() *ruleSet {
	return &ruleSet{rules: rs.rules, res: rs.res, keys: rs.keys, seen: map[string]bool{}, knownAnnotations: rs.knownAnnotations, knownOps: rs.knownOps}
}

// match returns 1 + the index of the rule for a row, or 0.
func (rs *ruleSet) match(r *row, name string) int {
	list, known := &rs.annotation, rs.knownAnnotations
	switch r.kind {
	case kineto.KindUserAnnotation:
	case kineto.KindCPUOp:
		list, known = &rs.op, rs.knownOps
	default:
		return 0
	}
	for int(r.name) >= len(*list) {
		*list = append(*list, 0)
	}
	if r.name != 0 && (*list)[r.name] != 0 {
		return max(int((*list)[r.name]), 0)
	}
	found, ok := known[name]
	if !ok {
		found = rs.ask(r.kind, name)
		known.put(name, found)
	}
	if found > 0 {
		rs.seen[rs.rules[found-1].Cat+"/"+rs.rules[found-1].Name] = true
	}
	if r.name != 0 {
		(*list)[r.name] = found
	}
	return max(int(found), 0)
}

// ask runs the patterns: 1 + the index of the rule, -1 for none.
func (rs *ruleSet) ask(kind kineto.Kind, name string) int16 {
	for i := range rs.rules {
		if (kind == kineto.KindUserAnnotation || rs.rules[i].Ops) && rs.res[i].MatchString(name) {
			if rs.rules[i].Name == "" {
				break
			}
			return int16(i + 1)
		}
	}
	return -1
}

// group returns the first group of rule i in name.
func (rs *ruleSet) group(i int, name string) string {
	if m := rs.res[i].FindStringSubmatch(name); len(m) > 1 {
		return m[1]
	}
	return ""
}
