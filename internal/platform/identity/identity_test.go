package identity_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/platform/identity"
)

type said struct {
	from       identity.Source
	key, value string
}

// The first source wins, and of one source the first word, in whatever order
// they are added.
func TestOrderOfEvidence(t *testing.T) {
	for _, c := range []struct {
		name        string
		said        []said
		rank, world int // -1 if unknown
		host, doubt string
		from        identity.Source
		bad         int
	}{
		{name: "nothing", rank: -1, world: -1},
		{name: "the record before the start record", said: []said{{identity.Start, "rank", "2"}, {identity.Record, "rank", "3"}}, rank: 3, world: -1, from: identity.Record, doubt: "rank"},
		{name: "the start record before a JSON line", said: []said{{identity.Line, "rank", "1"}, {identity.Start, "rank", "2"}}, rank: 2, world: -1, from: identity.Start, doubt: "rank"},
		{name: "all agree", said: []said{{identity.Name, "", "4"}, {identity.Event, "rank", "4"}, {identity.Line, "rank", " 4 "}}, rank: 4, world: -1, from: identity.Line},
		{name: "the profile before its name", said: []said{{identity.Name, "", "5"}, {identity.Option, "", "6"}, {identity.Profile, "rank", "7"}}, rank: 7, world: -1, from: identity.Profile, doubt: "rank"},
		{name: "the caller before the name", said: []said{{identity.Name, "", "5"}, {identity.Option, "", "6"}}, rank: 6, world: -1, from: identity.Option, doubt: "rank"},
		{name: "the first word", said: []said{{identity.Resource, "rank", "9"}, {identity.Resource, "nv.dl.rank", "8"}}, rank: 8, world: -1, from: identity.Resource, doubt: "rank"},
		{name: "one word twice", said: []said{{identity.Record, "rank", "9"}, {identity.Record, "rank", "8"}}, rank: 8, world: -1, from: identity.Record, doubt: "rank"},
		{name: "a world that grew", said: []said{{identity.Record, "world_size", "8"}, {identity.Record, "world_size", "16"}, {identity.Start, "rank", "12"}}, rank: 12, world: 16, from: identity.Start, doubt: "world size"},
		{name: "a rank beyond the world", said: []said{{identity.Start, "rank", "7"}, {identity.Record, "pytorch.world_size", "2"}}, rank: 7, world: 2, from: identity.Start, doubt: "world size"},
		{name: "a word of another source", said: []said{{identity.Start, "megatron.rank", "7"}, {identity.Line, "job_id", "x"}}, rank: -1, world: -1},
		{name: "no numbers", said: []said{{identity.Record, "rank", "first"}, {identity.Record, "world_size", ""}, {identity.Record, "world_size", "0"}}, rank: -1, world: -1},
		{name: "numbers that cannot be", said: []said{{identity.Record, "rank", "-1"}, {identity.Record, "world_size", "1048576"}, {identity.Start, "attempt", "4611686018427387904"}}, rank: -1, world: -1, bad: 3},
		{name: "hosts", said: []said{{identity.Resource, "host.id", "17"}, {identity.Resource, "k8s.node.name", "node7"}, {identity.Event, "node_name", ""}}, rank: -1, world: -1, host: "node7"},
	} {
		for range 5 {
			rand.Shuffle(len(c.said), func(i, j int) { c.said[i], c.said[j] = c.said[j], c.said[i] })
			var id identity.Identity
			for _, s := range c.said {
				if n, err := strconv.ParseInt(s.value, 10, 64); s.key == "" && err == nil {
					id.SayNumber(s.from, identity.Rank, n)
					continue
				}
				id.Say(s.from, s.key, s.value)
			}
			if id.Rank.Or(-1) != c.rank || id.WorldSize.Or(-1) != c.world || id.Host != c.host || id.Doubt() != c.doubt || id.Bad != c.bad {
				t.Errorf("%s: rank %v, world size %v, host %q, doubt %q, %d bad, readers %v; want %d, %d, %q, %q, %d", c.name, id.Rank, id.WorldSize, id.Host, id.Doubt(), id.Bad, c.said, c.rank, c.world, c.host, c.doubt, c.bad)
			}
			if from, known := id.From(identity.Rank); known != (c.rank >= 0) || known && from != c.from {
				t.Errorf("%s: rank is from %v, want %v", c.name, from, c.from)
			}
		}
	}
}

// Every field has a word for each place where we write it, and no word stands
// for two fields.
func TestWords(t *testing.T) {
	for _, f := range []identity.Field{identity.Rank, identity.WorldSize, identity.Attempt} {
		for from := range identity.Source(4) {
			if from == identity.Record && f == identity.Attempt || from == identity.Line && f == identity.WorldSize {
				continue
			}
			var id identity.Identity
			id.Say(from, f.Word(from), "7")
			if by, known := id.From(f); !known || by != from {
				t.Errorf("%v is from %v (known %v), want %v", f, by, known, from)
			}
		}
	}
	id := identity.FromResource(func(key string) string {
		return map[string]string{"megatron.rank": "3", "training.job": "j", "process.pid": "12", "training.attempt": "1", "container.id": "c"}[key]
	})
	if id.Rank.Or(-1) != 3 || id.Job != "j" || id.PID.Or(-1) != 12 || id.Attempt.Or(-1) != 1 || id.Instance != "c" || id.WorldSize.IsSet() {
		t.Errorf("identity %+v, want rank 3, job j, process 12, attempt 1, instance c, no world size", id)
	}
}

