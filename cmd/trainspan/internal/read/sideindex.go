package read

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/dft"
	"github.com/trainspan/trainspan/internal/human"
	"github.com/trainspan/trainspan/internal/outfile"
)

// IndexSuffix is added to the name of a trace for its index.
const IndexSuffix = ".idx.json"

// indexVersion changes when the meaning of the index does.
const indexVersion = 2

// FileInfo is what info shows of a trace and what its index holds.
type FileInfo struct {
	source
	Dialect     string `json:"dialect"`
	Compression string `json:"compression"` // "gzip" or "none"
	textInfo
	counts
	Processes []processInfo `json:"processes"`
	program
	Open    []string `json:"open_spans,omitempty"`
	Missing []string `json:"missing,omitempty"`
	damage
	Part    bool     `json:"part,omitempty"` // filters left something out
	Aligned bool     `json:"line_aligned"`   // every member ends on a line end
	Members []Member `json:"members"`
}

// source is the file that an index is of, as it was.
type source struct {
	Version   int    `json:"version"`
	Path      string `json:"path,omitempty"` // not in the index, which may move
	FileSize  int64  `json:"file_size"`
	FileTime  int64  `json:"file_mtime_ns"`
	FromIndex bool   `json:"from_index,omitempty"`
}

func sourceOf(path string, stat fs.FileInfo) source {
	return source{Version: indexVersion, Path: path, FileSize: stat.Size(), FileTime: stat.ModTime().UnixNano()}
}

// textInfo is what is known of the lines of a file.
type textInfo struct {
	Text     int64  `json:"text_bytes"`
	Lines    int64  `json:"lines"`
	BadLines int64  `json:"bad_lines"`
	FirstBad string `json:"first_bad,omitempty"`
}

// program is what wrote a trace.
type program struct {
	Program  string `json:"program,omitempty"`
	Command  string `json:"command,omitempty"`
	Folder   string `json:"folder,omitempty"`
	Producer string `json:"format_version,omitempty"`
}

type damage struct {
	Damaged   string `json:"damaged,omitempty"`
	DamagedAt int64  `json:"damaged_at,omitempty"` // byte of the file
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
	dft.Piece
	Events   int64 `json:"events"`   // spans among the lines
	Metadata int64 `json:"metadata"` // metadata records among them
	Start    int64 `json:"start_us,omitempty"`
	End      int64 `json:"end_us,omitempty"`
}

// span adds one.
func (m *Member) span(ev *dftracer.Event) {
	if m.Events++; m.Events == 1 || ev.TS < m.Start {
		m.Start = ev.TS
	}
	m.End = max(m.End, ev.End())
}

// describe completes what is known of a file by what its records say.
func (info *FileInfo) describe(t *tally) *FileInfo {
	info.counts = t.counts
	info.program = program{t.names[t.program[0]], t.names[t.program[1]], t.names[t.program[2]], t.version}
	for _, key := range t.order {
		p := t.procs[key]
		info.Processes = append(info.Processes, processInfo{key.PID, t.names[key.Host], RankText(t.who.Process(key)), p.events, len(p.lanes)})
	}
	slices.SortStableFunc(info.Processes, func(a, b processInfo) int {
		return cmp.Or(cmp.Compare(len(a.Rank), len(b.Rank)), strings.Compare(a.Rank, b.Rank), cmp.Compare(a.PID, b.PID))
	})
	info.Open = slices.Sorted(maps.Values(t.begun))
	info.Missing = missing(t, info)
	return info
}

// missing lists what a complete trace would have.
func missing(t *tally, info *FileInfo) []string {
	var out []string
	if !t.ended {
		out = append(out, "the end record: the program still runs or was killed; trainspan recover closes the trace")
	}
	if t.repaired {
		out = append(out, "what the program would have written after it was killed; the trace was recovered")
	}
	if t.unended {
		out = append(out, "the end of the program: the trace was made of one that did not show it")
	}
	if t.lost > 0 {
		out = append(out, human.Plural(t.lost, "event")+" that the writer had to drop")
	}
	if len(info.Open) > 0 {
		out = append(out, "the end of "+human.Plural(len(info.Open), "span")+": "+strings.Join(info.Open[:min(len(info.Open), 5)], ", "))
	}
	if t.part {
		out = append(out, "earlier parts: this file continues another one")
	}
	ranked := false
	for _, p := range info.Processes {
		ranked = ranked || p.Rank != ""
	}
	if !ranked {
		out = append(out, "ranks: no PR record tells them")
	}
	return out
}

// ReadIndex returns the index of a trace, or nil when there is none that
// belongs to the file as it is now.
func ReadIndex(path string, stat fs.FileInfo) *FileInfo {
	text, err := os.ReadFile(path + IndexSuffix)
	if err != nil {
		return nil
	}
	var info FileInfo
	if json.Unmarshal(text, &info) != nil {
		return nil
	}
	if info.Path = path; info.source != sourceOf(path, stat) {
		return nil
	}
	info.FromIndex = true
	return &info
}

// WriteIndex writes the index of a trace beside it.
func WriteIndex(info *FileInfo) error {
	path := info.Path + IndexSuffix
	stored := *info
	stored.Path, stored.FromIndex = "", false
	text, err := json.MarshalIndent(&stored, "", " ")
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	_, err = outfile.Write(path, append(text, '\n'), 0o644, isIndex)
	return err
}

// isIndex takes the index of a trace, of any version.
func isIndex(f *os.File) error {
	var has struct {
		Version  *int              `json:"version"`
		FileSize *int64            `json:"file_size"`
		FileTime *int64            `json:"file_mtime_ns"`
		Members  []json.RawMessage `json:"members"`
	}
	if err := json.NewDecoder(f).Decode(&has); err != nil || has.Version == nil || has.FileSize == nil || has.FileTime == nil || has.Members == nil {
		return ui.Usage("%s: is already there and is no index; move it away first", f.Name())
	}
	return nil
}
