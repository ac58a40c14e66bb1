package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/fsread"
	"github.com/trainspan/trainspan/internal/report"
)

func newTop(a *ui.App) *cobra.Command {
	var interval time.Duration
	cmd := &cobra.Command{
		Use:   "top [RUN|DIR...]",
		Short: "Show the report of a running job, and refresh it",
		Long: `Shows the screen of "trainspan report" for a running job and refreshes it as the files
grow, for one rank or a thousand, on any machine that can read the files. It waits for
files in an empty directory.

Without an argument it shows the newest run in trainspan-runs, running ones first, and
switches to a newer run when that begins. A restart belongs to the run that it continues.

It reads all files again when they have changed, and uses at most a fifth of one
processor core: after a slow reading it waits longer. The first line has the time of
the last reading and of the next.

Keys: q quits, r reads immediately, ? lists all keys.`,
		Example: `  trainspan top
  trainspan top train.3
  trainspan top out/demo
  trainspan top /shared/runs/4711 --interval 30s`,
		ValidArgsFunction: read.Complete,
		RunE:              func(cmd *cobra.Command, args []string) error { return runTop(cmd.Context(), a, args, interval) },
	}
	cmd.Flags().DurationVar(&interval, "interval", 2*time.Second, "shortest time between two readings")
	return cmd
}

func runTop(ctx context.Context, a *ui.App, args []string, interval time.Duration) error {
	if interval <= 0 {
		return ui.Usage("--interval %v: use a time above 0", interval)
	}
	reader, err := newTopReader(ctx, args, interval)
	if err != nil {
		return err
	}
	if v, _ := a.Env("TERM"); !ui.Terminal(a.Streams.Out) || v == "dumb" {
		return ui.Usage("top needs a terminal as standard output; trainspan report prints the same screen once")
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop() // ends a reading in progress, whose result is not needed
	m := newTopModel(ctx, reader, a.Paint(a.Stdout))
	m.ascii = a.Stdout.ASCII
	options := []tea.ProgramOption{tea.WithContext(ctx), tea.WithOutput(a.Streams.Out), tea.WithoutSignalHandler()}
	if f, ok := a.Streams.In.(*os.File); ok && ui.Terminal(f) { // otherwise it opens the terminal itself
		options = append(options, tea.WithInput(f))
	}
	// Version 2 of Bubble Tea, because version 1 asks the terminal for its colours,
	// and waits for the answer, at the start of every command that links it.
	_, err = tea.NewProgram(m, options...).Run()
	if errors.Is(err, context.Canceled) { // an interrupt is a way to end it
		return nil
	}
	if err != nil {
		return fmt.Errorf("top: %w; trainspan report prints the same screen once", err)
	}
	return nil
}

// topModel is the state of top's screen.
type topModel struct {
	ctx    context.Context
	reader *topReader
	paint  ui.Painter
	ascii  bool // the terminal's locale has nothing else

	width, height int
	top           int // the first visible line of the report
	help          bool

	shown   *topReading // the newest with a report
	last    *topReading // the newest of all
	reading time.Time   // when the current reading began, zero if there is none
	slow    bool        // it takes long enough to show that
	turn    int         // counts readings, so that an old timer starts none
}

func newTopModel(ctx context.Context, r *topReader, p ui.Painter) *topModel {
	return &topModel{ctx: ctx, reader: r, paint: p, width: 80, height: 24}
}

// topDue starts the next reading, topSlow marks the current one as slow.
type (
	topDue  struct{ turn int }
	topSlow struct{ turn int }
)

// Init starts the first reading.
func (m *topModel) Init() tea.Cmd { return m.read(true) }

// read starts a reading, unless one is in progress.
func (m *topModel) read(force bool) tea.Cmd {
	if !m.reading.IsZero() {
		return nil
	}
	m.turn++
	m.reading = m.reader.now()
	turn := m.turn
	return tea.Batch(
		func() tea.Msg { return m.reader.read(m.ctx, force) },
		tea.Tick(time.Second, func(time.Time) tea.Msg { return topSlow{turn} }),
	)
}

// Update handles a key, a new size, or a finished reading.
func (m *topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.KeyPressMsg:
		return m, m.key(msg.String())
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.ResumeMsg:
		return m, m.read(false)
	case topSlow:
		m.slow = msg.turn == m.turn && !m.reading.IsZero()
	case topDue:
		if msg.turn == m.turn {
			return m, m.read(false)
		}
	case topReading:
		m.reading, m.slow, m.last = time.Time{}, false, &msg
		if msg.report != nil || msg.waiting != "" {
			m.shown = &msg
		}
		turn := m.turn
		return m, tea.Tick(msg.rest, func(time.Time) tea.Msg { return topDue{turn} })
	}
	return m, nil
}

