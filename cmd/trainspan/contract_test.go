package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/contract"
)

// The contract is the part of the output of the reading commands that must not
// change: the keys and types of JSON output, the diagnoses, accounts, steps and
// sums of known jobs, and every exit status. testdata/contract has a file for
// each corpus, without sentences for people.
//
// When an output changes on purpose, run
//
//	go test ./cmd/trainspan -run TestContract -update
//
// and review the changed lines of testdata/contract as a part of the change. A
// corpus of ../shared that is absent is skipped and its file is not changed. Add
// a new command that prints JSON to readingCommands or a similar list, and a new
// job of this repository to contractJobs.

// contractCommand is one command line about a job.
type contractCommand struct {
	name string
	// args returns the arguments for the paths of the job and a folder for output.
	args func(paths []string, dir string) []string
	view contract.View
}

// about returns args for a command with the paths of the job after some words.
func about(words ...string) func([]string, string) []string {
	return func(paths []string, _ string) []string { return append(slices.Clone(words), paths...) }
}

// into returns args for a command that writes a file to the folder.
func into(name string, words ...string) func([]string, string) []string {
	return func(paths []string, dir string) []string {
		return append(append(slices.Clone(words), "-o", filepath.Join(dir, name)), paths...)
	}
}

// of returns args for a command that reads the output of an earlier one.
func of(name string, words ...string) func([]string, string) []string {
	return func(_ []string, dir string) []string {
		return append(slices.Clone(words), filepath.Join(dir, name))
	}
}

// reportKeep has the values for programs. The frozen ones come first.
var reportKeep = []string{
	"verdict.straggler", "verdict.outcome", "verdict.diagnosis", "verdict.confidence", "verdict.straggler_attempt", "verdict.straggler_cost",
	"goodput", "ledger", "steps", "losses[].category", "losses[].share", "figures[].name", "figures[].value",
	"outcome", "attempts", "ranks", "checkpoints", "data_quality", "profile", "version",
}

var reportDrop = []string{
	// These are also in verdict.straggler, or in ledger.attempts.
	"attempts[].straggler.sentence", "attempts[].straggler.second", "attempts[].straggler.needed", "attempts[].straggler.next_action",
	"attempts[].straggler.ranks_table", "attempts[].straggler.waits", "attempts[].straggler.evidence", "attempts[].straggler.coverage", "attempts[].straggler.other_findings",
	"attempts[].straggler.causes", "attempts[].straggler.hosts", "attempts[].start_ns", "attempts[].stop_ns", "attempts[].ended", "attempts[].ranks",
	"verdict.straggler.ranks_table", "verdict.straggler.waits.names",
	// Sentences.
	"verdict.straggler.sentence", "verdict.straggler.second", "verdict.straggler.needed", "verdict.straggler.next_action",
	"outcome.text", "attempts[].outcome.text", "data_quality.see",
	// Names of operators of other programs.
	"profile.operators[].name",
	"ranks[].host",
}

var reportProse = []string{"verdict.next[]", "verdict.doubts[]", "data_quality.remarks[]"}

// digestKeep has the values that a report of a digest shares with that of the
// traces.
var digestKeep = []string{
	"verdict.straggler.kind", "verdict.straggler.ranks", "verdict.straggler.cause", "verdict.straggler.gain", "verdict.straggler.cost", "verdict.outcome",
	"goodput", "ledger.categories_ns", "steps.count", "steps.wait_ms", "steps.transfer_ms", "steps.phases_ms",
}

