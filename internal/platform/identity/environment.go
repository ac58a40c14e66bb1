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

// namers are how many of the variables of the job, its first, name it for as long as
// somebody starts it again. The ids of the others are those of what a scheduler has
// given: whatever is started there has them.
const namers = 2

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
	// launchers give, and what they count beside Attempt.
	Run string
	// Key is the same for all attempts of one run: the first of these ids, with what
	// tells runs in it apart. Named says that nothing else has it; without, only
	// starts that the launcher counts are attempts of one run.
	Key   string
	Named bool
	Bad   []Bad
}

// FromEnvironment reads what launchers gave a process. Of each list the first
// variable that is set counts. lookup is one as os.LookupEnv, parse reads a number.
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
		if id == "" || id == "none" { // what Elastic calls a run without a name
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
		// torchrun is often given the id of the scheduler, which says no more than that.
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

// counts returns how often other launchers than the one that says the attempt have started
// the job again, empty for never. The first variable counts the starts of all.
func (e *environment) counts() (all string) {
	said := false
	for i, name := range table[Attempt][Environment] {
		n, err := e.parse(e.text(name))
		if err != nil || n < 0 {
			continue // which was said of the attempt
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

// schedulers are those that send a signal to what they end, by a variable that their jobs
// have.
var schedulers = [...]struct{ name, variable string }{
	{"Slurm", "SLURM_JOB_ID"}, {"Kubernetes", "KUBERNETES_SERVICE_HOST"}, {"PBS", "PBS_JOBID"}, {"LSF", "LSB_JOBID"}, {"Flux", "FLUX_JOB_ID"},
}

// Scheduler names the scheduler in whose job a process is, empty for none, and says when
// the time of that job is over, nil where that is not known.
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

// ErrorFile returns where a worker of torchelastic leaves its exception, empty for nowhere.
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

// inferNumber looks for a number of the job that no variable of its own says. Where
// torchrun's variables are there, what the launcher of the nodes says is about these.
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
