//go:build unix

package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/launch"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/pyring"
	"github.com/trainspan/trainspan/internal/ingest/pyring/pyclient"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/environ"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/record/settings"
	"github.com/trainspan/trainspan/internal/record/setup"
	"go.opentelemetry.io/otel/trace"
)

// pythonSide is the client that Python processes load, and the reader of its
// ring buffers.
type pythonSide struct {
	drain *pyring.Drain
	dirs  []string // made by this start, removed at the end
	owner int      // trainspan run
	locks []*os.File
	rings string // folders of ring buffers, as in PATH

	versions   []string // of Python interpreters that have loaded the client, such as 3.11
	refused    string   // why a process could not make a ring buffer, empty if all could
	frameworks []string // imported frameworks, as in rundir.Run
	other      string   // a file of an installed client that differs from the command's
	serves     bool     // the configuration has an address for metrics
}

const varPythonPath = "PYTHONPATH"

// sharedMemory is the best place for ring buffers, because it is not on a disk.
const sharedMemory = "/dev/shm"

// startPython adds the client to PYTHONPATH and begins to read the ring
// buffers. The buffers are in shared memory or, if that is full or missing, in
// this node's folder for temporary files. The client is in the folder for
// temporary files or, if that is not writable, in shared memory or in the
// directory of the start.
func startPython(s *start, ready *launch.Ready) (_ *pythonSide, err error) {
	p := &pythonSide{owner: s.set.PID}
	defer func() {
		if err != nil {
			p.remove()
		}
	}()
	client, err := p.client(ready, s.dir)
	if err != nil {
		return nil, err
	}
	rings := []string{filepath.Join(client, folderRings)}
	if err := os.Mkdir(rings[0], 0o700); err != nil {
		return nil, err
	}
	if filepath.Dir(client) != sharedMemory { // the client is there only if no other folder works
		if shm, err := p.folder(sharedMemory); err == nil {
			rings = append([]string{shm}, rings...)
		}
	}
	p.rings = strings.Join(rings, string(filepath.ListSeparator))
	settings, trace, parent := s.sending(&p.serves)
	p.drain, err = pyring.New(pyring.Options{
		Config: settings, Parent: parent,
		Dir: p.rings, Out: s.dir, Job: s.run.Job, Attempt: s.where.Attempt,
		Trace: trace, Log: s.log,
	})
	if errors.Is(err, errors.ErrUnsupported) {
		p.remove()
		return nil, nil //nolint:nilnil // ring buffers are not supported here
	}
	if err != nil {
		return nil, err
	}
	ready.Env[environ.Ring] = launch.Bytes(p.rings)
	s.run.Ring = p.rings
	return p, nil
}

// sending returns a function that configures the sending of the telemetry of
// Python processes, as for a Go program, the form of their traces, and the span
// that the job belongs to. A nil function sends nothing. Errors are reported
// once. It sets *serves if there is an address for metrics.
func (s *start) sending(serves *bool) (func(config.Config) (config.Config, error), *dftracer.Options, trace.SpanContext) {
	parent, err := settings.Parent(os.LookupEnv)
	if err != nil {
		s.problem("%v; see "+helptopic.Variable, err)
	}
	load := func(code config.Config) (config.Config, error) {
		if !code.SessionTag.IsSet() { // the value that the command gets
			code.SessionTag = config.Value(s.tag())
		}
		cfg, err := config.Load(config.LoadOptions{Code: code, Partial: true})
		return cfg, s.withoutLauncherProblems(err)
	}
	cfg, err := load(config.Config{})
	if err == nil {
		whole := config.Clone(&cfg) // includes the values that a program adds
		whole.ApplicationName, whole.Training, whole.Ranks = cmp.Or(cfg.ApplicationName, s.set.Name), nil, config.Ranks{}
		err = whole.Validate()
	}
	if err != nil {
		s.problem("spans of Python processes are not sent: %v; see "+helptopic.Start, err)
		return nil, &dftracer.Options{Process: dftracer.Process{SessionTag: s.tag()}}, parent
	}
	for _, w := range cfg.Warnings {
		s.problem("telemetry configuration: %s; see "+helptopic.Variable, w)
	}
	*serves = cfg.Outputs.Prometheus.Address != ""
	form := setup.TraceOptions(&cfg.Outputs.Trace)
	form.Process.SessionTag = s.tag()
	return load, form, parent
}

