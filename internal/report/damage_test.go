package report_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/gziptest"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// harms holds the ways in which files are damaged.
var harms = map[string]func(data []byte) []byte{
	"cut at 25 %":  func(data []byte) []byte { return data[:len(data)/4] },
	"cut at 60 %":  func(data []byte) []byte { return data[:len(data)*6/10] },
	"cut at 90 %":  func(data []byte) []byte { return data[:len(data)*9/10] },
	"a bit, early": func(data []byte) []byte { data[len(data)*3/10] ^= 0x10; return data },
	"a bit, late":  func(data []byte) []byte { data[len(data)*9/10] ^= 0x10; return data },
	"a tail":       func(data []byte) []byte { return append(data, bytes.Repeat([]byte("\x00garbage\xff"), 5)...) },
}

// layouts holds the forms in which a trace is stored.
var layouts = map[string]func(text []byte) []byte{
	"plain":      func(text []byte) []byte { return text },
	"one member": func(text []byte) []byte { return gziptest.Pack(text) },
	"many gzips": func(text []byte) []byte {
		var members [][]byte
		lines := slices.Collect(bytes.Lines(text))
		for part := range slices.Chunk(lines, 40) {
			members = append(members, bytes.Join(part, nil))
		}
		return gziptest.Pack(members...)
	},
}

// stored writes a job whose files have the given form, and returns the paths of its ranks.
func stored(t *testing.T, j simjob.Job, form func([]byte) []byte) (dir string, paths []string) {
	t.Helper()
	dir = t.TempDir()
	if _, err := j.Write(dir); err != nil {
		t.Fatal(err)
	}
	for r := range j.Ranks {
		path := filepath.Join(dir, fmt.Sprintf("a0-rank%d.pfw", r))
		rewrite(t, path, form)
		paths = append(paths, path)
	}
	return dir, paths
}

