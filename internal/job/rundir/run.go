// Package rundir defines where the files of a start of a job are, and the file
// about the start itself: run.json.
//
//	trainspan-runs/NAME/attempt-N/HOST-PID/
//	                    │         └ one trainspan run, with its run.json
//	                    └ one start of the job on all nodes
//
// [Wanted.Make] claims the number of the attempt, for the library, for the
// command and for processes of launchers; no two starts get the same.
package rundir

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/platform/environ"
	"github.com/trainspan/trainspan/internal/platform/fsread"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/platform/redact"
)

// Version is the version of the format of run.json. It is increased when a
// field changes its meaning; new fields may be added at any time.
const Version = 1

// FileName is the name of the file about a start.
const FileName = "run.json"

// The values of Run.State.
const (
	Running = "running" // when the file was written, see Seen
	Ended   = "ended"
)

// The values of Run.EndedBy.
const (
	ByExit        = "exit"
	BySignal      = "signal"
	ByMemory      = "out_of_memory" // the system's out-of-memory killer in its control group
	ByNotStarting = "not_started"
	ByUnknown     = "unknown" // trainspan run was killed, and the command has ended since
)

// Run is run.json: one start of a command, as trainspan run observed it. It has
// no environment, no values of flags and no other arguments.
type Run struct {
	Version   int    `json:"version"`
	Trainspan string `json:"trainspan"` // version of the program

	Name    string `json:"name"`
	Session string `json:"session_tag"`   // shared by all starts of the job
	Job     string `json:"job,omitempty"` // the launcher's id
	Attempt int    `json:"attempt"`       // of the job, from 0
	// Key is the launcher's id of the run, or empty. Start is the launcher's number
	// of this start, if several runs may have the same Key.
	Key   string `json:"run,omitempty"`
	Start string `json:"start,omitempty"`

	Program string   `json:"program"`          // base name
	Script  string   `json:"script,omitempty"` // base name of the first argument that is a script, or the module of python -m
	Flags   []string `json:"flags,omitempty"`  // names only

	Host       string `json:"host"`
	PID        int    `json:"pid"` // of trainspan run
	CommandPID int    `json:"command_pid,omitempty"`
	// TelemetryPID is the process that collects telemetry, reads the ring buffers
	// and writes this file. It outlives trainspan run if that is killed or does not
	// wait.
	TelemetryPID int  `json:"telemetry_pid,omitempty"`
	Rank         *int `json:"rank,omitempty"`
	LocalRank    *int `json:"local_rank,omitempty"`
	WorldSize    *int `json:"world_size,omitempty"`

	State   string     `json:"state"`
	Started time.Time  `json:"started"`
	Seen    time.Time  `json:"seen"` // the last time at which the command was known to run
	Ended   *time.Time `json:"ended,omitempty"`

	EndedBy    string `json:"ended_by,omitempty"`
	ExitStatus *int   `json:"exit_status,omitempty"` // absent after a signal
	Signal     string `json:"signal,omitempty"`      // such as SIGKILL
	CoreDumped bool   `json:"core_dumped,omitempty"`
	Error      string `json:"error,omitempty"` // the exception's line in torchelastic's error file
	// Stopped is the first signal that asked the command to end, and StoppedAt
	// when; Scheduler is the scheduler of its job, and TimeLimit when that ends it.
	Stopped   string     `json:"stopped,omitempty"`
	StoppedAt *time.Time `json:"stopped_at,omitempty"`
	Scheduler string     `json:"scheduler,omitempty"`
	TimeLimit *time.Time `json:"time_limit,omitempty"`
	OOMKills  int64      `json:"oom_kills,omitempty"` // in the control group, while the command ran
	User      float64    `json:"user_seconds,omitempty"`
	System    float64    `json:"system_seconds,omitempty"`
	MaxRSS    int64      `json:"max_rss_bytes,omitempty"`

	CPU  *CPU  `json:"cpu,omitempty"`
	GPUs []GPU `json:"gpus,omitempty"` // GPUs visible to the command, if they were sampled

	Processes     []Process `json:"processes,omitempty"`
	MoreProcesses int       `json:"more_processes,omitempty"` // above the bound of the list

	Ring    string   `json:"ring,omitempty"` // folders of ring buffers, as in PATH, that may have unread data
	OTLP    *OTLP    `json:"otlp,omitempty"`
	Forward *Forward `json:"forward,omitempty"`
	Python  *Python  `json:"python,omitempty"`
	// Frameworks are those that Python processes imported and whose steps are only
	// recorded with a few lines in the program, such as jax.
	Frameworks []string `json:"frameworks,omitempty"`

	Injected []string `json:"injected,omitempty"` // delays that trainspan run was asked to add, in words
	Evidence []string `json:"evidence,omitempty"` // unusual use of resources, in words
	Problems []string `json:"problems,omitempty"` // errors of telemetry
}