// withoutLauncherProblems removes problems of the launcher's variables, which
// were reported already: a ring buffer has the rank of its process.
func (s *start) withoutLauncherProblems(err error) error {
	var all, place *config.ValidationError
	_, placeErr := config.DetectRanks(os.LookupEnv)
	if !errors.As(err, &all) || !errors.As(placeErr, &place) {
		return err
	}
	rest := slices.DeleteFunc(slices.Clone(all.Problems), func(p config.Problem) bool {
		return slices.ContainsFunc(place.Problems, func(q config.Problem) bool { return q.Where == p.Where })
	})
	if len(rest) == 0 {
		return nil
	}
	return &config.ValidationError{Problems: rest}
}

// client unpacks the client and prepends it to PYTHONPATH. It returns its
// folder, on this node or, if that is not possible, below dir.
func (p *pythonSide) client(ready *launch.Ready, dir ...string) (string, error) {
	in, err := p.folder(append([]string{os.TempDir(), sharedMemory}, dir...)...)
	if err != nil {
		return "", err
	}
	search := filepath.Join(in, folderClient)
	if err := pyclient.Unpack(search); err != nil {
		return "", err
	}
	if path := os.Getenv(varPythonPath); path != "" { // an empty entry, even at the end, is the working directory
		search += string(filepath.ListSeparator) + path
	}
	ready.Env[varPythonPath] = launch.Bytes(search)
	return in, nil
}

// folder creates a private folder in the first of some folders that allows it
// and that can be in a list like PATH.
func (p *pythonSide) folder(in ...string) (dir string, err error) {
	var errs []error
	for _, up := range in {
		if up, err = filepath.Abs(up); err == nil && strings.ContainsRune(up, filepath.ListSeparator) {
			err = &fs.PathError{Op: "use", Path: up, Err: fmt.Errorf("its name contains %q", filepath.ListSeparator)}
		}
		if err == nil {
			dir, err = fswrite.TempDir(up, folderPrefix)
		}
		if err == nil {
			p.dirs = append(p.dirs, dir)
			p.lockFolder(dir, os.Getpid(), p.owner)
			return dir, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

func (p *pythonSide) remove() {
	for _, dir := range p.dirs {
		_ = RemoveFolder(dir) // it keeps a folder with other files
	}
	for _, f := range p.locks {
		_ = f.Close() // nothing was written
	}
	p.locks = nil
}

// started adds the command as an owner of the folders, and deletes abandoned
// folders of other starts.
func (p *pythonSide) started(pid int) {
	if p == nil {
		return
	}
	for _, dir := range p.dirs {
		nameOwner(dir, pid)
	}
	sweep(os.TempDir(), sharedMemory)
}

// close reads the rest of the ring buffers. If that fails, it leaves them for
// trainspan trace import.
func (p *pythonSide) close(ctx context.Context) error {
	folders := filepath.SplitList(p.rings)
	frameworks, _ := filepath.Glob(filepath.Join(folders[len(folders)-1], "framework-*.names"))
	for _, path := range frameworks {
		p.frameworks = append(p.frameworks, strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "framework-"), ".names"))
	}
	notes, _ := filepath.Glob(filepath.Join(folders[len(folders)-1], "python-*.names")) // written by its sitecustomize
	for _, path := range notes {
		p.versions = append(p.versions, strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "python-"), ".names"))
		if installed, err := os.ReadFile(path); err == nil && len(installed) > 0 {
			p.other = cmp.Or(p.other, pyclient.Differs(string(installed)))
		}
	}
	if why, err := os.ReadFile(filepath.Join(folders[len(folders)-1], "unrecorded.names")); err == nil { // written by the client
		p.refused = string(why)
	}
	if err := p.drain.Close(ctx); err != nil {
		return err
	}
	left, err := pyring.Rings(p.dirs...)
	if err == nil && len(left) == 0 {
		p.remove()
		p.rings = ""
	}
	return err
}