// readingCommands run on every corpus.
var readingCommands = []contractCommand{
	{name: "report", args: about("report", "--json"), view: contract.View{Form: contract.Object, Keep: reportKeep, Drop: reportDrop, Prose: reportProse}},
	{name: "report --check", args: about("report", "--check")},
	{name: "summary", args: about("trace", "summary", "--json"), view: contract.View{Form: contract.Object, Keep: []string{"events", "counters", "metadata", "start_us", "end_us", "categories", "processes", "epochs", "union_error_us"},
		Drop: []string{"processes[].host", "processes[].host_hash", "processes[].label", "processes[].start_us", "processes[].end_us", "epochs[].host_hash", "epochs[].start_us", "epochs[].end_us", "categories[].mean_us", "epochs[].pid"}}},
	{name: "steps", args: about("trace", "steps", "--json"), view: contract.View{Form: contract.Lines, Group: []string{"attempt", "rank", "rule"}, Keep: []string{""}}},
	{name: "steps --csv", args: about("trace", "steps", "--csv"), view: contract.View{Form: contract.CSV, Group: []string{"attempt"}, Keep: []string{"[].rows", "[].dur_us"}}},
	{name: "events", args: about("trace", "events", "--json"), view: contract.View{Form: contract.Lines, Group: []string{"cat", "ph"}, Keep: []string{"[].cat", "[].ph", "[].rows", "[].dur_us"}, Open: []string{"[].args"}}},
	{name: "info", args: about("trace", "info", "--json"), view: contract.View{Form: contract.Object, Keep: []string{""},
		Drop: []string{"[].path", "[].file_size", "[].file_mtime_ns", "[].members", "[].command", "[].folder", "[].program", "[].processes[].host", "[].open_spans", "[].format_version",
			"[].version", "[].compression", "[].line_aligned", "[].start_us", "[].end_us", "[].processes[].pid", "[].metadata"},
		Prose: []string{"[].missing[]"}}},
	{name: "events --sort duration", args: about("trace", "events", "--sort", "duration", "--json"), view: contract.View{Form: contract.Lines, Keep: []string{"[].dur_us", "[].rank"}, Open: []string{"[].args"}}},
	{name: "validate", args: about("trace", "validate", "--json"), view: contract.View{Form: contract.Object, Keep: []string{"[].ok", "[].dialect", "[].lines", "[].events", "[].counters", "[].metadata", "[].lanes", "[].open_spans", "[].orphans", "[].events_lost", "[].problem_count", "[].groups[].count"},
		Open: []string{"[].counts"}}},
	{name: "runs", args: about("runs", "--json"), view: contract.View{Form: contract.Lines, Keep: []string{""}, Drop: []string{"[].outcome", "[].diagnosis", "[].job", "[].rank_time_ns", "[].lost_ns", "[].spent", "[].slow_hosts"}}},
	{name: "digest", args: into("job.digest", "trace", "digest", "--force")},
	{name: "report of the digest", args: of("job.digest", "report", "--json"), view: contract.View{Form: contract.Object, Keep: digestKeep}},
}

// writingCommands print a summary of the files that they write. They run on the
// jobs of contractJobs.
var writingCommands = []contractCommand{
	{name: "merge", args: into("merged.pfw.gz", "trace", "merge", "--json"), view: contract.View{Form: contract.Object, Keep: []string{""}, Drop: []string{"files", "output"}}},
	{name: "summary of the merged", args: of("merged.pfw.gz", "trace", "summary", "--json"), view: contract.View{Form: contract.Object, Keep: []string{"events", "categories[].count", "categories[].total_us"}}},
	{name: "split", args: func(_ []string, dir string) []string {
		return []string{"trace", "split", "--json", filepath.Join(dir, "merged.pfw.gz"), "-o", filepath.Join(dir, "pieces")}
	}, view: contract.View{Form: contract.Object, Keep: []string{"[].events"}}},
	{name: "recover", args: func(paths []string, dir string) []string {
		first, _ := filepath.Glob(filepath.Join(paths[0], "*.pfw*"))
		return append([]string{"trace", "recover", "--json", "--force", "-o", filepath.Join(dir, "recovered.pfw.gz")}, first[:min(1, len(first))]...)
	}, view: contract.View{Form: contract.Object, Keep: []string{""}, Drop: []string{"[].file", "[].output"}}},
	{name: "convert --to v1", args: func(_ []string, dir string) []string {
		return []string{"trace", "convert", "--json", filepath.Join(dir, "merged.pfw.gz"), "--to", "v1", "-o", filepath.Join(dir, "v1.pfw.gz")}
	}, view: contract.View{Form: contract.Object, Keep: []string{"[].events"}}},
	{name: "convert --to parquet", args: func(_ []string, dir string) []string {
		return []string{"trace", "convert", "--json", filepath.Join(dir, "merged.pfw.gz"), "--to", "parquet", "-o", filepath.Join(dir, "lake"), "--run", "r"}
	}, view: contract.View{Form: contract.Object, Keep: []string{""}, Drop: []string{"[].output", "[].bytes"}}},
	{name: "convert --to otlp", args: func(_ []string, dir string) []string {
		return []string{"trace", "convert", filepath.Join(dir, "merged.pfw.gz"), "--to", "otlp", "-o", "-"}
	}, view: contract.View{Form: contract.Lines, Keep: []string{"[].resourceSpans[].scopeSpans[].spans[].kind"}}},
	{name: "convert --to chrome", args: func(_ []string, dir string) []string {
		return []string{"trace", "convert", filepath.Join(dir, "merged.pfw.gz"), "--to", "chrome", "-o", "-"}
	}, view: contract.View{Form: contract.Object, Keep: []string{"traceEvents[].dur"}}},
}

