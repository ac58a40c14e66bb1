package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/tracefile"
)

type splitOptions struct {
	by          string
	every       time.Duration
	dir         string
	force, json bool
	filter      read.Filter
}

var splitWords = []string{"process", "epoch", "category", "time"}

func newSplit(a *ui.App) *cobra.Command {
	var o splitOptions
	cmd := &cobra.Command{
		Use:   "split FILE -o DIRECTORY",
		Short: "Split a trace into several",
		Long: `Splits a trace by process, epoch, category or time. Each part is a complete trace
with the names, ranks and other metadata of the whole trace. A span belongs to the part
in which it starts. Except with --by process, its parent may be in another part; a
trace.part record marks such parts. Spans without an epoch have their own part.`,
		Example: `  trainspan trace split job.pfw.gz -o ranks/
  trainspan trace split job.pfw.gz -o epochs/ --by epoch
  trainspan trace split job.pfw.gz -o minutes/ --by time --every 1m`,
		ValidArgsFunction: read.Complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runSplit(cmd.Context(), a, args, &o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.dir, "output", "o", "", "directory to write to; created if it does not exist")
	f.StringVar(&o.by, "by", "process", "split by process, epoch, category or time")
	f.DurationVar(&o.every, "every", time.Minute, "length of each part with --by time")
	f.BoolVar(&o.force, "force", false, "replace existing parts")
	f.BoolVar(&o.json, "json", false, "print a JSON array with one object per part")
	ui.Words(cmd, "by", splitWords...)
	o.filter.Flags(f)
	return cmd
}

// maxPieces bounds the files that are open at once.
const maxPieces = 256

// splitPiece is one output of split.
type splitPiece struct {
	out    *traceFile
	r      *rewriter
	now    *clock
	end    int64
	File   string `json:"file"`
	Events int64  `json:"events"`
}

type splitter struct {
	ctx      context.Context //nolint:containedctx // of one call
	a        *ui.App
	o        *splitOptions
	from     *survey
	stem     string
	pieces   map[string]*splitPiece
	order    []*splitPiece
	metadata []dftracer.Event
}

func runSplit(ctx context.Context, a *ui.App, args []string, o *splitOptions) error {
	if len(args) == 0 {
		return ui.Usage("no trace is given; name files, globs or directories, such as out/*.pfw.gz")
	}
	args, imported, err := withTraces(ctx, a, args)
	if err != nil {
		return err
	}
	defer imported.remove()
	files, err := read.Expand(ctx, args)
	if err != nil {
		return err
	}
	switch {
	case len(files) != 1:
		return ui.Usage("split works with one trace, not %d; merge them first", len(files))
	case o.dir == "":
		return ui.Usage("no directory is given; add -o pieces/")
	case o.every < time.Microsecond:
		return ui.Usage("--every %v: use 1µs or more", o.every)
	case !strings.Contains(" "+strings.Join(splitWords, " ")+" ", " "+o.by+" "):
		return ui.Usage("--by %s: choose one of %s", o.by, strings.Join(splitWords, ", "))
	}
	if err := o.filter.Prepare(ctx, files); err != nil {
		return err
	}
	bar := a.StartProgress("split", []string{files[0], files[0]})
	defer bar.Finish()
	s := &splitter{ctx: ctx, a: a, o: o, pieces: make(map[string]*splitPiece)}
	if s.from, err = surveyAll(ctx, a, files[0], &o.filter, bar, true); err != nil {
		return err
	}
	s.stem = strings.TrimSuffix(strings.TrimSuffix(filepath.Base(imported.name(files[0])), ".gz"), ".pfw")
	if o.by == "process" {
		s.stem = identity.WithoutRank(s.stem)
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil { //nolint:gosec // traces to be read by others
		return err
	}
	err = passThrough(ctx, s.from, bar, s.take)
	for _, p := range s.order {
		p.now.us.Store(p.end)
		sayEnd(p.out.Writer, p.r)
		if e := p.out.finish(err); err == nil {
			err = e
		}
	}
	bar.Finish()
	if err != nil {
		return err
	}
	if o.json {
		return a.PrintJSON(s.order)
	}
	for _, p := range s.order {
		a.Printf("%s: %s\n", p.File, display.Plural(p.Events, "event"))
	}
	if len(s.order) == 0 {
		a.Problem("%s: has no events; nothing was written; see "+helptopic.NoTraining, files[0])
	}
	return nil
}

// take passes one event on to its piece. Metadata goes to all pieces that it
// concerns, also to later ones.
func (s *splitter) take(ev *dftracer.Event) error {
	if ev.Cat == dftracer.CatDFTracer && ev.Phase != dftracer.PhaseMetadata {
		return nil
	}
	if ev.Phase == dftracer.PhaseMetadata {
		if begun, ok := tracefile.BeginOf(ev); ok {
			p, err := s.piece(&begun)
			if err == nil {
				p.r.fact(ev)
			}
			return err
		}
		if tracefile.IsHashRecord(ev) { // written again where it is used
			return nil
		}
		if s.o.by == "process" {
			if p := s.pieces[s.name(ev)]; p != nil {
				p.r.fact(ev)
				return nil
			}
		}
		for _, p := range s.order {
			s.share(p, ev)
		}
		if len(s.metadata) < 1<<14 && len(ev.Name) > 0 {
			kept := *ev
			kept.Args = cloneArgs(ev.Args)
			s.metadata = append(s.metadata, kept)
		}
		return nil
	}
	p, err := s.piece(ev)
	if err != nil {
		return err
	}
	p.Events++
	p.end = max(p.end, ev.End())
	p.r.write(ev)
	return p.out.failed()
}

// share writes metadata to a piece that it concerns.
func (s *splitter) share(p *splitPiece, ev *dftracer.Event) {
	if s.o.by == "process" && s.name(ev) != p.key() {
		return
	}
	p.r.fact(ev)
}

func (p *splitPiece) key() string { return p.r.piece }

// name returns the name of an event's piece.
func (s *splitter) name(ev *dftracer.Event) string {
	switch s.o.by {
	case "epoch":
		if n := read.NumberOf(ev, "epoch"); n != nil && *n >= 0 {
			return fmt.Sprintf("epoch%d", *n)
		}
		return "no-epoch"
	case "category":
		return "cat-" + fileName(ev.Cat)
	case "time":
		return fmt.Sprintf("time%04d", (ev.TS-s.from.startTime)/s.o.every.Microseconds())
	}
	key := s.from.who.Key(ev)
	if rank := read.RankText(s.from.who.Of(ev)); rank != "" {
		return "rank" + rank
	}
	if len(s.from.procs) > 0 && s.sharedPID(key) {
		return fmt.Sprintf("pid%d-%s", key.PID, fileName(s.from.hostName(key.Host)))
	}
	return fmt.Sprintf("pid%d", key.PID)
}

func (s *splitter) sharedPID(key job.Key) bool {
	for other := range s.from.procs {
		if other.PID == key.PID && other.Host != key.Host {
			return true
		}
	}
	return false
}

// fileName makes a word usable in a file name. Changed words get a number, so
// that no two become the same.
func fileName(s string) string {
	fit := fswrite.SafeName(s, 80)
	if fit == s {
		return s
	}
	h := fnv.New32a()
	_, _ = io.WriteString(h, s) // never fails
	return fmt.Sprintf("%s-%08x", fit, h.Sum32())
}

// piece returns the piece of an event, and creates it for the first one.
func (s *splitter) piece(ev *dftracer.Event) (*splitPiece, error) {
	name := s.name(ev)
	if p := s.pieces[name]; p != nil {
		return p, nil
	}
	if len(s.order) == maxPieces {
		return nil, ui.Usage("%s: the split would have more than %d parts; choose larger parts", s.from.path, maxPieces)
	}
	p := &splitPiece{File: filepath.Join(s.o.dir, s.stem+"-"+name+".pfw.gz"), now: &clock{}}
	p.now.us.Store(ev.TS)
	who := s.from.process()
	if s.o.by == "process" {
		who.PID, who.Host = int(ev.PID), s.from.hostName(s.from.who.Key(ev).Host)
	}
	var err error
	p.out, err = createTrace(s.ctx, s.a, p.File, s.o.force, []string{s.from.path}, &dftracer.Options{Dialect: s.from.dialect, Process: who, Now: p.now.now})
	if err != nil {
		return nil, err
	}
	p.r = newRewriter(p.out.Writer, s.from, firstID(s.from))
	p.r.piece = name
	s.pieces[name] = p
	s.order = append(s.order, p)
	if s.o.by != "process" || s.from.filter != nil {
		tracefile.WriteCustom(p.out, tracefile.KeyPart, fmt.Sprint(len(s.order)))
	}
	for i := range s.metadata {
		s.share(p, &s.metadata[i])
	}
	return p, nil
}