// CPU summarizes the samples of the processors of the commands on a node and their processes.
type CPU struct {
	Allowed float64 `json:"allowed"`    // processors that they may use: of their affinity or the limit of the control group
	Full    float64 `json:"full_share"` // share of the time in which they used at least nine tenths of these
}

// GPU summarizes the samples of a GPU.
type GPU struct {
	Index       string  `json:"index"`
	Busy        float64 `json:"busy_percent"`           // mean
	Memory      int64   `json:"memory_bytes,omitempty"` // the maximum in use, by any process
	MemoryTotal int64   `json:"memory_total_bytes,omitempty"`
}

// Process is a process of the command.
type Process struct {
	PID     int       `json:"pid"`
	Parent  int       `json:"parent"`
	Program string    `json:"program"` // the system's name, at most 15 characters
	First   time.Time `json:"first_seen"`
	Seen    time.Time `json:"last_seen"` // the last activity
}

// OTLP counts what the receiver got.
type OTLP struct {
	Endpoint string `json:"endpoint"`
	Requests int64  `json:"requests"`
	Spans    int64  `json:"spans"`
	Own      int64  `json:"own"`      // spans of processes that write their own files
	Again    int64  `json:"again"`    // spans that were repeated
	Rejected int64  `json:"rejected"` // spans for which there was no room
	Refused  int64  `json:"refused"`  // requests

	Cut        int64 `json:"cut,omitempty"`         // attributes, events and links above the limits of a span
	SharedLane int64 `json:"shared_lane,omitempty"` // spans for which no lane was free
	SharedFile int64 `json:"shared_file,omitempty"` // spans of processes in the shared file
}

// Forward counts the spans to be forwarded.
type Forward struct {
	Spans int64  `json:"spans"`
	Sent  int64  `json:"sent"`
	Lost  int64  `json:"lost"`
	Error string `json:"error,omitempty"`
}

// Python counts what was read from the ring buffers of Python processes.
type Python struct {
	Processes int   `json:"processes"`
	Spans     int64 `json:"spans"`
	Lost      int64 `json:"lost"`
	Waiting   int64 `json:"waiting"` // spans that no file has, and that trainspan trace import finds in the ring buffers
	Bad       int64 `json:"bad"`     // invalid slots
	Sent      int64 `json:"sent"`    // spans that a backend took
	Unsent    int64 `json:"unsent"`  // spans that were lost on their way to a backend
}

// Imported returns which frameworks were imported, as the beginning of a
// sentence, or "".
func (r *Run) Imported() string {
	switch n := len(r.Frameworks); n {
	case 0:
		return ""
	case 1:
		return r.Frameworks[0] + " was imported"
	default:
		return strings.Join(r.Frameworks[:n-1], ", ") + " and " + r.Frameworks[n-1] + " were imported"
	}
}

// File is the run.json of a start.
type File struct {
	path string
	ours fswrite.Proof
	seen int64 // where the last activity is in it, 0 if it has none
	size int   // of what was written, 0 before
}

// CreateFile creates the first free name: run.json, run.run2.json, ... It also
// returns how many existed.
func CreateFile(dir string) (*File, int, error) {
	file := &File{}
	n, err := fswrite.NextFree(1, func(n int) error {
		file.path = fswrite.Run(filepath.Join(dir, FileName), n)
		f, err := shared.create(file.path, 0o644)
		if err != nil {
			return err
		}
		file.ours = fswrite.Same(f)
		return f.Close()
	})
	if err != nil {
		return nil, 0, err
	}
	return file, n - 1, nil
}