func rewrite(t *testing.T, path string, by func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, by(data), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// holdsAfterDamage fails the test if a report draws a wrong conclusion from the damaged file of a rank.
func holdsAfterDamage(t *testing.T, dir string, rank int) {
	t.Helper()
	for _, j := range []*report.Job{read(t, dir), digested(t, dir)} {
		r := report.Build(j)
		known := false // the end of that rank is recorded
		for _, p := range j.Job.Processes {
			known = known || p.Rank == rank && p.End != job.NoEnd
		}
		if r.Verdict.Outcome == "HUNG" || r.Verdict.Outcome == "COMPLETED" && !known {
			t.Errorf("outcome %s, want neither HUNG nor, without a recorded end (%v), COMPLETED", r.Verdict.Outcome, known)
		}
		if slices.Contains(named(r), rank) {
			t.Errorf("rank %d is named after damage, want it not named: %s", rank, r.Verdict.Rank.Sentence)
		}
	}
}

// TestDamagedFile checks that a rank whose file is damaged or truncated is not reported as
// hanging, as completed without a recorded end, or as slow because of missing records.
func TestDamagedFile(t *testing.T) {
	for form, pack := range layouts {
		for name, harm := range harms {
			t.Run(form+"/"+name, func(t *testing.T) {
				j := simjob.Job{Layout: simjob.DP, Ranks: 4, Steps: 40, Seed: 7}
				dir, paths := stored(t, j, pack)
				if got := report.Build(read(t, dir)).Verdict.Outcome; got != "COMPLETED" {
					t.Fatalf("undamaged: %s, want COMPLETED", got)
				}
				rewrite(t, paths[1], harm)
				holdsAfterDamage(t, dir, 1)
			})
		}
	}
}

// TestDamagedFileOfHang checks a job that hung: the report names the rank that the others
// wait for if the file of another rank is truncated, and no rank if its own file is.
func TestDamagedFileOfHang(t *testing.T) {
	for form, pack := range layouts {
		for cut, want := range map[int][]int{0: {2}, 3: {2}, 2: nil} {
			t.Run(fmt.Sprintf("%s/rank %d", form, cut), func(t *testing.T) {
				j := simjob.Job{Layout: simjob.DP, Ranks: 4, Steps: 40, Seed: 7, Faults: []simjob.Fault{{What: simjob.Hang, Ranks: []int{2}, Phase: simjob.Backward, From: 36, Watchdog: 30000}}}
				dir, paths := stored(t, j, pack)
				rewrite(t, paths[cut], harms["cut at 60 %"])
				r := report.Build(read(t, dir))
				var got []int
				if v := r.Verdict.Rank; v != nil && v.Kind == finding.Hang {
					got = v.Ranks
				}
				if !slices.Equal(got, want) || (r.Verdict.Outcome == "HUNG") != (want != nil) {
					t.Errorf("%s, waits for %v; want %v", r.Verdict.Outcome, got, want)
				}
			})
		}
	}
}

// TestKilledIsNotDamaged checks files of killed writers, which have complete gzip members or a
// stream that ends at a flush: they are not damaged, and their last state is known.
func TestKilledIsNotDamaged(t *testing.T) {
	flushed := func(text []byte) []byte {
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		_, _ = z.Write(text) // to memory: cannot fail
		_ = z.Flush()
		return out.Bytes()
	}
	for name, c := range map[string]struct {
		form func([]byte) []byte
		torn int
	}{"whole members": {layouts["many gzips"], 0}, "whole lines": {layouts["plain"], 0}, "a flush": {flushed, 4}} {
		t.Run(name, func(t *testing.T) {
			j := simjob.Job{Layout: simjob.DP, Ranks: 4, Steps: 40, Seed: 7, Faults: []simjob.Fault{{What: simjob.Hang, Ranks: []int{2}, Phase: simjob.Backward, From: 36, Watchdog: 30000}}}
			dir, _ := stored(t, j, c.form)
			r := report.Build(read(t, dir))
			if v := r.Verdict.Rank; v == nil || v.Kind != finding.Hang || !slices.Equal(v.Ranks, []int{2}) || r.Verdict.Outcome != "HUNG" || r.Quality.Torn != c.torn {
				t.Errorf("%s, %d torn: %s; want HUNG by rank 2, %d torn", r.Verdict.Outcome, r.Quality.Torn, v.Sentence, c.torn)
			}
		})
	}
}

// TestDamagedFileOfSamples makes the same checks for each sample job that completed.
func TestDamagedFileOfSamples(t *testing.T) {
	if testing.Short() {
		t.Skip("reads each of fifty jobs seven times")
	}
	var jobs []string
	for _, set := range []string{"gpu", "wild", "fourth"} {
		found, _ := filepath.Glob(filepath.Join("..", "..", "..", "shared", "data", set, "jobs", "*"))
		jobs = append(jobs, found...)
	}
	if len(jobs) == 0 {
		t.Skip("the sample jobs are not there")
	}
	for _, from := range jobs {
		t.Run(filepath.Base(from), func(t *testing.T) {
			set, err := job.Open(from)
			if err != nil {
				t.Skip(err)
			}
			all, err := report.Read(set)
			if err != nil || len(all) == 0 {
				t.Skip("no job")
			}
			before := report.Build(all[0])
			at := slices.IndexFunc(all[0].Job.Processes, func(p *job.Process) bool { return p.Rank == 1 })
			if before.Verdict.Outcome != "COMPLETED" || at < 0 || len(all[0].Job.Processes[at].Sources) != 1 {
				t.Skip("it did not complete, or has no file of rank 1 alone")
			}
			source := all[0].Job.Processes[at].Sources[0]
			for name, harm := range harms {
				t.Run(name, func(t *testing.T) {
					dir := t.TempDir()
					if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
						t.Fatal(err)
					}
					path := filepath.Join(dir, filepath.Base(source))
					if err := os.Chmod(path, 0o600); err != nil {
						t.Fatal(err)
					}
					rewrite(t, path, harm)
					set, err := job.Open(dir)
					if err != nil {
						t.Fatal(err)
					}
					jobs, err := report.Read(set)
					if err != nil {
						t.Fatal(err)
					}
					r := report.Build(jobs[0])
					known := slices.ContainsFunc(jobs[0].Job.Processes, func(p *job.Process) bool { return p.Rank == 1 && p.End != job.NoEnd })
					if r.Verdict.Outcome == "HUNG" || r.Verdict.Outcome == "COMPLETED" && !known {
						t.Errorf("outcome %s, want neither HUNG nor, without a recorded end (%v), COMPLETED", r.Verdict.Outcome, known)
					}
					for _, rank := range named(r) {
						if !slices.Contains(named(before), rank) {
							t.Errorf("rank %d is named after damage, want one of %v as before", rank, named(before))
						}
					}
				})
			}
		})
	}
}

// named returns the ranks that slow a job down.
func named(r *report.Report) []int {
	if v := r.Verdict.Rank; v != nil && v.Kind != finding.Unknown {
		return v.Ranks
	}
	return nil
}