// judgingCommands give the results that the goodput and straggler corpora test.
var judgingCommands = []contractCommand{
	{name: "report", args: about("report", "--json"), view: contract.View{Form: contract.Object, Keep: reportKeep, Prose: reportProse,
		Drop: append([]string{"verdict.straggler.waits", "verdict.straggler.evidence", "ledger.attempts", "figures[].name", "data_quality"}, reportDrop...)}},
	readingCommands[1],
	readingCommands[3],
}

// importCommands run on profiles and compile logs of PyTorch, in addition to
// the reading commands that accept them.
var importCommands = []contractCommand{
	{name: "import", args: into("imported.pfw.gz", "trace", "import", "--json", "--force"), view: contract.View{Form: contract.Object, Keep: []string{"files[].events", "files[].rank", "events", "logs[].phases", "logs[].compilations", "logs[].operators", "logs[].rank"}}},
	{name: "summary of the import", args: of("imported.pfw.gz", "trace", "summary", "--json"), view: contract.View{Form: contract.Object, Keep: []string{"events", "categories[].category", "categories[].count", "categories[].total_us", "categories[].self_us", "processes[].rank", "processes[].compute_us", "processes[].comm_us", "processes[].copies_us", "processes[].idle_us"}}},
	readingCommands[0],
	readingCommands[1],
}

// contractJob is a job for the commands.
type contractJob struct {
	name  string
	paths []string
}

type contractCorpus struct {
	name string
	// jobs returns the jobs, or an error if the corpus is absent.
	jobs     func(t *testing.T) ([]contractJob, error)
	commands []contractCommand
	// pairs returns the jobs to compare with job i.
	pairs func(jobs []contractJob, i int) []contractJob
	// short is the number of jobs that go test -short includes.
	short int
}

var contractCorpora = []contractCorpus{
	{"own", ownJobs, slices.Concat(readingCommands, writingCommands), withHealthy, 100},
	{"own-profiles", ownProfiles, importCommands, withNone, 100},
	{"wild", sharedJobs("wild/jobs"), readingCommands, withNext, 3},
	{"gpu", sharedJobs("gpu/jobs"), readingCommands, withNext, 1},
	{"fourth", sharedJobs("fourth/jobs"), readingCommands, withNext, 1},
	{"dftracer", sharedFiles("dftracer"), readingCommands, withNone, 0},
	{"kineto", sharedProfiles, importCommands, withNone, 0},
	{"straggler", stragglerJobs, judgingCommands, withNone, 0},
	{"goodput", goodputJobs, judgingCommands, withNone, 0},
	{"one-logger", oneLoggerJobs, slices.Concat(judgingCommands, readingCommands[5:7], readingCommands[8:9]), withNone, 0},
	{"exits", commandLines, []contractCommand{{name: "exit", args: func(words []string, _ string) []string { return words }}}, withNone, 1000},
}