// Path returns the path of the file.
func (f *File) Path() string { return f.path }

// Write replaces the file, unless another program has put another one there.
// Readers see the old or the new file. If there is no space for a new file, it
// is written into the space of the old one, as far as it fits, so that the end
// of the command is not lost.
func (f *File) Write(r *Run) error {
	r.Version = Version
	text, seen, err := r.form()
	if err != nil {
		return err
	}
	text = pad(text, (len(text)+spare)/block*block+block)
	ours, err := shared.replace(f.path, text, 0o644, f.ours)
	if err == nil {
		f.ours, f.seen, f.size = ours, seen, len(text)
		return nil
	}
	if errors.Is(err, fs.ErrExist) || f.size == 0 {
		return err
	}
	for _, part := range []*Run{r, r.without(false), r.without(true)} {
		if text, seen, formErr := part.form(); formErr == nil && len(text) <= f.size {
			if shared.patch(f.path, 0, pad(text, f.size), f.ours) == nil {
				f.seen = seen
				return nil
			}
			break
		}
	}
	return err
}

// A run.json ends with spaces up to a multiple of block, at least spare of
// them. They take no additional space on a disk.
const (
	block = 4096
	spare = 1024
)

// form returns the text of a run.json, and where the last activity is in it.
func (r *Run) form() ([]byte, int64, error) {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, 0, err
	}
	text, seen := fixSeen(append(text, '\n'), r.Seen)
	return text, seen, nil
}

// pad fills a text up to size with spaces before its last line feed.
func pad(text []byte, size int) []byte {
	n := size - len(text)
	return append(append(text[:len(text)-1:len(text)-1], bytes.Repeat([]byte(" "), n)...), '\n')
}

// without returns the run without its longest lists: processes and, with all,
// evidence and problems.
func (r *Run) without(all bool) *Run {
	short := *r
	short.MoreProcesses += len(r.Processes)
	short.Processes = nil
	if all {
		short.GPUs, short.Evidence, short.Problems = nil, nil, nil
	}
	return &short
}

// Amend changes a run.json that is not being written any more. It does not
// change one with unknown fields.
func Amend(path string, change func(*Run)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(f, maxRun+1))
	if err != nil {
		return err
	}
	r := &Run{}
	known := json.NewDecoder(bytes.NewReader(text))
	known.DisallowUnknownFields()
	if err := known.Decode(r); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	change(r)
	return (&File{path: path, ours: fswrite.Same(f)}).Write(r)
}

// Beat updates the last activity in the existing file: on a shared file system
// a new file every few seconds from each rank of a large job would be a load.
func (f *File) Beat(seen time.Time) error {
	if f.seen == 0 {
		return nil // nothing was written, or it has no such time
	}
	return shared.patch(f.path, f.seen, []byte(seen.UTC().Format(seenLayout)), f.ours)
}

// seenLayout has the same length for all times.
const seenLayout = "2006-01-02T15:04:05.000000Z"

// fixSeen writes the last activity with seenLayout, and returns its position.
func fixSeen(text []byte, seen time.Time) ([]byte, int64) {
	const key = "\n  \"seen\": \""
	at := bytes.Index(text, []byte(key))
	if at < 0 || seen.Year() > 9999 {
		return text, 0
	}
	at += len(key)
	end := at + bytes.IndexByte(text[at:], '"')
	return slices.Concat(text[:at], []byte(seen.UTC().Format(seenLayout)), text[end:]), int64(at)
}

// maxRun bounds how much of a run.json is read: its lists are bounded.
const maxRun = 1 << 20

