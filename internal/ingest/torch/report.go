package torch

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/trainspan/trainspan/internal/ingest/torch/kineto"
	"github.com/trainspan/trainspan/internal/platform/display"
)

// Report is what an import found, skipped and guessed, and what cannot be known
// from the files.
type Report struct {
	// Files has one entry per trace, in the order of import.
	Files []*FileReport `json:"files"`
	// Logs has one entry per TORCH_TRACE log.
	Logs []*LogReport `json:"logs,omitempty"`
	// Refused lists the sources that are not traces, with the reason.
	Refused []Failure `json:"refused,omitempty"`
	// Copies lists the traces that are equal to an earlier one, which alone is
	// imported.
	Copies []Failure `json:"copies,omitempty"`
	// Failed lists the sources, and the parts of archives, that could not be read
	// completely. What was read of them is in Files.
	Failed []Failure `json:"failed,omitempty"`
	// Events counts what was written to the sink, by category.
	Events map[string]int64 `json:"events"`
	// Ranks describes how several ranks were put on one time axis, one entry per
	// common profiler window; empty for one rank.
	Ranks []*RankReport `json:"ranks,omitempty"`
	// Spans counts the exported spans, nil if none were requested.
	Spans *SpanReport `json:"spans,omitempty"`
}

// Failure is a source that was not imported completely, and why.
type Failure struct {
	Name string `json:"name"`
	Err  error  `json:"reason"`
}

// textError is an error of a report; its JSON is its text.
type textError struct{ error }

func (e textError) MarshalJSON() ([]byte, error) { return json.Marshal(e.Error()) }

func (e textError) Unwrap() error { return e.error }

// FileReport describes one imported trace.
type FileReport struct {
	// Name is the file, or file and tar entry.
	Name string `json:"name"`
	// Counts holds the events of the file by "category/phase"; "-" means no
	// category.
	Counts map[string]int64 `json:"counts"`
	// Events and Bytes count what was read, decompressed.
	Events int64 `json:"events"`
	Bytes  int64 `json:"bytes"`
	// Era and BaseSource are how the times were read.
	Era        kineto.Era `json:"era"`
	BaseSource string     `json:"base_source"`
	// Start and End bound the profiler window on the wall clock.
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
	// Rank and World are -1 if unknown. RankSource is where Rank comes from.
	Rank       int64  `json:"rank"`
	World      int64  `json:"world_size"`
	RankSource string `json:"rank_source,omitempty"`
	Backend    string `json:"backend,omitempty"`
	PID        int64  `json:"pid"`
	Host       string `json:"host"`
	// Steps counts ProfilerStep windows.
	Steps int64 `json:"steps"`
	// Skipped, SkippedBytes and Defects describe what could not be read.
	Skipped      int64           `json:"skipped"`
	SkippedBytes int64           `json:"skipped_bytes"`
	Defects      []kineto.Defect `json:"defects,omitempty"`
	Truncated    bool            `json:"truncated"`
	// Foreign is true if no event has a category of PyTorch's profiler: the file is
	// a Chrome trace of another program.
	Foreign     bool  `json:"foreign,omitempty"`
	TruncatedAt int64 `json:"truncated_at,omitempty"`
	// NamesRepaired counts distinct names with control characters or invalid UTF-8.
	NamesRepaired int64 `json:"names_repaired,omitempty"`
	// Clamped counts rows that outlived their parent and were cut to its end.
	Clamped int64 `json:"clamped,omitempty"`
	// HalfEvents counts begins without an end and ends without a begin, which were
	// left out.
	HalfEvents int64 `json:"half_events,omitempty"`
	// Negative counts events with an end before their begin, which were left out.
	Negative int64 `json:"negative,omitempty"`
	// NoProcess counts events of unknown categories without a numeric process id, which
	// were left out.
	NoProcess int64 `json:"no_process,omitempty"`
	// TooDeep counts rows nested deeper than 1,024 levels, which became siblings of
	// the row around them.
	TooDeep int64 `json:"too_deep,omitempty"`
	// Unfinished counts operators that were still running at the end.
	Unfinished int64 `json:"unfinished,omitempty"`
	// PythonRows counts python_function rows that were left out.
	PythonRows int64 `json:"python_rows,omitempty"`
	// DeviceRows counts kernels, copies and memsets, DeviceUnlinked those whose
	// launch is not in the trace, DeviceOverlaps those that overlap another row of
	// their stream without nesting.
	DeviceRows     int64 `json:"device_rows"`
	DeviceUnlinked int64 `json:"device_rows_without_launch"`
	DeviceOverlaps int64 `json:"device_rows_overlapping,omitempty"`
	// BackwardTied counts backward operators whose forward operator is known.
	BackwardTied int64 `json:"backward_operators_tied"`
	// SelfCPU and Device are the denominators of the percentages.
	SelfCPU time.Duration `json:"self_cpu_ns"`
	Device  time.Duration `json:"device_ns"`
	// Devices has how busy each device was.
	Devices []DeviceUse `json:"devices,omitempty"`
	// MemoryInstants, MemoryNetBytes and MemoryUnattributed describe the
	// allocator: events, their sum, and events outside any operator.
	MemoryInstants     int64 `json:"memory_events,omitempty"`
	MemoryNetBytes     int64 `json:"memory_net_bytes,omitempty"`
	MemoryUnattributed int64 `json:"memory_events_outside_operators,omitempty"`
	// Compile describes torch.compile in the file, or is nil.
	Compile *CompileReport `json:"compile,omitempty"`
	// ClockOffset was added to the times of this file.
	ClockOffset time.Duration `json:"clock_offset_ns"`
	// ClockDrift is by how many parts per million its times were stretched.
	ClockDrift float64 `json:"clock_drift_ppm"`
	// SpilledBytes went through a temporary file.
	SpilledBytes int64 `json:"spilled_bytes,omitempty"`
	// Warnings, Guesses and Unknown are sentences for people.
	Warnings []string `json:"warnings,omitempty"`
	Guesses  []string `json:"guesses,omitempty"`
	Unknown  []string `json:"cannot_be_known,omitempty"`

	others map[string]int64 // events with unknown categories
}

