package identity

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/attributes"
)

// What launchers say of the processes that they start.
var (
	mpiRanks  = []string{"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "FLUX_TASK_RANK"}
	mpiWorlds = []string{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "FLUX_JOB_SIZE"}
)

// What is said of the process where nothing below starts several on a node: there
// it is the index of the node, or of the pod, and their number.
var (
	indexes = []string{"SLURM_PROCID", "JOB_COMPLETION_INDEX"}
	counts  = []string{"SLURM_NTASKS"}
)

// What torchrun and its like say of the process that they start, one of several on a
// node: rank = index of the node * processes of a node + local rank.
var (
	torchrun   = []string{"TORCHELASTIC_RUN_ID", "GROUP_RANK", "LOCAL_WORLD_SIZE"}
	perNode    = []string{"LOCAL_WORLD_SIZE"}
	nodes      = []string{"GROUP_RANK", "NODE_RANK", "SLURM_NODEID", "SLURM_PROCID", "JOB_COMPLETION_INDEX"}
	nodeCounts = []string{"GROUP_WORLD_SIZE"}
)

// jobParts tell two runs in one job apart: one for each variable of the job.
var jobParts = [...]string{2: "SLURM_STEP_ID"}

// Bad is a variable whose value is none.
type Bad struct {
	Key      string // what it would be
	Variable string
	Text     string
	Least    int
	Err      error // of the parser; nil where the number is below Least
}

// Launch is what the variables of a process say.
type Launch struct {
	Identity
	// Run is the same on every process of one start of the job: all ids that
	// launchers give.
	Run string
	Bad []Bad
}

// FromEnvironment reads what launchers gave a process. Of each list the first
// variable that is set counts. lookup is one as os.LookupEnv, parse reads a number.
func FromEnvironment(lookup func(name string) (string, bool), parse func(text string) (int, error)) Launch {
	e := environment{lookup: lookup, parse: parse}
	words := func(f Field) []string { return table[f][Environment] }
	e.Rank = e.first("rank", 0, words(Rank))
	e.LocalRank = e.first("local_rank", 0, words(LocalRank))
	e.WorldSize = e.first("world_size", 1, words(WorldSize))
	e.rest("rank", &e.Rank, 0, mpiRanks, indexes, nodes)
	e.rest("world_size", &e.WorldSize, 1, mpiWorlds, counts, nodeCounts)
	e.Attempt = e.first("attempt", 0, words(Attempt))
	var ids []string
	for i, name := range words(Job) {
		id := e.text(name)
		if id == "" || id == "none" { // what Elastic calls a run without a name
			continue
		}
		if e.Job == "" {
			e.Job = id
		}
		if i < len(jobParts) && e.text(jobParts[i]) != "" {
			id += "." + e.text(jobParts[i])
		}
		ids = append(ids, id)
	}
	e.Run = strings.Join(ids, "/")
	return e.Launch
}

type environment struct {
	Launch
	lookup func(string) (string, bool)
	parse  func(string) (int, error)
}

func (e *environment) text(name string) string {
	if name == "" {
		return ""
	}
	text, _ := e.lookup(name)
	return strings.TrimSpace(text)
}

// rest looks for a number of the job that no variable of its own says. Where
// torchrun's variables are there, what the launcher of the nodes says is about these.
func (e *environment) rest(key string, to *attributes.Opt[int], least int, whole, single, nodes []string) {
	if to.IsSet() || slices.ContainsFunc(e.Bad, func(b Bad) bool { return b.Key == key }) {
		return
	}
	if slices.ContainsFunc(torchrun, func(name string) bool { return e.text(name) != "" }) {
		node, each, local := e.first("", least, nodes), e.first("", 1, perNode), e.LocalRank
		if least == 1 { // a number of processes
			local = attributes.Some(0)
		}
		if node.IsSet() && each.IsSet() && local.IsSet() && node.Get() <= (math.MaxInt-local.Get())/each.Get() {
			*to = attributes.Some(node.Get()*each.Get() + local.Get())
		}
		return
	}
	// A local rank that is not Slurm's is of something that starts several as well.
	if local := e.text("LOCAL_RANK"); local == "" || local == e.text("SLURM_LOCALID") {
		whole = slices.Concat(whole, single)
	}
	*to = e.first(key, least, whole)
}

func (e *environment) first(key string, least int, names []string) attributes.Opt[int] {
	for _, name := range names {
		text := e.text(name)
		if text == "" {
			continue
		}
		n, err := e.parse(text)
		if err == nil && n >= least {
			return attributes.Some(n)
		}
		b := Bad{Key: cmp.Or(key, strings.ToLower(name)), Variable: name, Text: text, Least: least, Err: err}
		if !slices.ContainsFunc(e.Bad, func(o Bad) bool { return o.Variable == name }) {
			e.Bad = append(e.Bad, b)
		}
		break
	}
	return attributes.Opt[int]{}
}
