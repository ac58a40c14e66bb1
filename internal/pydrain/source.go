package pydrain

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/identity"
	"github.com/trainspan/trainspan/internal/proc"
	"github.com/trainspan/trainspan/internal/ring"
	"github.com/trainspan/trainspan/internal/see"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// source is the ring of a process, and who that is.
type source struct {
	o     *Options
	log   *slog.Logger
	ring  *ring.Ring
	num   int64 // of the process, as this one knows it; 0 where it cannot be seen
	plain bool  // whether the trace is not compressed
	id    outputs.Identity
	last  int64           // the latest time in the ring
	told  map[string]bool // which bounds the log says were reached
	news  func()          // takes what the process has said about itself since
	file  string          // the name that its trace was given
	fails atomic.Bool     // the trace cannot be written at present

	mu    sync.Mutex
	stats Stats // guarded by mu, for those who ask
}

// name is that of the trace. A program that named its log file, where nobody
// gave a folder for rings, gets that name.
func (p *source) name() string {
	stem := strings.TrimSuffix(filepath.Base(p.ring.Path), ring.Ext)
	for range 2 { // pid and start
		stem = stem[:max(strings.LastIndexByte(stem, '-'), 0)]
	}
	if stem == "" || stem == "py" {
		stem = "trace"
	}
	if p.id.RankKnown && p.ring.Forks == 0 {
		stem = fmt.Sprintf("%s-rank%d", stem, p.id.Rank.Get())
	}
	ext := ".pfw.gz"
	if p.plain {
		ext = ".pfw"
	}
	return fmt.Sprintf("%s-%d%s", stem, p.id.PID, ext)
}

// identify finds out who the process is from its launcher's variables.
func (p *source) identify(who ring.Who) {
	ranks, err := config.DetectRanks(func(name string) (string, bool) {
		v, ok := who.Env[name]
		return v, ok
	})
	if err != nil {
		p.log.Warn("the place of a Python process in its job", "error", err, "see", see.RankUnknown)
	}
	p.id = outputs.Identity{
		Host: who.Host, PID: int(p.ring.PID), Version: identity.Version, Rank: ranks.Rank, RankKnown: ranks.Rank.IsSet(),
		LocalRank: ranks.LocalRank, WorldSize: ranks.WorldSize.Or(0), Attempt: ranks.Attempt, Job: ranks.Job, Run: ranks.Run,
	}
	if p.id.Job == "" {
		p.id.Job = p.o.Job
	}
	if !p.id.Attempt.IsSet() && p.o.Attempt >= 0 {
		p.id.Attempt = config.Value(p.o.Attempt)
	}
}

// alive reports whether the process still runs.
func (p *source) alive() bool { return proc.Alive(int(p.num), p.ring.Ticks) }

// wrote notes a file.
func (p *source) wrote(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Files = append(p.stats.Files, path)
}

// limit says once that a bound was reached.
func (p *source) limit(what string) {
	if !p.told[what] {
		p.told[what] = true
		p.log.Warn(what, "see", see.Python)
	}
}