// topHelp lists the keys.
const topHelp = `q, Ctrl-C        quit
r                read the files now
↑ ↓  k j         one line up, down
PgUp PgDn Space  one page up, down
Home End  g G    first line, last line
Ctrl-Z           suspend
?                this help

The first line has the time of the last reading, of the newest record, and of
the next reading. Reading uses at most a fifth of one core, so large jobs are
read less often.

trainspan help screen explains the screen.`

func (m *topModel) key(key string) tea.Cmd {
	page := max(m.room()-1, 1)
	switch key {
	case "q", "ctrl+c":
		return tea.Quit
	case "ctrl+z":
		return tea.Suspend
	case "r":
		return m.read(true)
	case "?", "h":
		m.help, m.top = !m.help, 0
	case "esc", "enter":
		m.help = false
	case "up", "k":
		m.top--
	case "down", "j":
		m.top++
	case "pgup", "b":
		m.top -= page
	case "pgdown", "space", "f":
		m.top += page
	case "home", "g":
		m.top = 0
	case "end", "G":
		m.top = len(m.body())
	}
	m.top = m.first()
	return nil
}

// room returns how many lines of the report fit between the first and the last
// line of the screen.
func (m *topModel) room() int { return max(m.height-2, 0) }

// first returns the first visible line, within bounds.
func (m *topModel) first() int { return max(min(m.top, len(m.body())-m.room()), 0) }

// body returns all lines between the first and the last one.
func (m *topModel) body() []string {
	switch {
	case m.help:
		return strings.Split(topHelp, "\n")
	case m.shown == nil:
		return nil
	case m.shown.report == nil:
		return []string{
			"", "Waiting for telemetry in " + m.reader.name() + ":", m.shown.waiting + ".", "",
			"What a job writes there, or in a directory below,", "appears here within seconds.",
		}
	}
	return m.shown.report.Screen(m.width)
}