// unsent describes the telemetry that was not sent to a backend, or returns "".
func (p *pythonSide) unsent() string {
	d := p.drain.Stats().Delivery
	if d.Lost == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d spans of Python processes were not sent: %s", d.Lost, d.Spans, strings.Join(slices.Sorted(maps.Keys(d.Causes)), ", "))
}

// unserved reports whether Python processes should serve their own metrics but
// none can: such metrics need one-logger's callbacks.
func (p *pythonSide) unserved() bool {
	st := p.drain.Stats()
	return p.serves && st.Spans > 0 && st.Calls == 0
}

// missing describes telemetry that no file contains, with a remedy if one
// exists, or returns "".
func (p *pythonSide) missing(dir string) string {
	st := p.drain.Stats()
	var parts []string
	if st.Waiting > 0 {
		parts = append(parts, fmt.Sprintf("%s of Python processes could not be written and are still in shared memory: remove the cause, such as a full disk, then run trainspan trace import %s; see "+helptopic.File, display.Plural(st.Waiting, "span"), dir))
	}
	if st.Lost > 0 {
		parts = append(parts, fmt.Sprintf("%s of Python processes lost; see "+helptopic.Python, display.Plural(st.Lost, "record")))
	}
	if p.refused != "" && st.Processes > 0 {
		parts = append(parts, fmt.Sprintf("a Python process had no place for its records: %s; see "+helptopic.Python, p.refused))
	}
	return strings.Join(parts, "; ")
}

// unseen describes why nothing was recorded of a command that has run Python,
// as far as known, with a remedy. It returns "" if something was recorded, if
// no Python ran, or if the command failed (bad) and no other reason is known.
func (p *pythonSide) unseen(r *rundir.Run, noTorch, bad bool) string {
	isPython := func(program string) bool { return strings.HasPrefix(program, "python") }
	ran := p != nil && (len(p.versions) > 0 || isPython(r.Program) || strings.HasSuffix(r.Script, ".py") || slices.ContainsFunc(r.Processes, func(q rundir.Process) bool { return isPython(q.Program) }))
	if !ran || r.Python != nil {
		return ""
	}
	if len(p.versions) == 0 {
		for _, flag := range []string{"-I", "-E", "-S"} {
			if isPython(r.Program) && slices.Contains(r.Flags, flag) {
				return "with " + flag + " it does not load the client; omit it"
			}
		}
		return "it did not get PYTHONPATH: env -i, sudo, su and python -I, -E or -S remove it; put trainspan run after the command that changes the environment"
	}
	old := func(version string) bool {
		major, minor, _ := strings.Cut(version, ".")
		n, err := strconv.Atoi(minor)
		return major == "2" || major == "3" && err == nil && n < 8
	}
	imported := r.Imported()
	switch {
	case p.refused != "":
		return "it had no place for its records: " + p.refused
	case !slices.ContainsFunc(p.versions, func(v string) bool { return !old(v) }):
		return "the client needs Python 3.8 or later, and this is " + strings.Join(p.versions, ", ")
	case imported != "" && !bad:
		return fmt.Sprintf("%s, and no step was recorded: %s shows how to record steps", imported, helptopic.Recipes)
	case noTorch:
		return "PyTorch is not watched (--no-torch), and the program records no spans"
	case bad:
		return "" // it may have ended before it began to train
	}
	return "it trained nothing with PyTorch and records no spans"
}

// describe adds the counts to run.json.
func (p *pythonSide) describe(r *rundir.Run) {
	if p == nil {
		return
	}
	r.Frameworks = p.frameworks
	st := p.drain.Stats()
	if st.Processes > 0 {
		r.Python = &rundir.Python{Processes: st.Processes, Spans: st.Spans, Lost: st.Lost, Waiting: st.Waiting, Bad: st.Bad, Sent: st.Delivery.Sent, Unsent: st.Delivery.Lost}
	}
	r.Ring = p.rings
}
