//go:build unix

package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/launch"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/rundir"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/ledger"
	"github.com/trainspan/trainspan/integrations/python"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// pythonSide is the client that Python processes load, and what reads its rings.
type pythonSide struct {
	drain *python.Drain
	dirs  []string // that this start made, removed at the end
	rings string   // folders of rings, as in PATH
}

// Variables of Python processes.
const (
	varRing       = "TRAINSPAN_RING"
	varPythonPath = "PYTHONPATH"
)

// sharedMemory is where rings are best: no disk has a part in it.
const sharedMemory = "/dev/shm"

// startPython puts the client in the way of Python processes and begins to read
// their rings. These are in shared memory or, where that is full or missing, in
// the folder for temporary files of this node. The client is in that folder or,
// where nothing can be written there, in shared memory or the directory of the
// start.
func (s *Session) startPython(ready *launch.Ready) (err error) {
	p := &pythonSide{}
	defer func() {
		if err != nil {
			p.remove()
		}
	}()
	client, err := p.client(ready, s.lookup, s.dir)
	if err != nil {
		return err
	}
	rings := []string{filepath.Join(client, folderRings)}
	if err := os.Mkdir(rings[0], 0o700); err != nil {
		return err
	}
	if filepath.Dir(client) != sharedMemory { // which is where it is when it can be nowhere else
		if shm, err := p.folder(sharedMemory); err == nil {
			rings = append([]string{shm}, rings...)
		}
	}
	p.rings = strings.Join(rings, string(filepath.ListSeparator))
	p.drain, err = python.NewDrain(python.Options{
		Dir: p.rings, Out: s.dir, Job: s.run.Job, Attempt: s.where.Attempt,
		Trace: &dftracer.Options{SessionTag: s.tag()}, Log: s.log,
		Outputs: func(outputs.Identity) []outputs.Output {
			// The state is in the folder of the job: a restart takes back what it does again.
			return []outputs.Output{ledger.New(ledger.Options{Dir: s.where.Job})}
		},
	})
	if errors.Is(err, errors.ErrUnsupported) {
		p.remove()
		return nil
	}
	if err != nil {
		return err
	}
	s.python = p
	ready.Env[varRing] = launch.Bytes(p.rings)
	s.run.Ring = p.rings
	return nil
}

// client unpacks the client and puts it in front of PYTHONPATH. It gives the folder
// that it is in, one of this node or, where none can be had, one below dir.
func (p *pythonSide) client(ready *launch.Ready, lookup func(string) (string, bool), dir ...string) (string, error) {
	in, err := p.folder(append([]string{os.TempDir(), sharedMemory}, dir...)...)
	if err != nil {
		return "", err
	}
	search := filepath.Join(in, "python")
	if err := python.Unpack(search); err != nil {
		return "", err
	}
	if path, _ := lookup(varPythonPath); path != "" { // an empty folder in it is the working directory, at its end too
		search += string(filepath.ListSeparator) + path
	}
	ready.Env[varPythonPath] = launch.Bytes(search)
	return in, nil
}

// folder makes a folder that only this user can read, in the first of some that
// lets it be made and can stand in a list as PATH is.
func (p *pythonSide) folder(in ...string) (dir string, err error) {
	var errs []error
	for _, up := range in {
		if up, err = filepath.Abs(up); err == nil && strings.ContainsRune(up, filepath.ListSeparator) {
			err = &fs.PathError{Op: "use", Path: up, Err: fmt.Errorf("has a %q in its name", filepath.ListSeparator)}
		}
		if err == nil {
			dir, err = os.MkdirTemp(up, folderPrefix+"*")
		}
		if err == nil {
			p.dirs = append(p.dirs, dir)
			return dir, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

func (p *pythonSide) remove() {
	for _, dir := range p.dirs {
		_ = os.RemoveAll(dir) // what is left holds nothing any more
	}
}

// close reads what the rings hold. Where that fails they are left for trainspan
// import.
func (p *pythonSide) close(ctx context.Context) error {
	if err := p.drain.Close(ctx); err != nil {
		return err
	}
	left, err := python.Rings(p.dirs...)
	if err == nil && len(left) == 0 {
		p.remove()
		p.rings = ""
	}
	return err
}

// describe notes the counts.
func (p *pythonSide) describe(r *rundir.Run) {
	if p == nil {
		return
	}
	st := p.drain.Stats()
	if st.Processes > 0 {
		r.Python = &rundir.Python{Processes: st.Processes, Spans: st.Spans, Lost: st.Lost, Bad: st.Bad}
	}
	r.Ring = p.rings
}