func (r *FileReport) warn(s string)  { r.Warnings = appendOnce(r.Warnings, s) }
func (r *FileReport) guess(s string) { r.Guesses = appendOnce(r.Guesses, s) }
func (r *FileReport) cannot(s string) {
	r.Unknown = appendOnce(r.Unknown, s)
}

func appendOnce(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

func (r *FileReport) unknownCategory(cat string) {
	if r.others == nil {
		r.others = map[string]int64{}
	}
	if len(r.others) < 50 || r.others[cat] > 0 {
		r.others[cat]++
	}
}

// fromInfo takes the reader's results, and returns the error of the archive
// around a complete trace.
func (r *FileReport) fromInfo(in *kineto.Info) (cut error) {
	r.Events, r.Bytes = in.Events, in.Bytes
	r.Skipped, r.SkippedBytes, r.Defects = in.Skipped, in.SkippedBytes, in.Defects
	r.Truncated, r.TruncatedAt = in.Truncated, in.TruncatedAt
	if in.Truncated {
		r.warn(fmt.Sprintf("the file ends early, at byte %d; the events before it were imported", in.TruncatedAt))
	}
	if in.Cause != nil && !in.Truncated {
		cut = fmt.Errorf("the archive is truncated after the trace, so its checksum was not verified: %w", in.Cause)
	}
	if in.Skipped > 0 {
		r.warn(fmt.Sprintf("%d damaged places (%d bytes) were skipped, the first at byte %d", in.Skipped, in.SkippedBytes, in.Defects[0].Offset))
	}
	if in.Unsearched > 0 {
		r.warn(fmt.Sprintf("%d of these places were not searched for whole events (the limit of work was reached)", in.Unsearched))
	}
	if in.InexactTimes > 0 {
		r.warn(fmt.Sprintf("%d times had digits below one nanosecond, which were dropped", in.InexactTimes))
	}
	return cut
}

// written returns the number of events that went to the sink.
func (r *Report) written() int64 {
	var n int64
	for _, v := range r.Events {
		n += v
	}
	return n
}

// String returns the report as text, one fact per line.
func (r *Report) String() string {
	var b strings.Builder
	for _, f := range r.Files {
		f.text(&b)
	}
	for _, l := range r.Logs {
		l.text(&b)
	}
	for _, x := range r.Copies {
		display.Fprintf(&b, "%s: %s\n", x.Name, x.Err)
	}
	for _, x := range r.Refused {
		display.Fprintf(&b, "%s: refused: %s\n", x.Name, x.Err)
	}
	for _, x := range r.Failed {
		display.Fprintf(&b, "%s: not read to the end: %s\n", x.Name, x.Err)
	}
	for _, g := range r.Ranks {
		g.text(&b)
	}
	if r.Spans != nil {
		r.Spans.text(&b)
	}
	b.WriteString("written:")
	for _, cat := range slices.Sorted(maps.Keys(r.Events)) {
		display.Fprintf(&b, " %s %d", cat, r.Events[cat])
	}
	b.WriteByte('\n')
	return b.String()
}

func (r *FileReport) text(b *strings.Builder) {
	display.Fprintf(b, "%s: %d events, %d bytes, %s (%s)\n", r.Name, r.Events, r.Bytes, r.Era, r.BaseSource)
	if !r.Start.IsZero() {
		display.Fprintf(b, "  window %s to %s, pid %d, host %s", r.Start.UTC().Format(time.RFC3339Nano), r.End.UTC().Format(time.RFC3339Nano), r.PID, r.Host)
		if r.Rank >= 0 {
			display.Fprintf(b, ", rank %d (from %s)", r.Rank, r.RankSource)
		} else {
			b.WriteString(", rank unknown")
		}
		if r.World > 0 {
			display.Fprintf(b, " of %d", r.World)
		}
		b.WriteByte('\n')
	}
	display.Fprintf(b, "  %d steps, host self time %s, device time %s in %d rows, %d of them without their launch\n", r.Steps, r.SelfCPU, r.Device, r.DeviceRows, r.DeviceUnlinked)
	for _, d := range r.Devices {
		display.Fprintf(b, "  %s\n", d.text())
	}
	if r.BackwardTied > 0 {
		display.Fprintf(b, "  %d backward operators matched to their forward\n", r.BackwardTied)
	}
	if r.MemoryInstants > 0 {
		display.Fprintf(b, "  %d memory events, net %d bytes, %d outside any operator\n", r.MemoryInstants, r.MemoryNetBytes, r.MemoryUnattributed)
	}
	if r.PythonRows > 0 {
		display.Fprintf(b, "  %d python rows dropped\n", r.PythonRows)
	}
	if r.ClockOffset != 0 {
		display.Fprintf(b, "  clock shifted by %s%s\n", r.ClockOffset, driftText(r.ClockDrift))
	}
	for _, k := range slices.Sorted(maps.Keys(r.others)) {
		display.Fprintf(b, "  category %q: %d events passed through\n", k, r.others[k])
	}
	if r.Compile != nil {
		r.Compile.text(b)
	}
	for _, d := range r.Defects {
		display.Fprintf(b, "  %s\n", d)
	}
	for _, s := range r.Warnings {
		display.Fprintf(b, "  warning: %s\n", s)
	}
	for _, s := range r.Guesses {
		display.Fprintf(b, "  guessed: %s\n", s)
	}
	for _, s := range r.Unknown {
		display.Fprintf(b, "  unknown: %s\n", s)
	}
}

// eventCounts counts events by category and phase. A trace has few kinds, and
// the recent ones come again, so they are looked up before the map.
type eventCounts struct {
	byKind map[string]*int64
	recent [16]recentCount
	next   int
}

// recentCount is a recently used counter.
type recentCount struct {
	phase byte
	cat   []byte
	n     *int64
}

func (c *eventCounts) add(phase byte, cat []byte) {
	for i := range c.recent {
		if r := &c.recent[i]; r.n != nil && r.phase == phase && string(r.cat) == string(cat) {
			*r.n++
			return
		}
	}
	k := "-"
	if len(cat) > 0 {
		k, _ = kineto.Clean(cat[:min(len(cat), 48)])
	}
	k += "/"
	if phase != 0 {
		k += string(rune(phase))
	}
	if c.byKind == nil {
		c.byKind = map[string]*int64{}
	}
	if c.byKind[k] == nil {
		if len(c.byKind) > 1000 {
			k = "(other)"
		}
		if c.byKind[k] == nil {
			c.byKind[k] = new(int64)
		}
	}
	r := &c.recent[c.next%len(c.recent)]
	c.next++
	r.phase, r.cat, r.n = phase, append(r.cat[:0], cat...), c.byKind[k]
	*r.n++
}

// addTo adds the counts to a report.
func (c *eventCounts) addTo(counts map[string]int64) {
	for k, n := range c.byKind {
		counts[k] = *n
	}
}
