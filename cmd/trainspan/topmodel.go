package main

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/human"
	"github.com/trainspan/trainspan/internal/layout"
	"github.com/trainspan/trainspan/internal/visible"
	"github.com/trainspan/trainspan/report"
)

// topModel is what the screen of top shows.
type topModel struct {
	ctx    context.Context
	reader *topReader
	paint  ui.Painter

	width, height int
	top           int // the first line of the report that is seen
	help          bool

	shown   *topReading // the newest with a report
	last    *topReading // the newest of all
	reading time.Time   // since when one is under way, zero when none is
	slow    bool        // it takes long enough to say so
	turn    int         // counts readings, so that an old timer starts none
}

func newTopModel(ctx context.Context, r *topReader, p ui.Painter) *topModel {
	return &topModel{ctx: ctx, reader: r, paint: p, width: 80, height: 24}
}

// topDue says that the time for the next reading has come, topSlow that the
// current one takes long.
type (
	topDue  struct{ turn int }
	topSlow struct{ turn int }
)

// Init starts the first reading.
func (m *topModel) Init() tea.Cmd { return m.read(true) }

// read starts a reading, unless one is under way.
func (m *topModel) read(force bool) tea.Cmd {
	if !m.reading.IsZero() {
		return nil
	}
	m.turn++
	m.reading, m.slow = m.reader.now(), false
	turn := m.turn
	return tea.Batch(
		func() tea.Msg { return m.reader.read(m.ctx, force) },
		tea.Tick(time.Second, func(time.Time) tea.Msg { return topSlow{turn} }),
	)
}

// Update takes a key, a new size, or what was read.
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
		m.reading, m.last = time.Time{}, &msg
		if msg.report != nil || msg.waiting != "" {
			m.shown = &msg
		}
		turn := m.turn
		return m, tea.Tick(msg.rest, func(time.Time) tea.Msg { return topDue{turn} })
	}
	return m, nil
}

// topHelp lists the keys.
const topHelp = `q, Ctrl-C        end
r                read the files now
↑ ↓  k j         one line up, down
PgUp PgDn Space  one page up, down
Home End  g G    first line, last line
Ctrl-Z           suspend
?                this help

The first line says when the files were read, the newest record in them, and
when they will be read next. Reading takes at most a fifth of one core: large
jobs are read less often.

trainspan help screen says how to read it.`

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

// room is how many lines of the report fit between the first and the last line
// of the screen.
func (m *topModel) room() int { return max(m.height-2, 0) }

// first is the first line that is seen, within what there is.
func (m *topModel) first() int { return max(min(m.top, len(m.body())-m.room()), 0) }

// body is all lines between the first and the last one.
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
	return report.Screen(m.shown.report, m.width)
}

// View draws all of it.
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
	v := tea.NewView(strings.Join(lines, "\n"))
	v.AltScreen, v.WindowTitle = true, "trainspan top "+visible.Text(m.reader.name())
	return v
}

// status is the first line: what is shown and of when.
func (m *topModel) status() string {
	const clock = "15:04:05"
	const rest = len("  ·  read 12:00:00 · records up to 12:00:00 · nothing new at 12:00:00")
	parts := []string{layout.Elide(m.reader.name(), max(m.width-rest, 12))}
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
		add("%s not shown", human.Plural(s.others, "other job"))
	}
	line := m.fit(strings.Join(parts, " · "))
	if wrong {
		return string(m.paint.Amber(line))
	}
	return string(m.paint.Dim(line))
}

// keys is the last line.
func (m *topModel) keys(first, all int) string {
	line := "q quit · r read now · ? help"
	if shown := min(m.room(), all-first); shown < all {
		line += fmt.Sprintf(" · ↑↓ lines %d to %d of %d", first+1, first+shown, all)
	}
	return string(m.paint.Dim(m.fit(line)))
}

// fit cuts a line to the screen.
func (m *topModel) fit(line string) string {
	line = visible.Text(line)
	if utf8.RuneCountInString(line) <= m.width {
		return line
	}
	if m.width < 1 {
		return ""
	}
	return string([]rune(line)[:m.width-1]) + "…"
}