func withNone([]contractJob, int) []contractJob { return nil }

// withNext compares the first jobs with those that follow.
func withNext(jobs []contractJob, i int) []contractJob {
	if i >= min(5, len(jobs)-1) {
		return nil
	}
	return jobs[i+1 : i+2]
}

// withHealthy compares the job named healthy with each other one.
func withHealthy(jobs []contractJob, i int) []contractJob {
	if jobs[i].name != "healthy" {
		return nil
	}
	return slices.Concat(jobs[:i], jobs[i+1:])
}

var contractShared = filepath.Join("..", "..", "..", "shared")

func below(dir string, match func(fs.DirEntry) bool) ([]contractJob, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var jobs []contractJob
	for _, e := range entries {
		if match(e) {
			jobs = append(jobs, contractJob{e.Name(), []string{filepath.Join(dir, e.Name())}})
		}
	}
	if len(jobs) == 0 {
		return nil, fmt.Errorf("no jobs in %s", dir)
	}
	return jobs, nil
}

func ownJobs(*testing.T) ([]contractJob, error) {
	return below(filepath.Join("testdata", "contract", "jobs"), fs.DirEntry.IsDir)
}

func ownProfiles(*testing.T) ([]contractJob, error) {
	return below(filepath.Join("testdata", "contract", "profiles"), fs.DirEntry.IsDir)
}

// commandLines returns jobs for which only the exit status is compared. OUT is a
// file that does not exist.
func commandLines(t *testing.T) ([]contractJob, error) {
	const own = "testdata/contract/jobs/"
	lines := []string{
		"", "--version", "--help", "frobnicate", "--frobnicate", "version", "help report", "help frobnicate", "completion bash",
		"compare " + own + "healthy", "compare " + own + "healthy " + own + "healthy", "compare " + own + "healthy " + own + "slow-rank",
		"compare --fail-over 90% " + own + "healthy " + own + "slow-rank", "compare --margin x " + own + "healthy " + own + "healthy",
		"trace convert " + own + "bodies/r0.pfw.gz --to frobnicate -o OUT", "trace convert " + own + "bodies/r0.pfw.gz --to v1 -o " + own + "bodies/r1.pfw.gz",
		"trace digest " + own + "healthy", "trace import " + own + "healthy -o OUT", "trace recover " + own + "healthy -o OUT", "trace merge " + own + "healthy",
		"report --run frobnicate " + own + "healthy", "report --check " + own + "hang", "runs " + own + "restarts", "trace replay " + own + "healthy",
		"trace events --sort duration --limit 0 " + own + "healthy", "trace events --sort size " + own + "healthy", "trace events --all " + own + "healthy", "trace steps --from frobnicate " + own + "healthy", "trace steps --json --csv " + own + "healthy", "trace summary --from +1h " + own + "healthy",
		"trace validate " + own + "hang", "trace validate --unfinished " + own + "hang", "trace validate --foreign " + own + "hang", "trace validate --show 1000 " + own + "hang", "trace validate -q " + own + "damaged",
		"alert", "alert " + own + "healthy", "top", "open OUT", "trace split OUT", "run", "run --frobnicate",
	}
	for _, command := range []string{"report", "trace summary", "trace steps", "trace events", "trace info", "trace validate", "runs", "trace digest -o OUT", "trace convert --to v1 -o OUT", "trace merge -o OUT", "trace import -o OUT", "compare x", "trace recover", "trace replay"} {
		lines = append(lines, command, command+" testdata/nowhere", command+" --frobnicate "+own+"healthy")
	}
	var jobs []contractJob
	for _, line := range lines {
		words := strings.Fields(line)
		for i, word := range words {
			if word == "OUT" {
				words[i] = filepath.Join(t.TempDir(), "out.pfw.gz")
			}
		}
		jobs = append(jobs, contractJob{"trainspan " + line, words})
	}
	return jobs, nil
}