// View draws the screen.
func (m *topModel) View() tea.View {
	lines := []string{m.status()}
	body, first := m.body(), m.first()
	for i := first; i < min(first+m.room(), len(body)); i++ {
		line := m.fit(body[i])
		if i > 0 && body[i-1] == "" && !m.help && line != "" {
			line = string(m.paint.Head(line))
		}
		lines = append(lines, line)
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	if m.height > 1 {
		lines = append(lines, m.keys(first, len(body)))
	}
	text := strings.Join(lines, "\n")
	if m.ascii {
		text = display.ASCII(text)
	}
	v := tea.NewView(text)
	v.AltScreen, v.WindowTitle = true, "trainspan top "+display.Text(m.reader.name())
	return v
}

// status returns the first line: what is shown and of when.
func (m *topModel) status() string {
	const clock = "15:04:05"
	const rest = len("  ·  read 12:00:00 · records up to 12:00:00 · nothing new at 12:00:00")
	parts := []string{display.Elide(m.reader.name(), max(m.width-rest, 12))}
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	wrong := m.last != nil && m.last.err != nil
	if wrong {
		add("%s at %s", strings.TrimPrefix(ui.Explain(m.last.err), "run: "), m.last.at.Format(clock))
	}
	if s := m.shown; s != nil {
		add("read %s", s.at.Format(clock))
		if s.report != nil {
			add("records up to %s", time.Unix(0, s.report.Ledger.To).In(s.at.Location()).Format(clock))
		}
	}
	switch l := m.last; {
	case m.slow || l == nil:
		add("reading since %s …", m.reading.Format(clock))
	case l.same:
		add("nothing new at %s", l.at.Format(clock))
	default:
		add("next %s", l.at.Add(l.took+l.rest).Format(clock))
	}
	if s := m.shown; s != nil && s.others > 0 {
		add("%s not shown", display.Plural(s.others, "other job"))
	}
	line := m.fit(strings.Join(parts, " · "))
	if wrong {
		return string(m.paint.Amber(line))
	}
	return string(m.paint.Dim(line))
}

// keys returns the last line.
func (m *topModel) keys(first, all int) string {
	line := "q quit · r read now · ? help"
	if shown := min(m.room(), all-first); shown < all {
		line += fmt.Sprintf(" · ↑↓ lines %d to %d of %d", first+1, first+shown, all)
	}
	return string(m.paint.Dim(m.fit(line)))
}

// fit cuts a line to the screen's width.
func (m *topModel) fit(line string) string {
	return display.Cut(display.Text(line), m.width)
}

// topShare is the ratio between the interval of readings and the processor time
// of one: top uses at most this fraction of one core.
const topShare = 5

// resolveShare is the ratio between the interval of resolving the names of runs
// and the processor time of that: it reads the records of all runs of a job.
const resolveShare = 20

// topReader reads a job repeatedly. Readings do not overlap.
type topReader struct {
	paths    []string
	run      string                 // if it is a run
	named    atomic.Pointer[string] // the displayed name
	interval time.Duration          // between the end of one reading and the next
	now      func() time.Time

	args   []string  // what paths is resolved from; nil means the newest run
	follow bool      // the newest run is read, whichever that is
	jobs   []string  // folders of the jobs of the named runs
	starts string    // of the jobs, or the newest one, when they were last resolved
	open   []string  // starts that may belong to a named run
	wrote  uint64    // a hash of their files when they were last resolved
	again  time.Time // when they may be resolved again

	seen    uint64    // a hash of the files at the last reading
	settles time.Time // when the last report has to be made again although no file has changed
}

// topReading is the result of one reading.
type topReading struct {
	at   time.Time     // when it began, which is the time of the records
	took time.Duration //
	rest time.Duration // until the next one

	report  *report.Report // nil if there is none, or if it is equal to the last one
	job     *report.Job    // of the report
	same    bool           // no file has changed
	others  int            // jobs in the same files that are not shown
	waiting string         // what is missing so far
	err     error
}

// read reads all files, unless none has changed and force is false.
func (t *topReader) read(ctx context.Context, force bool) topReading {
	out := topReading{at: t.now()}
	cpu := cpuTime()
	resolved := t.resolve(ctx)
	seen, files := look(t.paths)
	if !force && seen == t.seen && (t.settles.IsZero() || out.at.Before(t.settles)) {
		out.same, out.rest = true, t.interval
		if resolved {
			out.rest = t.pause(t.now().Sub(out.at), cpuTime()-cpu)
		}
		return out
	}
	t.job(ctx, files, &out)
	if out.err == nil {
		t.seen = seen
	}
	out.took = t.now().Sub(out.at)
	out.rest = t.pause(out.took, cpuTime()-cpu)
	return out
}

// resolve finds the folders of the named runs again if a start has appeared, or
// if a new one has written what may show which run it belongs to. It reports
// whether it did that, which reads the records of the job.
func (t *topReader) resolve(ctx context.Context) bool {
	if !t.follow && len(t.jobs) == 0 {
		return false
	}
	now, cpu := t.now(), cpuTime()
	if now.Before(t.again) {
		return false
	}
	starts := t.listStarts()
	wrote, _ := look(t.open)
	if starts == t.starts && (len(t.open) == 0 || wrote == t.wrote) {
		return false
	}
	if refs, err := read.Resolve(ctx, t.args); err == nil {
		t.set(refs)
		t.starts, t.wrote = starts, wrote
	}
	end := t.now()
	t.again = end.Add(max(resolveShare*(cpuTime()-cpu), topShare*end.Sub(now)))
	return true
}

// set takes the targets of the arguments.
func (t *topReader) set(refs []read.Ref) {
	t.paths, t.jobs, t.open, t.run = nil, nil, nil, ""
	for i := range refs {
		r := &refs[i]
		t.paths = append(t.paths, r.Paths...)
		for _, path := range r.Paths {
			if dir := filepath.Dir(path); r.Run != "" && !slices.Contains(t.jobs, dir) {
				t.jobs = append(t.jobs, dir)
			}
		}
		if r.Open != "" {
			t.open = append(t.open, r.Open)
		}
	}
	if len(refs) == 1 {
		t.run = refs[0].Run
	}
	name := cmp.Or(t.run, strings.Join(t.paths, " "))
	t.named.Store(&name)
}

// listStarts returns the starts whose number or order decides what is read.
func (t *topReader) listStarts() string {
	if t.follow {
		if newest := read.Newest(); newest != "" {
			return newest
		}
		wrote, _ := look(rundir.Roots()) // all runs have a folder of --dir
		return strconv.FormatUint(wrote, 16)
	}
	var all []string
	for _, dir := range t.jobs {
		entries, _ := os.ReadDir(dir) // unreadable paths are reported by the reading
		for _, e := range entries {
			all = append(all, filepath.Join(dir, e.Name()))
		}
	}
	return strings.Join(all, "\n")
}

// pause returns how long to wait after a reading that took some time, and some
// processor time of all cores. If that is unknown, and if files come over a
// slow network, the time counts: reading takes at most half of it.
func (t *topReader) pause(took, cpu time.Duration) time.Duration {
	return max(t.interval, topShare*cpu-took, took)
}

func (t *topReader) job(ctx context.Context, files int, out *topReading) {
	t.settles = time.Time{}
	found, err := findAnyJobs(ctx, silent(), t.paths) // what is wrong may be mended by the next reading
	switch {
	case errors.Is(err, job.ErrNoTelemetry):
		out.waiting = fmt.Sprintf("no trace file and no JSON lines file yet (%s)", display.Plural(files, "file"))
	case errors.Is(err, errNoProcess):
		out.waiting = fmt.Sprintf("no process has written a training span yet (%s)", display.Plural(files, "file"))
	case err != nil:
		out.err = err
	default:
		out.job, out.others = newestOf(found, out.at.UnixNano()), len(found)-1
		out.report = report.Live(out.job, out.at.UnixNano())
		for i := range out.report.Attempts {
			if a := &out.report.Attempts[i]; a.Running {
				t.settles = time.Unix(0, a.Stop).Add(report.Alive)
			}
		}
	}
}

// look returns a hash of the properties of the files below some paths, without
// opening them, and their number.
func look(paths []string) (seen uint64, files int) {
	h := fnv.New64a()
	var b [16]byte
	found, _ := fsread.Walk(paths...) // unreadable paths are reported by the reading
	for _, f := range found {
		if f.Err != nil || f.Info.IsDir() {
			continue
		}
		files++
		_, _ = h.Write([]byte(f.Path)) // never fails
		binary.LittleEndian.PutUint64(b[:], uint64(f.Info.Size()))
		binary.LittleEndian.PutUint64(b[8:], uint64(f.Info.ModTime().UnixNano()))
		_, _ = h.Write(b[:])
	}
	return h.Sum64() | 1, files // 0 means before the first
}

// name returns what is read. It may be called while another goroutine reads.
func (t *topReader) name() string {
	if name := t.named.Load(); name != nil {
		return *name
	}
	return strings.Join(t.paths, " ")
}

// newTopReader returns the reader of the arguments, or of the newest run.
func newTopReader(ctx context.Context, args []string, interval time.Duration) (*topReader, error) {
	t := &topReader{interval: interval, now: time.Now, follow: len(args) == 0 || len(args) == 1 && args[0] == read.Latest}
	newest := t.listStarts() // before it is resolved
	refs, err := read.Resolve(ctx, args)
	if err != nil {
		return nil, err
	}
	t.set(refs)
	if t.follow = t.follow && t.run != ""; t.follow {
		t.starts = newest
	} else {
		for i, arg := range args { // the same run, also when it is no longer the newest of its job
			t.args = append(t.args, cmp.Or(refs[i].Run, arg))
		}
		t.starts = t.listStarts()
	}
	if _, err = read.WalkFiles(t.paths...); err != nil {
		return nil, err
	}
	return t, read.RefuseFiles(t.paths)
}

// newestOf returns the most interesting of several jobs: of those with a record
// in the last seconds the one that began last, or else the first.
func newestOf(found []*report.Job, now int64) *report.Job {
	best, began := found[0], int64(math.MinInt64)
	for _, j := range found {
		seen := int64(math.MinInt64)
		for _, p := range j.Job.Processes {
			if p.End == job.NoEnd {
				seen = max(seen, p.LastSeen)
			}
		}
		if first := begin(j); seen > now-int64(report.Alive) && first > began {
			best, began = j, first
		}
	}
	return best
}