// Read reads a run.json.
func Read(path string) (*Run, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(f, maxRun+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxRun {
		return nil, fmt.Errorf("%s: is larger than %d MiB", path, maxRun>>20)
	}
	r, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// Parse reads the text of a run.json.
func Parse(text []byte) (*Run, error) {
	r := &Run{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, err
	}
	if r.Version > Version {
		return nil, fmt.Errorf("has version %d, but this trainspan reads up to version %d; use a newer trainspan", r.Version, Version)
	}
	return r, nil
}

// Left is a start that may have unread ring buffers: its telemetry process was
// killed.
type Left struct {
	Dir     string // where its files are
	Path    string // of the run.json
	Run     *Run
	Folders []string // folders of ring buffers that exist, or that cannot be examined
}

// Any reports whether there is a start below some folders.
func Any(dirs ...string) bool { return len(Find(dirs...)) > 0 }

// All returns the starts below some folders, or of run.json files, the latest
// first.
func All(paths ...string) []*Run {
	var out []*Run
	for _, l := range Find(paths...) {
		if l.Run.IsKnown() {
			out = append(out, l.Run)
		}
	}
	slices.SortStableFunc(out, func(a, b *Run) int { return b.Started.Compare(a.Started) })
	return out
}

// Continues reports whether the launcher shows that two starts belong to one
// run: by a unique id, or by its count of restarts.
func (r *Run) Continues(o *Run) bool {
	key := cmp.Or(r.Key, r.Job)
	return key != "" && key == cmp.Or(o.Key, o.Job) && (r.Start == "" || r.Start != o.Start)
}

// ID returns the id of the run that begins with the start, as in reports.
func (r *Run) ID() string { return fmt.Sprintf("%s.%d", Clean(cmp.Or(r.Session, r.Name)), r.Attempt+1) }

// IsKnown reports whether the time of the start is known.
func (r *Run) IsKnown() bool { return r.Version >= 1 && !r.Started.IsZero() }

// During reports whether the command ran during an attempt, whose number counts
// from 1. If its end was not observed, the last heartbeat may be from long
// before that: then the command belongs to the attempt with its number.
func (r *Run) During(attempt int, start, stop int64) bool {
	unseen := (r.State == Running || r.EndedBy == ByUnknown) && r.Attempt+1 == attempt
	return r.Started.UnixNano() <= stop && (r.Seen.UnixNano() >= start || unseen)
}

// Took returns how long the command ran, as far as is known.
func (r *Run) Took() time.Duration {
	end := r.Seen
	if r.Ended != nil {
		end = *r.Ended
	}
	return max(end.Sub(r.Started), 0)
}

// StoppedIn describes the scheduler whose signal asked the command to end: it
// sends one at the time limit of a job, before it takes the nodes away, and
// when the job is cancelled. It returns "" without a scheduler.
func (r *Run) StoppedIn() string {
	switch {
	case r.Scheduler == "":
		return ""
	case r.TimeLimit != nil && r.StoppedAt != nil && r.TimeLimit.Sub(*r.StoppedAt) < nearLimit:
		return "at the time limit of its job of " + r.Scheduler
	}
	return "in a job of " + r.Scheduler
}

// nearLimit is how long before the time limit of a job a signal counts as
// caused by it: a minute as in --signal=TERM@60, up to a minute by which
// Slurm's is early, and one more.
const nearLimit = 3 * time.Minute

// Command returns what was run, without arguments: the script, or the program.
func (r *Run) Command() string { return cmp.Or(r.Script, r.Program) }

// FindLeft returns the starts below some folders that have folders of ring
// buffers.
func FindLeft(dirs ...string) []Left {
	return slices.DeleteFunc(Find(dirs...), func(l Left) bool { return len(l.Folders) == 0 })
}

// Find returns all starts below some folders. What cannot be read is left out: others
// look for that.
func Find(dirs ...string) (out []Left) {
	for _, path := range fsread.Named(IsRun, dirs...) {
		r, err := Read(path)
		if err != nil {
			continue
		}
		left := Left{Dir: filepath.Dir(path), Path: path, Run: r}
		for _, folder := range filepath.SplitList(r.Ring) {
			if info, err := os.Stat(folder); err == nil && info.IsDir() || err != nil && !errors.Is(err, fs.ErrNotExist) {
				left.Folders = append(left.Folders, folder)
			}
		}
		out = append(out, left)
	}
	return out
}

// IsRun reports whether a file is named like a run.json.
func IsRun(path string) bool { return runName.MatchString(filepath.Base(path)) }

var runName = regexp.MustCompile(`^run(?:\.run\d+)?\.json$`)

// Outline is the part of a command line that is safe to show: no values and no
// other arguments, because no rule finds all secrets among them.
type Outline struct {
	Program string   // base name
	Script  string   // base name of a script, or the module of python -m
	Flags   []string // names, with their dashes
}

// scriptName matches the file names of scripts.
var scriptName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,126}\.(?:py|sh|bash|pl|rb|lua|jl|R|js|mjs)$`)

// moduleName matches the argument of python -m.
var moduleName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*){0,8}$`)

