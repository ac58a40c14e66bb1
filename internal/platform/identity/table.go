package identity

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Field is one part of an Identity.
type Field uint8

// The fields of an Identity.
const (
	Rank Field = iota
	LocalRank
	WorldSize
	Attempt
	PID
	Parent
	Job
	Session
	Host
	Service
	Instance
	Exec
	fields
)

func (f Field) String() string {
	return [fields]string{"rank", "local rank", "world size", "attempt", "pid", "parent", "job", "session tag", "host", "service", "instance", "program"}[f]
}

// MaxRanks bounds ranks, world sizes and attempts: larger numbers are ignored.
// The largest jobs have a tenth of it. A wrong large world size would make
// readers wait for a million ranks.
const MaxRanks = 1 << 20

// Source is where evidence comes from. The constants are in the order of
// precedence: the first that is set counts.
type Source uint8

// The columns of the table.
const (
	// Record is a record about the process in its trace: PR, and CM, which also has
	// resource attributes.
	Record Source = iota
	// Start is an argument of the start record of a trace.
	Start
	// Line is a field of a JSON line.
	Line
	// Event is an attribute of one_logger_initialization or of a heartbeat, in
	// traces and JSON lines.
	Event
	// Profile is a member of the distributedInfo of a PyTorch profile.
	Profile
	// Resource is an attribute of an OTLP resource.
	Resource
	// Option is set by the caller of a reader.
	Option
	// Environment is a variable of the process: see [FromEnvironment].
	Environment
	// Name is the name of a file: see [RankInName].
	Name
	sources
)

func (s Source) String() string {
	return [sources]string{"a record", "the start record", "a JSON line", "an event", "distributedInfo", "the resource", "the caller", "the environment", "the file's name"}[s]
}

// table has the words for each field, by source. In one cell the first word
// that is present counts.
var table = [fields][sources][]string{
	Rank: {
		Record:      {"rank", "training.rank", "nv.dl.rank", "dl.rank", "torch.rank", "megatron.rank", "rl.rank"},
		Start:       {"rank"},
		Line:        {"rank"},
		Event:       {"rank"},
		Profile:     {"rank"},
		Resource:    {"training.rank", "nv.dl.rank", "dl.rank", "torch.rank", "megatron.rank", "rl.rank", "rank"},
		Environment: {"RANK"},
	},
	LocalRank: {
		Resource:    {"training.local_rank"},
		Environment: {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "FLUX_TASK_LOCAL_ID", "SLURM_LOCALID"},
	},
	WorldSize: {
		Record:      {"world_size", "pytorch.world_size", "training.world_size", "nv.dl.world_size", "dl.world_size", "torch.world_size", "megatron.world_size"},
		Start:       {"world_size"},
		Event:       {"world_size"},
		Profile:     {"world_size"},
		Resource:    {"training.world_size", "nv.dl.world_size", "dl.world_size", "torch.world_size", "megatron.world_size", "world_size"},
		Environment: {"TRAINSPAN_WORLD_SIZE", "WORLD_SIZE"},
	},
	Attempt: {
		Record:      {"training.attempt"},
		Start:       {"attempt"},
		Line:        {"attempt"},
		Event:       {"attempt"},
		Resource:    {"training.attempt"},
		Environment: {"TRAINSPAN_ATTEMPT", "TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"},
	},
	PID:    {Resource: {"process.pid"}},
	Parent: {Start: {"ppid"}, Resource: {"process.parent_pid"}},
	Job: {
		Start:    {"job_id"},
		Event:    {"job_id"},
		Resource: {"training.job"},
		// In each the first id names the job; see jobParts.
		Environment: {"TRAINSPAN_JOB", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "FLUX_JOB_ID", "PBS_JOBID", "LSB_JOBID", "PMIX_NAMESPACE"},
	},
	Session: {
		Start:    {"session_tag"},
		Event:    {"session_tag"},
		Resource: {"training.session_tag"},
	},
	Host: {
		Start:    {"node_name"},
		Event:    {"node_name"},
		Resource: {"host.name", "k8s.node.name", "host.id"},
	},
	Service:  {Resource: {"service.name"}},
	Instance: {Resource: {"service.instance.id", "container.id", "k8s.pod.uid"}},
	Exec:     {Resource: {"process.executable.name", "process.executable.path"}},
}