func TestRankInName(t *testing.T) {
	for name, want := range map[string]int{
		"trace-3-of-8.pfw.gz":                   3,
		"telemetry-rank3.jsonl":                 3,
		"dir-rank9/a_RANK-12.pfw":               12,
		"rank_4.1.pfw.gz":                       4,
		"worker3.1700000000000.pt.trace.json":   3,
		`C:\runs\rank7.json`:                    7,
		"profiles.zip:out/host_71.rank2.json":   2,
		"1727-TP-1.trace.json.gz":               1,
		"crank7x.pfw":                           -1,
		"crank7.pfw":                            -1,
		"rank7x.pfw":                            -1,
		"http-3.pfw":                            -1,
		"rank3/trace.pfw":                       -1,
		"franky-1.pfw":                          -1,
		"rank99999999999999999999.pfw":          -1,
		"rank1048576.pfw":                       -1,
		"coworker3.pfw":                         -1,
		"trace-12.pfw":                          -1,
		"":                                      -1,
		"rank3-rank4.pfw":                       3,
		"job-rank3.pfw":                         3,
		"llama-tp8-rank3.jsonl":                 3,
		"bert-worker-0_rank_5.pt.trace.json":    5,
		"epoch5.rank0.worker2.trace.json":       0,
		"telemetry-rank03-attempt2.recovered.x": 3,
	} {
		if got := identity.RankInName(name); got != want {
			t.Errorf("RankInName(%q) = %d, want %d", name, got, want)
		}
	}
}

func TestWithoutRank(t *testing.T) {
	for name, want := range map[string]string{"job-rank3": "job", "rank3": "trace", "rank3.part": "part", "job-rank3-x": "job-x", "trace-3-of-8": "trace", "job": "job", "crank7": "crank7", "rank3-rank4": "trace"} {
		if got := identity.WithoutRank(name); got != want || identity.RankInName(got) >= 0 {
			t.Errorf("WithoutRank(%q) = %q, want %q", name, got, want)
		}
	}
}

// Processes without an id get distinct substitutes.
func TestInstead(t *testing.T) {
	seen := make(map[int]bool)
	for _, id := range []identity.Identity{{}, {Host: "a"}, {Service: "a"}, {Instance: "a"}, {Host: "a", Service: "b"}} {
		if pid := id.Instead(id.Host); pid < 1<<30 || seen[pid] {
			t.Errorf("Instead() = %d, want a new number from 1<<30 on", pid)
		} else {
			seen[pid] = true
		}
	}
	if identity.HostOf(-1) != "unknown-host" || identity.HostOf(3) != "rank3@unknown-host" || identity.HostName() == "" {
		t.Errorf("HostOf(-1), HostOf(3), HostName() = %q, %q, %q; want unknown-host, rank3@unknown-host and a name", identity.HostOf(-1), identity.HostOf(3), identity.HostName())
	}
}

// All attempts of a run have the same key.
func TestKey(t *testing.T) {
	for env, want := range map[string]string{
		"": " false", "SLURM_JOB_ID=7": "7 false", "SLURM_JOB_ID=7 SLURM_STEP_ID=1 SLURM_RESTART_COUNT=3": "7.1 false",
		"SLURM_JOB_ID=7 SLURM_ARRAY_TASK_ID=4 SLURM_STEP_ID=1":     "7_4.1 false",
		"TORCHELASTIC_RUN_ID=none SLURM_JOB_ID=7":                  "7 false",
		"TORCHELASTIC_RUN_ID=7 SLURM_JOB_ID=7 SLURM_STEP_ID=1":     "7.1 false",
		"TORCHELASTIC_RUN_ID=llama SLURM_JOB_ID=7 SLURM_STEP_ID=1": "llama true",
		"TRAINSPAN_JOB=7 SLURM_JOB_ID=7":                           "7 true",
		"PBS_JOBID=8.head":                                         "8.head false",
	} {
		l := identity.FromEnvironment(func(name string) (string, bool) {
			for _, v := range strings.Fields(env) {
				if key, value, _ := strings.Cut(v, "="); key == name {
					return value, true
				}
			}
			return "", false
		}, strconv.Atoi)
		if got := fmt.Sprint(l.Key, " ", l.Named); got != want || len(l.Bad) > 0 {
			t.Errorf("%s: %s, %v; want %s", env, got, l.Bad, want)
		}
	}
}

// TestVariablesAreDocumented checks that the configuration page has every
// variable with which launchers describe a process.
func TestVariablesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	identity.FromEnvironment(func(name string) (string, bool) {
		if asked++; !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/reference/configuration.md does not have %s", name)
		}
		return "", false
	}, strconv.Atoi)
	if asked < 10 {
		t.Errorf("%d variables were asked for, want at least 10", asked)
	}
}

// TestIsKnown checks that substitutes do not count as host names.
func TestIsKnown(t *testing.T) {
	for host, want := range map[string]bool{"": false, identity.UnknownHost: false, identity.HostOf(3): false, identity.HostOf(-1): false, "node-1": true} {
		if got := identity.IsKnown(host); got != want {
			t.Errorf("IsKnown(%q) = %v, want %v", host, got, want)
		}
	}
}
