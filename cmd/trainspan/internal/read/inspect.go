package read

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/filetime"
	"github.com/trainspan/trainspan/internal/platform/fsread"
	"github.com/trainspan/trainspan/internal/tracefile"
	"golang.org/x/sync/errgroup"
)

// infoVersion changes when the meaning of the JSON of FileInfo changes.
const infoVersion = 2

// FileInfo is the output of info about a trace.
type FileInfo struct {
	source
	Dialect     string `json:"dialect"`
	Compression string `json:"compression"` // "gzip" or "none"

	// The lines of the file.
	Text     int64  `json:"text_bytes"`
	Lines    int64  `json:"lines"`
	BadLines int64  `json:"bad_lines"`
	FirstBad string `json:"first_bad,omitempty"`

	counts
	Processes []processInfo `json:"processes"`

	Program  string `json:"program,omitempty"`
	Command  string `json:"command,omitempty"`
	Folder   string `json:"folder,omitempty"`
	Producer string `json:"format_version,omitempty"`

	Open      []string `json:"open_spans,omitempty"`
	Missing   []string `json:"missing,omitempty"`
	Damaged   string   `json:"damaged,omitempty"`
	DamagedAt int64    `json:"damaged_at,omitempty"` // byte of the file
	Part      bool     `json:"part,omitempty"`       // filters omitted events
	Aligned   bool     `json:"line_aligned"`         // every member ends at a line end
	Members   []Member `json:"members"`
}

// source is the file of a FileInfo.
type source struct {
	Version  int    `json:"version"`
	Path     string `json:"path,omitempty"`
	FileSize int64  `json:"file_size"`
	FileTime int64  `json:"file_mtime_ns"`
}

func sourceOf(path string, stat fs.FileInfo) source {
	return source{Version: infoVersion, Path: path, FileSize: stat.Size(), FileTime: stat.ModTime().UnixNano()}
}

type processInfo struct {
	PID    int64  `json:"pid"`
	Host   string `json:"host,omitempty"`
	Rank   string `json:"rank,omitempty"`
	Events int64  `json:"events"`
	Lanes  int    `json:"lanes"`
}

// Member is one gzip member of a trace.
type Member struct {
	dftracer.Piece
	Events   int64 `json:"events"`   // spans among the lines
	Metadata int64 `json:"metadata"` // metadata records among them
	Start    int64 `json:"start_us,omitempty"`
	End      int64 `json:"end_us,omitempty"`
}

// span adds a span.
func (m *Member) span(ev *dftracer.Event) {
	if m.Events++; m.Events == 1 || ev.TS < m.Start {
		m.Start = ev.TS
	}
	m.End = max(m.End, ev.End())
}

// describe completes the description of a file with the contents of its
// records.
func (info *FileInfo) describe(t *tally) *FileInfo {
	info.counts = t.counts
	info.Program, info.Command, info.Folder, info.Producer = t.names[t.program[0]], t.names[t.program[1]], t.names[t.program[2]], t.version
	for _, key := range t.order {
		p := t.procs[key]
		info.Processes = append(info.Processes, processInfo{key.PID, t.names[key.Host], RankText(t.who.Process(key)), p.events, len(p.lanes)})
	}
	slices.SortStableFunc(info.Processes, func(a, b processInfo) int {
		return cmp.Or(cmp.Compare(len(a.Rank), len(b.Rank)), strings.Compare(a.Rank, b.Rank), cmp.Compare(a.PID, b.PID))
	})
	info.Open = slices.Sorted(maps.Values(t.begun))
	info.Missing = t.missing(info)
	return info
}

// missing describes the parts that the trace lacks.
func (t *tally) missing(info *FileInfo) []string {
	var out []string
	if !t.ended {
		out = append(out, "the end record: the program is running or was killed; trainspan trace recover closes the trace")
	}
	if t.repaired {
		out = append(out, "the records after the kill: the program was killed and the trace recovered")
	}
	if t.unended {
		out = append(out, "the end of the program: the source of this trace did not have it")
	}
	if t.lost > 0 {
		out = append(out, display.Plural(t.lost, "event")+" that the writer dropped")
	}
	if len(info.Open) > 0 {
		out = append(out, "the end of "+display.Plural(len(info.Open), "span")+": "+strings.Join(info.Open[:min(len(info.Open), 5)], ", "))
	}
	if t.part {
		out = append(out, "earlier parts: this file continues another one")
	}
	ranked := false
	for _, p := range info.Processes {
		ranked = ranked || p.Rank != ""
	}
	if !ranked && info.Events > 0 {
		out = append(out, "ranks: there is no PR record")
	}
	return out
}