// launchers are modules that start a script.
var launchers = map[string]bool{
	"torch.distributed.run": true, "torch.distributed.launch": true, "accelerate.commands.launch": true,
	"deepspeed.launcher.runner": true, "pdb": true, "cProfile": true, "coverage": true,
}

// NewOutline parses a command line.
func NewOutline(args []string) Outline {
	o := Outline{Program: filepath.Base(args[0]), Flags: redact.Flags(args[1:], nil)}
	python := strings.HasPrefix(o.Program, "python")
	for i, arg := range args[1:] {
		base := filepath.Base(arg)
		switch {
		case strings.HasPrefix(arg, "-") || o.Script != "":
		case scriptName.MatchString(base):
			o.Script = base
		case python && args[i] == "-m" && moduleName.MatchString(arg) && !launchers[arg]:
			o.Script = arg
		}
	}
	return o
}

// MissingScript returns the name of the script of a Python command line if no such
// file exists, and "" otherwise.
func MissingScript(args []string) string {
	if len(args) < 2 || !strings.HasPrefix(filepath.Base(args[0]), "python") {
		return ""
	}
	base := filepath.Base(args[1]) // after flags it may be the value of one
	if _, err := os.Stat(args[1]); !scriptName.MatchString(base) || !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return base
}

// Name returns a name for the job: that of its script or module, or its
// program.
func (o *Outline) Name() string {
	if o.Script != "" {
		if ext := filepath.Ext(o.Script); scriptName.MatchString(o.Script) {
			return strings.TrimSuffix(o.Script, ext)
		}
		return o.Script
	}
	return o.Program
}

// Under fills in which start of the job a process belongs to, if it is not set:
// by its launcher's variables and, if it is set, by the number of the attempt.
// A number with an id was counted by a launcher (for example in labels of
// Kubernetes), not by us: another job of the same name counts as well.
func (w *Wanted) Under(ranks *config.Ranks, parent int, lookup func(string) (string, bool)) {
	said := func(name string) bool { text, _ := lookup(name); return text != "" }
	w.Start, w.Member = Started(ranks, w.Host, parent)
	w.Least = ranks.Attempt.Or(0)
	if w.Attempt < 0 && said(identity.Attempt.Word(identity.Environment)) && (said(environ.Run) || !said(identity.Job.Word(identity.Environment))) {
		w.Attempt = ranks.Attempt.Or(-1)
	}
}

// Started returns which start a process belongs to, for Wanted, by its
// launcher's variables. If the launcher set ranks and no job id, like torchrun,
// all processes with the same parent on this node belong together. start is
// empty if there is no launcher. Another world size is another start: torchrun
// does not count the starts that it makes when nodes come and go.
func Started(ranks *config.Ranks, host string, parent int) (start, member string) {
	start = ranks.Run
	if start != "" {
		if ranks.Rank.IsSet() {
			member = fmt.Sprintf("rank%d", ranks.Rank.Get())
		}
	} else {
		if parent <= 1 || !ranks.Rank.IsSet() && !ranks.LocalRank.IsSet() {
			return "", ""
		}
		began := began(parent)
		if began == "" {
			return "", ""
		}
		start = fmt.Sprintf("%s/%d/%s", host, parent, began)
		member = fmt.Sprintf("rank%d", ranks.Rank.Or(ranks.LocalRank.Or(0)))
	}
	start += "/" + strconv.Itoa(ranks.Attempt.Or(0))
	if n := ranks.WorldSize.Or(0); n > 0 {
		start += "/" + strconv.Itoa(n)
	}
	return start, member
}

// began returns when a process was started, in clock ticks since boot, or "" if
// unknown. With its id this identifies a process.
func began(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The program's name is in brackets and may contain any bytes.
	fields := bytes.Fields(text[max(bytes.LastIndexByte(text, ')'), 0):])
	if len(fields) < 21 {
		return ""
	}
	return string(fields[20])
}
