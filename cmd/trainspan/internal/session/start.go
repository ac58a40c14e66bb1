//go:build unix

package session

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/launch"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/environ"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/platform/proc"
)

// Settings are the options of trainspan run.
type Settings struct {
	Version string         `json:"version"` // of the program
	Command rundir.Outline `json:"command"`
	Missing string         `json:"missing"` // name of the Python script if no such file exists
	PID     int            `json:"pid"`     // of trainspan run
	Parent  int            `json:"parent"`  // the parent of trainspan run

	Name    string       `json:"name"`
	Dir     launch.Bytes `json:"dir"`
	Attempt int          `json:"attempt"` // negative means unset
	Quiet   bool         `json:"quiet"`
	Verbose bool         `json:"verbose"`
	OTLP    bool         `json:"otlp"`
	// TokenFile has the token of OTLP senders, empty for a random one; with NoToken
	// none is required.
	TokenFile launch.Bytes `json:"token_file"`
	NoToken   bool         `json:"no_token"`

	Forward string       `json:"forward"`
	Profile launch.Bytes `json:"profile"`
	NoTorch bool         `json:"no_torch"`
	Only    []string     `json:"only"`
	Without []string     `json:"without"`
	NoUsage bool         `json:"no_usage"`

	Inject []rundir.Injection `json:"inject"`

	Metrics string `json:"metrics"` // host:port, or empty
}

// Variables of the command's environment.
const (
	varEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	varProtocol = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
	varHeaders  = "OTEL_EXPORTER_OTLP_TRACES_HEADERS"
)

// varJob and varAttempt are variables that trainspan run sets, as a launcher
// does.
var varJob, varAttempt = identity.Job.Word(identity.Environment), identity.Attempt.Word(identity.Environment)

// Nested reports whether this process runs under a living trainspan run of the
// same machine, which then records everything.
func Nested() bool {
	run := os.Getenv(environ.Run)
	at := max(strings.LastIndexByte(run, ':'), 0)
	host := run[:at]
	pid, err := strconv.Atoi(strings.TrimPrefix(run[at:], ":"))
	return err == nil && host == identity.HostName() && proc.Alive(pid, 0) && mayRun(pid)
}

// mayRun reports whether a process may be a trainspan run. Process ids are
// reused, and a process that outlives its trainspan run keeps its variables.
func mayRun(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err != nil || slices.Contains(strings.Split(string(text), "\x00"), "run")
}

// start is one start of a command: its settings and the paths of its files.
type start struct {
	*record
	set   Settings
	log   *slog.Logger // converts messages of libraries to problems
	where rundir.Place
	dir   string // absolute
	token string
	ranks config.Ranks
	job   string // for the processes of a launcher without one, or empty
}

// begin makes the directory and the run.json of a start.
func begin(set Settings, out *display.Writer) (*start, error) {
	s := &start{record: &record{out: out}, set: set}
	s.log = slog.New(problemHandler{s.record})
	began, host := time.Now(), identity.HostName()
	ranks, err := config.DetectRanks(os.LookupEnv)
	if err != nil {
		s.problem("%v; see "+helptopic.RankUnknown, err)
	}
	want := rundir.Wanted{Name: set.Name, Attempt: set.Attempt, Host: host, PID: set.PID}
	want.Under(&ranks, set.Parent, os.LookupEnv)
	given := identity.FromEnvironment(os.LookupEnv, strconv.Atoi)
	if given.Run == "" && want.Start != "" { // the launcher set no id
		alone := config.Ranks{Rank: ranks.Rank, LocalRank: ranks.LocalRank}
		first, _ := rundir.Started(&alone, host, set.Parent)
		sum := sha256.Sum256([]byte(first))
		s.job = hex.EncodeToString(sum[:8])
	}
	dir := string(set.Dir)
	if dir == "" && os.Getenv(environ.Run) == "" {
		dir = strings.TrimSpace(os.Getenv(environ.Dir)) // set by the user, or by an outer trainspan run
	}
	want.Dir = dir
	s.where, err = want.Make()
	if err != nil {
		return nil, err
	}
	file, earlier, err := rundir.CreateFile(s.where.Dir)
	if err != nil {
		return nil, err
	}
	s.file = file
	if s.where.Attempt < 0 {
		s.where.Attempt = ranks.Attempt.Or(earlier)
	}
	if s.dir, err = filepath.Abs(s.where.Dir); err != nil {
		return nil, err
	}
	s.ranks, s.token = ranks, fmt.Sprintf("%s:%d", host, set.PID)
	s.run = rundir.Run{
		Problems: s.run.Problems, Trainspan: set.Version, Name: set.Name, Session: s.tag(), Job: ranks.Job, Attempt: s.where.Attempt,
		Program: set.Command.Program, Script: set.Command.Script, Flags: set.Command.Flags,
		Host: host, PID: set.PID, TelemetryPID: os.Getpid(), State: rundir.Running, Started: began, Seen: began,
		Rank: pointer(ranks.Rank), LocalRank: pointer(ranks.LocalRank), WorldSize: pointer(ranks.WorldSize), Key: cmp.Or(given.Key, s.job),
	}
	s.run.Scheduler, s.run.TimeLimit = identity.Scheduler(os.LookupEnv)
	if !given.Named {
		s.run.Start = want.Start
	}
	return s, nil
}

func pointer(v config.Var[int]) *int {
	if !v.IsSet() {
		return nil
	}
	n := v.Get()
	return &n
}

// tag returns the session tag, which all starts of the job share.
func (s *start) tag() string {
	return cmp.Or(strings.TrimSpace(os.Getenv(environ.Tag)), s.set.Name)
}

// environment returns the additions to the command's environment.
func (s *start) environment() launch.Ready {
	env := map[string]launch.Bytes{
		environ.Dir: launch.Bytes(s.dir), environ.Run: launch.Bytes(s.token), environ.Tag: launch.Bytes(s.tag()),
		varAttempt: launch.Bytes(strconv.Itoa(s.where.Attempt)),
	}
	if s.ranks.Run == "" { // all processes of the command must have the same id
		if s.run.Job = s.job; s.run.Job == "" {
			var id [8]byte
			_, _ = rand.Read(id[:]) // never fails
			s.run.Job = hex.EncodeToString(id[:])
		}
		env[varJob] = launch.Bytes(s.run.Job)
	}
	if s.set.NoTorch {
		env[environ.Torch] = "0"
	}
	if len(s.set.Only) > 0 {
		env[environ.Only] = launch.Bytes(strings.Join(s.set.Only, ","))
	}
	if len(s.set.Without) > 0 {
		env[environ.Without] = launch.Bytes(strings.Join(s.set.Without, ","))
	}
	if s.set.Verbose {
		env[environ.Verbose] = "1"
	}
	s.inject(env)
	return launch.Ready{Env: env, Dir: launch.Bytes(s.dir)}
}

// inject passes the delays to the Python client and reports them, once for all
// ranks of a launcher. Without delays it clears those in the user's
// environment, because they would not be reported.
func (s *start) inject(env map[string]launch.Bytes) {
	if len(s.set.Inject) == 0 {
		if os.Getenv(environ.Inject) != "" {
			env[environ.Inject] = ""
		}
		return
	}
	text, err := json.Marshal(s.set.Inject)
	if err != nil {
		s.problem("the delay is not injected: %v", err)
		return
	}
	env[environ.Inject] = launch.Bytes(text)
	for k := range s.set.Inject {
		text := s.set.Inject[k].Text
		s.run.Injected = append(s.run.Injected, text)
		if s.ranks.Rank.Or(0) == 0 {
			s.say("injected: %s", text)
		}
	}
}
