package identity

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trainspan/trainspan/attributes"
)

// namers is how many of the variables for the job, from the first, keep the id
// over restarts. The others have a scheduler's id, which everything in its
// allocation shares.
const namers = 2

// Bad is a variable with an invalid value.
type Bad struct {
	Key      string // the field
	Variable string
	Text     string
	Least    int
	Err      error // of the parser; nil if the number is below Least
}

// Launch is what the environment variables of a process contain.
type Launch struct {
	Identity
	// Run is the same in every process of one start of the job: all ids of
	// launchers, and their restart counts other than Attempt.
	Run string
	// Key is the same for all attempts of one run: the first of these ids, and what
	// distinguishes runs in it. Named means that the key is unique; otherwise only
	// starts that the launcher counts are attempts of one run.
	Key   string
	Named bool
	Bad   []Bad
}

// FromEnvironment reads what launchers set for a process. Of each list the
// first variable that is set counts. lookup is like os.LookupEnv; parse parses
// a number.
func FromEnvironment(lookup func(name string) (string, bool), parse func(text string) (int, error)) Launch {
	e := environment{lookup: lookup, parse: parse}
	words := func(f Field) []string { return table[f][Environment] }
	e.Rank = e.first("rank", 0, words(Rank))
	e.LocalRank = e.first("local_rank", 0, words(LocalRank))
	e.WorldSize = e.first("world_size", 1, words(WorldSize))
	e.inferNumber("rank", &e.Rank, 0, mpiRanks, indexes, nodes)
	e.inferNumber("world_size", &e.WorldSize, 1, mpiWorlds, counts, nodeCounts)
	e.Attempt = e.first("attempt", 0, words(Attempt))
	var ids []string
	for i, name := range words(Job) {
		id := e.text(name)
		if id == "" || id == "none" { // Elastic's id of a run without a name
			continue
		}
		whole := id
		if i < len(jobParts) {
			for _, part := range jobParts[i] {
				if text := e.text(part.name); text != "" {
					whole += part.sign + text
				}
			}
		}
		// torchrun is often given the scheduler's id, which adds nothing.
		repeats := i < namers && i > 0 && slices.ContainsFunc(words(Job)[namers:], func(name string) bool { return e.text(name) == id })
		if e.Job == "" {
			e.Job = id
		}
		if e.Key == "" && !repeats {
			e.Key, e.Named = whole, i < namers
		}
		ids = append(ids, whole)
	}
	if e.Run = strings.Join(ids, "/"); e.Run != "" {
		e.Run += e.counts()
	}
	return e.Launch
}

// counts returns how often launchers, other than the one with the attempt, have
// restarted the job; empty for never. The first variable counts the starts of
// all.
func (e *environment) counts() (all string) {
	said := false
	for i, name := range table[Attempt][Environment] {
		n, err := e.parse(e.text(name))
		if err != nil || n < 0 {
			continue // already used as the attempt
		}
		if said && n > 0 {
			all += "+" + strconv.Itoa(n)
		}
		if said = true; i == 0 {
			break
		}
	}
	return all
}

// schedulers are those that signal a job before they end it, with a variable
// that their jobs have.
var schedulers = [...]struct{ name, variable string }{
	{"Slurm", "SLURM_JOB_ID"}, {"Kubernetes", "KUBERNETES_SERVICE_HOST"}, {"PBS", "PBS_JOBID"}, {"LSF", "LSB_JOBID"}, {"Flux", "FLUX_JOB_ID"},
}

// Scheduler returns the scheduler of the process's job, or "", and when the
// job's time limit ends, nil if unknown.
func Scheduler(lookup func(name string) (string, bool)) (name string, limit *time.Time) {
	for _, s := range schedulers {
		if v, _ := lookup(s.variable); v == "" {
			continue
		}
		end, _ := lookup("SLURM_JOB_END_TIME")
		if seconds, err := strconv.ParseInt(end, 10, 64); err == nil && seconds > 0 && s.name == "Slurm" {
			at := time.Unix(seconds, 0).UTC()
			limit = &at
		}
		return s.name, limit
	}
	return "", nil
}

// ErrorFile returns where a worker of torchelastic writes its exception, or "".
func ErrorFile(lookup func(name string) (string, bool)) string {
	path, _ := lookup("TORCHELASTIC_ERROR_FILE")
	return path
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

// inferNumber derives a number of the job that no variable of its own has. If
// torchrun's variables are set, the node launcher's variables are about
// torchrun processes.
func (e *environment) inferNumber(key string, to *attributes.Opt[int], least int, whole, single, nodes []string) {
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
	// A local rank other than Slurm's also comes from a program that starts several
	// processes.
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