func sharedJobs(dir string) func(*testing.T) ([]contractJob, error) {
	return func(*testing.T) ([]contractJob, error) {
		return below(filepath.Join(contractShared, "data", dir), fs.DirEntry.IsDir)
	}
}

// sharedFiles returns one job with all files of a folder.
func sharedFiles(dir string) func(*testing.T) ([]contractJob, error) {
	return func(*testing.T) ([]contractJob, error) {
		path := filepath.Join(contractShared, "data", dir)
		_, err := os.Stat(path)
		return []contractJob{{"all", []string{path}}}, err
	}
}

// sharedProfiles returns copies with fixed modification times, which date a
// profile without a time base.
func sharedProfiles(t *testing.T) ([]contractJob, error) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(contractShared, "data", "kineto"))); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	for _, file := range files {
		at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		err = errors.Join(err, os.Chtimes(file, at, at))
	}
	if err != nil {
		return nil, err
	}
	// For this one, reports on a busy machine count a record with an impossible
	// time, and others do not.
	unsteady := "ddp_v100_2gpu_compiled_eager_memory_torch2.0dev.json.gz"
	return below(dir, func(e fs.DirEntry) bool { return e.Name() != "manifest.json" && e.Name() != unsteady })
}

var compareView = contract.View{Form: contract.Object, Keep: []string{""}, Drop: []string{"base", "new", "sentence"}, Prose: []string{"notes[]", "reasons[]"}}

// recordContract records the output for the first n jobs.
func recordContract(t *testing.T, corpus *contractCorpus, jobs []contractJob, n int) *contract.File {
	f := contract.NewFile()
	ask := func(job string, c *contractCommand, args []string) {
		status, out, _ := cli(t, args...)
		if err := f.Add(job, c.name, &c.view, status, out); err != nil {
			t.Errorf("%s: the output of trainspan %s is not %s: %v", job, strings.Join(args, " "), c.view.Form, err)
		}
	}
	for _, job := range jobs[:n] {
		dir := t.TempDir()
		for i := range corpus.commands {
			c := &corpus.commands[i]
			ask(job.name, c, c.args(job.paths, dir))
		}
	}
	for i, base := range jobs[:n] {
		for _, next := range corpus.pairs(jobs, i) {
			c := &contractCommand{name: "compare with " + next.name, view: compareView}
			ask(base.name, c, []string{"compare", "--json", base.paths[0], next.paths[0]})
		}
	}
	return f
}

// TestContract compares the output with testdata/contract; -update records it.
func TestContract(t *testing.T) {
	if *rewrite && testing.Short() {
		t.Fatal("-update needs all jobs: leave out -short")
	}
	for _, corpus := range contractCorpora {
		t.Run(corpus.name, func(t *testing.T) {
			t.Parallel()
			jobs, err := corpus.jobs(t)
			if err != nil {
				t.Skip("the corpus is not here:", err)
			}
			n := len(jobs)
			if testing.Short() {
				n = min(n, corpus.short)
			}
			if n == 0 {
				t.Skip("not a part of -short")
			}
			path := filepath.Join("testdata", "contract", corpus.name+".json")
			want := contract.NewFile()
			data, err := os.ReadFile(path)
			if err == nil {
				want, err = contract.Decode(data)
			}
			if err != nil && !(*rewrite && errors.Is(err, fs.ErrNotExist)) {
				t.Fatal(err)
			}
			got := recordContract(t, &corpus, jobs, n)
			if *rewrite {
				got.Keep(want)
				if err := os.WriteFile(path, got.Encode(), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			reportDifferences(t, contract.Compare(got, want, n < len(jobs)))
		})
	}
}

// reportDifferences prints the first differences.
func reportDifferences(t *testing.T, all []contract.Difference) {
	const most = 20
	for _, d := range all[:min(most, len(all))] {
		t.Error(d)
	}
	if len(all) > most {
		t.Errorf("and %d more differences; -update records all, for git diff", len(all)-most)
	}
}
