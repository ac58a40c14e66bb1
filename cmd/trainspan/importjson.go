package main

import (
	"time"

	"github.com/trainspan/trainspan/integrations/pytorch"
)

// importReport is the JSON of the import command.
type importReport struct {
	Output  string           `json:"output,omitempty"`
	Events  map[string]int64 `json:"events"` // written, by category
	Files   []importFile     `json:"files"`
	Logs    []importLog      `json:"logs"`
	Refused []importRefusal  `json:"refused"`
	Failed  []importRefusal  `json:"failed"`
	Ranks   []importRanks    `json:"ranks"`
	Spans   *importSpans     `json:"spans,omitempty"`
}

type importFile struct {
	Name           string           `json:"name"`
	Events         int64            `json:"events"`
	Bytes          int64            `json:"bytes"`
	Counts         map[string]int64 `json:"counts"`
	Era            string           `json:"era"`
	Start          int64            `json:"start_us"`
	End            int64            `json:"end_us"`
	Rank           int64            `json:"rank"`       // -1 unknown
	World          int64            `json:"world_size"` // -1 unknown
	PID            int64            `json:"pid"`
	Host           string           `json:"host"`
	Steps          int64            `json:"steps"`
	Skipped        int64            `json:"skipped"`
	SkippedBytes   int64            `json:"skipped_bytes"`
	Truncated      bool             `json:"truncated"`
	SelfCPU        int64            `json:"self_cpu_us"`
	Device         int64            `json:"device_us"`
	DeviceRows     int64            `json:"device_rows"`
	DeviceUnlinked int64            `json:"device_rows_without_launch"`
	BackwardTied   int64            `json:"backward_operators_tied"`
	ClockOffset    float64          `json:"clock_offset_us"`
	ClockDrift     float64          `json:"clock_drift_ppm"`
	Devices        []importDevice   `json:"devices"`
	Warnings       []string         `json:"warnings"`
	Guesses        []string         `json:"guesses"`
	Unknown        []string         `json:"cannot_be_known"`
}

// importDevice says how a device spent the profiler's window, in microseconds.
type importDevice struct {
	Device      int64   `json:"device"`
	Window      float64 `json:"window_us"`
	Compute     float64 `json:"compute_us"`
	Comm        float64 `json:"comm_us"`
	ExposedComm float64 `json:"comm_exposed_us"`
	Copy        float64 `json:"copy_us"`
	Idle        float64 `json:"idle_us"`
}

type importLog struct {
	Name         string   `json:"name"`
	Rank         int64    `json:"rank"`
	Phases       int64    `json:"phases"`
	Compilations int64    `json:"compilations"`
	Operators    int64    `json:"operators"`
	Skipped      int64    `json:"skipped"`
	Warnings     []string `json:"warnings"`
}

type importRefusal struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

type importRanks struct {
	Ranks       []int64   `json:"ranks"`
	Matched     int       `json:"matched_collectives"`
	Unequal     int       `json:"inconsistent_collectives"`
	Offsets     []float64 `json:"offsets_us"`
	Drifts      []float64 `json:"drifts_ppm"`
	Residuals   []float64 `json:"residuals_us"`
	Confidence  []string  `json:"confidence"`
	Reasons     []string  `json:"reasons"`
	EndSpread   float64   `json:"end_spread_us"`
	StartSpread float64   `json:"start_spread_us"`
	Note        string    `json:"note,omitempty"`
}

type importSpans struct {
	Asked    string           `json:"asked_level"`
	Used     string           `json:"used_level"`
	Exported int64            `json:"exported"`
	LeftOut  map[string]int64 `json:"left_out"`
	Error    string           `json:"error,omitempty"`
}

func inMicros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// full gives machines an empty list rather than null.
func full[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func importJSON(r *pytorch.Report, output string) *importReport {
	out := &importReport{Output: output, Events: r.Events, Files: []importFile{}, Logs: []importLog{}, Refused: []importRefusal{}, Failed: []importRefusal{}, Ranks: []importRanks{}}
	for _, f := range r.Files {
		out.Files = append(out.Files, importFile{
			Name: f.Name, Events: f.Events, Bytes: f.Bytes, Counts: f.Counts, Era: f.Era.String(), Start: f.Start.UnixMicro(), End: f.End.UnixMicro(),
			Rank: f.Rank, World: f.World, PID: f.PID, Host: f.Host, Steps: f.Steps, Skipped: f.Skipped, SkippedBytes: f.SkippedBytes, Truncated: f.Truncated,
			SelfCPU: f.SelfCPU.Microseconds(), Device: f.Device.Microseconds(), DeviceRows: f.DeviceRows, DeviceUnlinked: f.DeviceUnlinked, BackwardTied: f.BackwardTied,
			ClockOffset: inMicros(f.ClockOffset), ClockDrift: f.ClockDrift, Devices: devicesJSON(f.Devices), Warnings: full(f.Warnings), Guesses: full(f.Guesses), Unknown: full(f.Unknown)})
	}
	for _, l := range r.Logs {
		out.Logs = append(out.Logs, importLog{l.Name, l.Rank, l.Phases, l.Compilations, l.Operators, l.Skipped, full(l.Warnings)})
	}
	for _, x := range r.Refused {
		out.Refused = append(out.Refused, importRefusal{x.Name, x.Reason})
	}
	for _, x := range r.Failed {
		out.Failed = append(out.Failed, importRefusal{x.Name, x.Err.Error()})
	}
	for _, x := range r.Ranks {
		ranks := importRanks{Ranks: full(x.Ranks), Matched: x.Matched, Unequal: x.Inconsistent, Offsets: []float64{}, Drifts: full(x.Drifts), Residuals: []float64{}, Reasons: full(x.Reasons), EndSpread: inMicros(x.EndSpread), StartSpread: inMicros(x.StartSpread), Note: x.Note}
		for _, d := range x.Offsets {
			ranks.Offsets = append(ranks.Offsets, inMicros(d))
		}
		for _, d := range x.Residuals {
			ranks.Residuals = append(ranks.Residuals, inMicros(d))
		}
		for _, c := range x.Confidence {
			ranks.Confidence = append(ranks.Confidence, string(c))
		}
		out.Ranks = append(out.Ranks, ranks)
	}
	if s := r.Spans; s != nil {
		out.Spans = &importSpans{Asked: s.Asked.String(), Used: s.Used.String(), Exported: s.Exported, LeftOut: s.LeftOut}
		if s.Err != nil {
			out.Spans.Error = s.Err.Error()
		}
	}
	return out
}

func devicesJSON(list []pytorch.DeviceUse) []importDevice {
	out := []importDevice{}
	for _, d := range list {
		out = append(out, importDevice{d.Device, inMicros(d.Window), inMicros(d.Compute), inMicros(d.Comm), inMicros(d.ExposedComm), inMicros(d.Copy), inMicros(d.Idle)})
	}
	return out
}