// Word returns our own name of a field in a source: the first word of the cell.
func (f Field) Word(in Source) string { return table[f][in][0] }

// Attribute returns our name of a field in resources.
func (f Field) Attribute() string { return f.Word(Resource) }

// rankNames match a rank in a file name, the surest one first. tensorboard_trace_handler is
// often given workerN, model servers write TP-N, and the names of hosts and of models have such words too.
var rankNames = [...]*regexp.Regexp{
	regexp.MustCompile(`(?i)(?:^|[-_.])(?:rank[-_]?(\d+)|trace-(\d+)-of-\d+)(?:[-_.]|$)`),
	regexp.MustCompile(`(?i)(?:^|[-_.])(?:worker|tp)[-_]?(\d+)()(?:[-_.]|$)`),
}

// RankInName returns the rank in a file name, such as trace-3-of-8.pfw.gz,
// telemetry-rank3.jsonl or worker3.pt.trace.json, or -1. path may be a Windows
// path, or name a file in an archive.
func RankInName(path string) int {
	name := path[strings.LastIndexAny(path, `/\:`)+1:]
	for _, of := range rankNames {
		if m := of.FindStringSubmatch(name); m != nil {
			if n, err := strconv.Atoi(m[1] + m[2]); err == nil && n < MaxRanks {
				return n
			}
			return -1
		}
	}
	return -1
}

// WithoutRank returns a file name without its rank, for files about other
// processes that are derived from it.
func WithoutRank(name string) string {
	for _, of := range rankNames {
		at := of.FindStringIndex(name)
		if at == nil {
			continue
		}
		before, after := name[:at[0]], name[at[1]:]
		if before != "" && after != "" {
			before += "-"
		}
		return WithoutRank(cmp.Or(before+after, "trace"))
	}
	return name
}

// WorldSizes returns the environment variables with the number of processes of a
// job, in the order in which they are read.
func WorldSizes() []string { return slices.Concat(table[WorldSize][Environment], mpiWorlds, counts) }

// Variables returns the environment variables that [FromEnvironment] reads,
// each once.
func Variables() (all []string) {
	for f := range fields {
		all = append(all, table[f][Environment]...)
	}
	for _, list := range [...][]string{mpiRanks, mpiWorlds, indexes, counts, nodes, nodeCounts, perNode, torchrun} {
		all = append(all, list...)
	}
	for _, parts := range jobParts {
		for _, part := range parts {
			all = append(all, part.name)
		}
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(name string) bool { return name == "" })
}

// Variables of launchers about the processes that they start.
var (
	mpiRanks  = []string{"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "FLUX_TASK_RANK"}
	mpiWorlds = []string{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "FLUX_JOB_SIZE"}
)

// Variables about the process if no launcher below starts several per node:
// then they have the index of the node, or of the pod, and their number.
var (
	indexes = []string{"SLURM_PROCID", "JOB_COMPLETION_INDEX"}
	counts  = []string{"SLURM_NTASKS"}
)

// Variables of torchrun and similar launchers about the process, one of several
// on a node: rank = index of the node * processes per node + local rank.
var (
	torchrun   = []string{"TORCHELASTIC_RUN_ID", "GROUP_RANK", "LOCAL_WORLD_SIZE"}
	perNode    = []string{"LOCAL_WORLD_SIZE"}
	nodes      = []string{"GROUP_RANK", "NODE_RANK", "SLURM_NODEID", "SLURM_PROCID", "JOB_COMPLETION_INDEX"}
	nodeCounts = []string{"GROUP_WORLD_SIZE"}
)

// jobParts distinguish the runs within one job, after a separator: those for
// each variable of the job.
var jobParts = [...][]jobPart{2: {{"_", "SLURM_ARRAY_TASK_ID"}, {".", "SLURM_STEP_ID"}}}

type jobPart struct{ sign, name string }
