package pytorch

import (
	"fmt"
	"regexp"

	"github.com/trainspan/trainspan/internal/kineto"
)

// Rule turns named rows of a profile into events of an AI category. The first
// rule whose pattern matches the name of a row decides.
type Rule struct {
	// Pattern is a regular expression on the row's name.
	Pattern string
	// Ops also applies the rule to operators, and not to user annotations alone.
	Ops bool
	// Cat and Name are the category and the name of the event. An empty Name
	// keeps the row as a profiler event only, and ends the search.
	Cat, Name string
	// Arg is the name of an argument that takes the first group of Pattern.
	Arg string
	// Outermost emits the event only when no enclosing row gave the same one.
	Outermost bool
}

// DefaultRules returns a fresh copy of the built-in table. It holds the names
// that PyTorch, its data loader, DistributedDataParallel, FSDP, Lightning and
// torchrec give to their annotations. PyTorch does not annotate checkpoints,
// so the checkpoint patterns look at names that users choose; activation
// checkpointing is left alone.
func DefaultRules() []Rule {
	return []Rule{
		{Pattern: `(?i)activation.?checkpoint|CheckpointFunction|utils/checkpoint`, Ops: true},
		{Pattern: `^Optimizer\.step#(?P<optimizer>.+)\.step$`, Ops: true, Cat: "compute", Name: "step", Arg: "optimizer", Outermost: true},
		{Pattern: `^## optimizer ##$|^\[pl\].*optimizer_step$`, Cat: "compute", Name: "step", Outermost: true},
		{Pattern: `^enumerate\(DataLoader\)#(?P<loader>.+)\.__next__$`, Ops: true, Cat: "dataloader", Name: "fetch.iter", Arg: "loader", Outermost: true},
		{Pattern: `^## (load_batch|wait_for_batch) ##$|^\[pl\].*dataloader_next$`, Cat: "dataloader", Name: "fetch.iter", Outermost: true},
		{Pattern: `(?i)(save|write).*checkpoint|checkpoint.*(save|write)|^\[pl\].*ModelCheckpoint`, Cat: "checkpoint", Name: "capture", Outermost: true},
		{Pattern: `(?i)(load|restore|resume).*checkpoint|checkpoint.*(load|restore|resume)`, Cat: "checkpoint", Name: "restart", Outermost: true},
		{Pattern: `^\[pl\].*validation_step$|(?i)^(##\s*)?(eval|valid)`, Cat: "pipeline", Name: "evaluate", Outermost: true},
		{Pattern: `^\[pl\].*test_step$|(?i)^(##\s*)?test\b`, Cat: "pipeline", Name: "test", Outermost: true},
		{Pattern: `^DistributedDataParallel\.forward$|^FullyShardedDataParallel\.forward$`, Ops: true, Cat: "compute", Name: "forward", Outermost: true},
		{Pattern: `^(##\s*)?(model_)?forward\b|^\[pl\].*training_step$`, Cat: "compute", Name: "forward", Outermost: true},
		{Pattern: `(?i)^(?:##\s*)?epoch[\s_#:-]*(?P<epoch>\d+)\b`, Cat: "pipeline", Name: "epoch.block", Arg: "epoch", Outermost: true},
		{Pattern: `^(##\s*)?backward\b|^\[pl\].*backward$`, Cat: "compute", Name: "backward", Outermost: true},
	}
}

// ruleSet is the compiled table with the verdict for every name seen.
type ruleSet struct {
	rules []Rule
	res   []*regexp.Regexp
	// seen marks rules that matched a row, by category and name.
	seen map[string]bool
	// Verdicts by name id, 1 + index of the rule, -1 for none; one list for
	// annotations, one for operators.
	annotation, op []int16
	// The same by name, over all files.
	knownAnnotations, knownOps verdictCache
}

func compileRules(rules []Rule) (*ruleSet, error) {
	if rules == nil {
		rules = DefaultRules()
	}
	if len(rules) > 1000 {
		return nil, fmt.Errorf("pytorch: %d rules, at most 1000 are allowed", len(rules))
	}
	rs := &ruleSet{rules: rules, res: make([]*regexp.Regexp, len(rules)), seen: map[string]bool{}, knownAnnotations: verdictCache{}, knownOps: verdictCache{}}
	for i, r := range rules {
		re, err := regexp.Compile(r.Pattern)
		if err != nil {
			return nil, fmt.Errorf("pytorch: rule %d: %w", i, err)
		}
		if (r.Cat == "") != (r.Name == "") {
			return nil, fmt.Errorf("pytorch: rule %d (%s): Cat and Name belong together", i, r.Pattern)
		}
		rs.res[i] = re
	}
	return rs, nil
}

// fork returns a set with the same rules and no memory, for another file.
func (rs *ruleSet) fork() *ruleSet {
	return &ruleSet{rules: rs.rules, res: rs.res, seen: map[string]bool{}, knownAnnotations: rs.knownAnnotations, knownOps: rs.knownOps}
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
