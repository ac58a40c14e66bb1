package rundir

import (
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/platform/fswrite"
)

// If there is no space for a new file, the end of the command overwrites the
// old one, with the lists that fit.
func TestWriteWithoutSpace(t *testing.T) {
	real := shared
	t.Cleanup(func() { shared = real })
	many := make([]Process, 200)
	for i := range many {
		many[i] = Process{PID: i + 1, Program: "python3"}
	}
	for name, c := range map[string]struct {
		processes []Process
		problems  []string
		left      int // problems
	}{
		"all fits":             {problems: []string{"the disk is full"}, left: 1},
		"without processes":    {processes: many, problems: []string{"the disk is full"}, left: 1},
		"without the problems": {problems: []string{strings.Repeat("the disk is full ", 1000)}},
	} {
		t.Run(name, func(t *testing.T) {
			shared = real
			file, _, err := CreateFile(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			began := time.Unix(1_700_000_000, 0)
			r := &Run{Name: "job", State: Running, Started: began, Seen: began}
			if err := file.Write(r); err != nil {
				t.Fatal(err)
			}
			shared.replace = func(string, []byte, fs.FileMode, fswrite.Proof) (fswrite.Proof, error) {
				return nil, syscall.ENOSPC
			}
			status := 3
			r.State, r.EndedBy, r.ExitStatus, r.Seen, r.Processes, r.Problems = Ended, ByExit, &status, began.Add(time.Hour), c.processes, c.problems
			if err := file.Write(r); err != nil {
				t.Fatal(err)
			}
			if err := file.Beat(began.Add(2 * time.Hour)); err != nil {
				t.Error(err)
			}
			back, err := Read(file.Path())
			if err != nil || back.State != Ended || back.ExitStatus == nil || *back.ExitStatus != 3 || !back.Seen.Equal(began.Add(2*time.Hour)) {
				t.Fatalf("%+v, error %v; want an end with status 3 at the last beat", back, err)
			}
			if len(back.Problems) != c.left || len(back.Processes)+back.MoreProcesses != len(c.processes) {
				t.Errorf("%d problems and %d + %d processes, want %d and %d in all", len(back.Problems), len(back.Processes), back.MoreProcesses, c.left, len(c.processes))
			}
			info, err := os.Stat(file.Path())
			if err != nil || info.Size()%block != 0 {
				t.Errorf("%v bytes, error %v; want a multiple of %d", info.Size(), err, block)
			}
		})
	}
}
