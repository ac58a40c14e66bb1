package report

import (
	"cmp"
	"slices"
	"sync"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/hang"
	"github.com/trainspan/trainspan/internal/analyze/profile"
	"github.com/trainspan/trainspan/internal/analyze/straggler/fromjob"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/extsort"
)

// State holds everything that reports need of some processes, without their spans:
// the ledger, the steps, and the totals of spans by name, in about 60 bytes per step
// and process. The States of the parts of a job merge to the State of the job,
// independent of the parts and their order: report(A ∪ B) is the report of the State
// of A merged with that of B. All files of one process must be in the same part. Jobs
// numbers the processes and groups them into jobs, so parts are independent of each
// other.
//
// The zero value is an empty State. It is not safe for concurrent use.
type State struct {
	names   []string // the paths that were loaded, sorted
	procs   []*process
	skipped []*job.FileError
	starts  []start // from run.json files
	others  []*hang.File
	spill   *extsort.Blocks
}

// packedMemory is the number of bytes of the packed steps of jobs that stay in memory. The rest
// goes to a temporary file. Tests set it.
var packedMemory int64 = 32 << 20

func newSpill() *extsort.Blocks { return extsort.NewBlocks(packedMemory, "") }

// process holds the data of one process.
type process struct {
	proc    *job.Process // as read: its rank and attempt may depend on other processes
	ledger  *account.Builder
	steps   *fromjob.Steps
	details *detailSink
	use     *profile.Use // not empty if the process is a profile
}

// collect reads the files of a set once. Packed steps beyond the memory limit of spill go to its
// file.
func collect(set *job.Set, spill *extsort.Blocks) (*State, error) {
	s := &State{spill: spill}
	var mu sync.Mutex
	of := make(map[*job.Process]*process)
	procs, err := set.Processes(func(p *job.Process) job.Sink {
		out := &process{proc: p, details: newDetailSink(p)}
		all := make(job.Sinks, 3)
		var steps account.Reader
		steps, out.steps = fromjob.NewReader(p, s.spill)
		all[0], out.ledger = account.OpenSink(p, s.spill, steps)
		all[1] = out.details
		all[2], out.use = profile.OpenSink(p)
		mu.Lock()
		defer mu.Unlock()
		of[p] = out
		return all
	})
	if err = cmp.Or(err, s.spill.Err()); err != nil {
		return nil, err
	}
	s.others, s.skipped = takeEvidence(set), slices.Clone(set.Skipped)
	for _, r := range set.Starts() {
		s.starts = appendStart(s.starts, r, nil)
	}
	for _, p := range procs {
		s.procs = append(s.procs, of[p])
	}
	return s, nil
}

// Processes returns the processes as they were read, before [State.Jobs] numbers them.
func (s *State) Processes() (out []*job.Process) {
	for _, p := range s.procs {
		out = append(out, p.proc)
	}
	return out
}

// Skipped returns the files that are not telemetry or cannot be read.
func (s *State) Skipped() []*job.FileError { return s.skipped }

// merge adds the contents of another State. Both share the immutable data.
func (s *State) merge(o *State) {
	for _, name := range o.names {
		if i, found := slices.BinarySearch(s.names, name); !found {
			s.names = slices.Insert(s.names, i, name)
		}
	}
	s.procs = append(s.procs, o.procs...)
	s.skipped = append(s.skipped, o.skipped...)
	s.starts = append(s.starts, o.starts...)
	s.others = append(s.others, o.others...)
}

// Jobs groups the processes into jobs. The job with the most processes comes first;
// several runs with the same session tag are ordered latest first. More can be merged
// afterwards, and Jobs called again.
func (s *State) Jobs() []*Job {
	of := make(map[*job.Process]*process, len(s.procs))
	var procs []*job.Process
	for _, p := range s.procs {
		c := *p.proc
		c.Sources = slices.Clone(c.Sources)
		of[&c] = p
		procs = append(procs, &c)
	}
	skipped, others := uniqueSkipped(s.skipped), uniqueOthers(s.others)
	var out []*Job
	for _, j := range job.Assemble(procs, uniqueStarts(s.starts)...) {
		attempts := fromjob.Attempts(j, func(p *job.Process) *fromjob.Steps { return of[p].steps })
		corrections := fromjob.Corrections(attempts)
		out = append(out, &Job{
			Name: joinNames(s.names), Job: j, Skipped: skipped, corrections: corrections,
			Ledger:   account.LedgerOf(j, func(p *job.Process) *account.Builder { return of[p].ledger }, corrections),
			Attempts: attempts,
			others:   others,
			spill:    s.spill,
			uses:     usesOf(j, func(p *job.Process) *profile.Use { return of[p].use }),
			details:  detailsOf(j, func(p *job.Process) *detailSink { return of[p].details }),
		})
	}
	slices.SortStableFunc(out, func(a, b *Job) int { return cmp.Compare(b.Job.Group, a.Job.Group) })
	return out
}

// uniqueSkipped returns the files without duplicates, in an order that does not depend on the
// order of reading.
func uniqueSkipped(all []*job.FileError) []*job.FileError {
	out := slices.SortedFunc(slices.Values(all), func(a, b *job.FileError) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Err.Error(), b.Err.Error()))
	})
	return slices.CompactFunc(out, func(a, b *job.FileError) bool { return a.Error() == b.Error() })
}

func joinNames(names []string) string {
	var out string
	for i, name := range names {
		if i > 0 {
			out += " "
		}
		out += name
	}
	return out
}

// maxRankSteps is the largest number of steps of a job, summed over ranks, for which
// digests keep single steps: with 40 to 80 bytes per step they have at most 8 GB.
const maxRankSteps = 100_000_000

// jobSteps estimates the number of steps of all ranks of the largest job, including
// those in other parts: the steps of its longest process times its world size.
func (s *State) jobSteps() (n int64) {
	for _, p := range s.procs {
		n = max(n, int64(p.steps.Len())*int64(max(p.proc.WorldSize, 1)))
	}
	return n
}

// Window replaces steps with windows of [straggler.WindowSteps], which take less than
// four bytes per step: see [account.Builder.Windows] and [straggler.State.Window]. The
// remarks of a report then list what is no longer exact. If always is false, Window does
// nothing unless the job has more than maxRankSteps.
func (s *State) Window(always bool) error {
	if !always && s.jobSteps() <= maxRankSteps {
		return nil
	}
	ends := make(map[int64]bool)
	for _, p := range s.procs {
		if err := p.ledger.AddEnds(ends); err != nil {
			return err
		}
	}
	for i, p := range s.procs {
		w := *p // other States may share it
		var err error
		if w.steps = p.steps.Windows(); w.steps.Len() == 0 {
			// Its steps come from the ledger: see timeline.
		} else if w.ledger, err = p.ledger.Windows(ends); err != nil {
			return err
		}
		s.procs[i] = &w
	}
	return nil
}

// Size returns the number of processes in the State, including copies, and the sum of their
// steps.
func (s *State) Size() (processes int, steps int64) {
	for _, p := range s.procs {
		steps += int64(p.steps.Len())
	}
	return len(s.procs), steps
}

// Read reads the files of a set and returns the jobs in it, the one with the most
// processes first.
func Read(set *job.Set) ([]*Job, error) {
	s, err := collect(set, newSpill())
	if err != nil {
		return nil, err
	}
	return s.Jobs(), nil
}
