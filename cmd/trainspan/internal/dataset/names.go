package dataset

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"path"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/trainspan/trainspan/internal/job"
)

// Tables returns the folders of a run. That of the index is the last.
func Tables(run string) []string {
	return []string{ledgerDir(run), stepsDir(run), eventsDir(run), indexDir(run)}
}

func eventsDir(run string) string { return filepath.Join("events", "run="+run) }

func ledgerDir(run string) string { return filepath.Join("ledger", "run="+run) }

func stepsDir(run string) string { return filepath.Join("steps", "run="+run) }

func indexDir(run string) string { return filepath.Join("runs", "run="+run) }

// ranksPerFile is the number of ranks that share a file. It counts ranks, not
// rows, so that the names of a part do not depend on its size.
const ranksPerFile = 32

// IsPart reports whether a file of a data set has a name that Write uses, or
// used in version 1 of the schema.
func IsPart(file string) bool { return partName.MatchString(path.Base(file)) }

var partName = regexp.MustCompile(`^(attempt-(\d+|none)\.ranks-(\d+-\d+|none-[0-9a-f]{8})|part-\d+)\.parquet$`)

// fileKey identifies the processes that share a file.
type fileKey struct {
	attempt int
	block   int64 // rank / ranksPerFile, -1 without a rank
}

func (k fileKey) compare(o fileKey) int {
	return cmp.Or(cmp.Compare(k.attempt, o.attempt), cmp.Compare(k.block, o.block))
}

func keyOf(p *job.Process) fileKey {
	if !p.RankKnown {
		return fileKey{p.Attempt, -1}
	}
	return fileKey{p.Attempt, int64(p.Rank) / ranksPerFile}
}

// attempts returns the processes of a job that have events, by attempt. Helper
// processes without an attempt are in attempt 0.
func (b *Builder) attempts(j *Job) map[int][]*job.Process {
	out := make(map[int][]*job.Process)
	for _, p := range slices.Concat(j.Job.Processes, j.Job.Helpers) {
		if proc := b.procs[p]; proc != nil && len(proc.hours) > 0 {
			out[p.Attempt] = append(out[p.Attempt], p)
		}
	}
	return out
}

// fileNames returns the names of the files of events, the same in each hour.
func fileNames(attempts map[int][]*job.Process) map[fileKey]string {
	of := make(map[fileKey][]*job.Process)
	for _, procs := range attempts {
		for _, p := range procs {
			of[keyOf(p)] = append(of[keyOf(p)], p)
		}
	}
	out := make(map[fileKey]string, len(of))
	for key, procs := range of {
		out[key] = fileName(key.attempt, procs)
	}
	return out
}

// fileName returns a name with the attempt and ranks of a file. Processes
// without a rank are named by other properties, so that those of another node
// have another name.
func fileName(attempt int, procs []*job.Process) string {
	name := "attempt-none"
	if attempt > 0 {
		name = fmt.Sprintf("attempt-%d", attempt)
	}
	if ranks := ranksOf(procs); len(ranks) > 0 {
		return fmt.Sprintf("%s.ranks-%d-%d.parquet", name, ranks[0], ranks[len(ranks)-1])
	}
	var who []string
	for _, p := range procs {
		who = append(who, fmt.Sprintf("%q %d\n", p.Host, p.PID))
	}
	slices.Sort(who)
	hash := fnv.New32a()
	for _, w := range who {
		_, _ = hash.Write([]byte(w))
	}
	return fmt.Sprintf("%s.ranks-none-%08x.parquet", name, hash.Sum32())
}

// ranksOf returns the sorted known ranks of processes.
func ranksOf(procs []*job.Process) (ranks []int32) {
	for _, p := range procs {
		if p.RankKnown {
			ranks = append(ranks, int32(p.Rank))
		}
	}
	slices.Sort(ranks)
	return slices.Compact(ranks)
}