// Inspect returns the contents of a trace.
func Inspect(ctx context.Context, a *ui.App, path string, bar *ui.Progress) (*FileInfo, error) {
	stat, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	bar.File(path, 1)
	defer bar.EndFile()
	var info *FileInfo
	var t *tally
	var st dftracer.ReadStats
	who := job.NewTracker(path).File(path)
	err = Judging(func(judge *filetime.Judge) (err error) {
		info = &FileInfo{source: sourceOf(path, stat), Compression: "none", Aligned: true, Members: []Member{}}
		t = newTally(who, judge)
		st, err = dftracer.Scan(path, &dftracer.ReaderOptions{Stop: ctx.Err, OnPiece: func(p *dftracer.Piece) {
			info.Text += p.Text
			if p.Gzip {
				t.member.Piece = *p
				info.Compression, info.Aligned, info.Members = "gzip", info.Aligned && !p.Across, append(info.Members, t.member)
			}
			t.member = Member{}
			bar.Bytes(p.Offset + p.Size)
		}}, func(ev *dftracer.Event) error {
			t.add(ev)
			return nil
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	if st.Events == 0 {
		return nil, warnOfSkipped(a, path, &st)
	}
	info.Dialect = st.Dialect.String()
	if info.Lines, info.BadLines = int64(st.Lines), int64(st.Bad); st.Bad > 0 {
		info.FirstBad = st.First[0].Error()
	}
	if st.Torn {
		info.Damaged, info.DamagedAt = "truncated inside a record", st.DamagedAt
		if st.Cause != nil {
			info.Damaged = st.Cause.Error()
		}
	}
	return info.describe(t), nil
}

// InspectPart returns the contents of a trace after filtering, or of a file of
// JSON lines.
func InspectPart(ctx context.Context, a *ui.App, path string, q *Filter, bar *ui.Progress) (*FileInfo, error) {
	stat, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	var t *tally
	var hashes *tracefile.Hashes
	err = Judging(func(judge *filetime.Judge) (err error) {
		t = newTally(q.Who.File(path), judge)
		t.ended = true
		hashes, err = Events(ctx, a, path, q, bar, func(ev *dftracer.Event) error {
			t.add(ev)
			return nil
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	for key := range t.procs {
		if name, ok := hashes.Host(key.Host); ok {
			t.names[key.Host] = name
		}
	}
	info := &FileInfo{source: sourceOf(path, stat), Dialect: dftracer.Dialect(0).String(), Compression: "none", Part: !q.All(), Members: []Member{}}
	info.describe(t)
	if info.Part {
		info.Processes = slices.DeleteFunc(info.Processes, func(p processInfo) bool { return p.Events == 0 })
	}
	if IsRecords(path) {
		info.Dialect = "JSON lines"
		if fsread.Is(path, fsread.Spans) {
			info.Dialect = "OTLP"
		}
	}
	return info, nil
}

// Expand returns the trace files for the arguments, which [Resolve] resolves,
// each once, in the order of the arguments: named files, with any contents, and
// in folders the files that contain a trace or have the name of one.
func Expand(ctx context.Context, args []string) ([]string, error) {
	args, err := ResolvePaths(ctx, args)
	if err != nil {
		return nil, err
	}
	var files []string
	var once fsread.Once
	for _, arg := range args {
		found, err := WalkFiles(arg)
		if err != nil {
			return nil, err
		}
		found = onlyTraces(found)
		if info, err := os.Stat(arg); err == nil && info.IsDir() && len(found) == 0 {
			return nil, refuseFolder(arg)
		}
		for _, f := range found {
			if f.Named && !f.Info.Mode().IsRegular() {
				return nil, ui.Usage("%s: is not a regular file, and a trace is read more than once; write it to a file first", arg)
			}
			if f.Err != nil || once.Add(f.Info) {
				files = append(files, f.Path)
			}
		}
	}
	if len(files) == 0 {
		return nil, Refuse(args)
	}
	return files, nil
}

// ExpandTraces is [Expand] for commands that work on the lines of traces. It
// returns an error for files that certainly have another format, whose lines
// could look like those of a damaged trace.
func ExpandTraces(ctx context.Context, args []string) ([]string, error) {
	files, err := Expand(ctx, args)
	for _, path := range files {
		if kind, err := fsread.KindOf(path); err == nil && (kind.Profiler() || kind == fsread.Digest || kind == fsread.Ring || kind == fsread.Parquet) {
			return nil, refuse(path)
		}
	}
	return files, err
}

// Profiles returns the profiles that an argument refers to, if it does not
// refer to a trace.
func Profiles(arg string) (out []string, err error) {
	found, err := WalkFiles(arg)
	if err != nil {
		return nil, err
	}
	for i := range found {
		f := &found[i]
		if f.Err != nil || !f.Info.Mode().IsRegular() {
			continue
		}
		kind, err := fsread.KindOf(f.Path)
		switch {
		case kind == fsread.Trace, f.Below && fsread.NamedTrace(f.Path):
			return nil, nil
		case err == nil && kind.Profiler():
			out = append(out, f.Path)
		}
	}
	return out, nil
}

// WalkFiles calls fsread.Walk for arguments of a command line.
func WalkFiles(args ...string) ([]fsread.Found, error) {
	found, err := fsread.Walk(args...)
	if errors.Is(err, fsread.ErrNoMatch) || errors.Is(err, filepath.ErrBadPattern) {
		err = ui.Usage("%v", err)
	}
	return found, err
}

// onlyTraces returns found without files in folders that are not traces.
func onlyTraces(found []fsread.Found) (out []fsread.Found) {
	is := make([]bool, len(found))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range found {
		g.Go(func() error {
			f := &found[i]
			is[i] = !f.Below || f.Err != nil || fsread.NamedTrace(f.Path) || fsread.Is(f.Path, fsread.Trace)
			return nil
		})
	}
	_ = g.Wait() // no function returns an error
	for i := range found {
		if is[i] {
			out = append(out, found[i])
		}
	}
	return out
}

// IsRecords reports whether a file has JSON lines: those of native telemetry,
// or spans of OTLP.
func IsRecords(path string) bool {
	kind, err := fsread.KindOf(path)
	return err == nil && (kind == fsread.Records || exported(kind))
}

// exported reports whether a file has OTLP data.
func exported(kind fsread.Kind) bool { return kind == fsread.Spans || kind == fsread.Signals }
