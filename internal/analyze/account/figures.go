package account

import (
	"cmp"
	"math"
	"time"
)

// Basis holds the inputs of figures that are not in the ledger. A zero field means
// "unknown"; the figures that need it are then unknown too.
type Basis struct {
	// Queue is how long the job waited for its resources, all attempts together.
	Queue time.Duration

	// Saves is the number of recorded checkpoint saves. It counts if no event tells of a successful one.
	Saves int

	// Ideal is the reference iteration time of step-based goodput. Zero means the
	// shortest own time of any iteration.
	Ideal time.Duration

	// Devices is the number of accelerators of the whole job. PeakFLOPs is the peak
	// of one of them in FLOPs per second: the dense value of the data type in use.
	Devices   int
	PeakFLOPs float64

	// ModelFLOPs is the FLOPs that one iteration of the whole job needs, forward and backward,
	// without recomputation: for a decoder-only transformer with N parameters, L layers and H
	// heads of dimension Q, 6N + 12LHQT per token of a sequence of length T. HardwareFLOPs is the
	// FLOPs that it executes, with recomputation: 8N + 16LHQT if everything is recomputed.
	ModelFLOPs    float64
	HardwareFLOPs float64
}

// Figure is one number derived from a report.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"` // in seconds if the name ends in "seconds", else a ratio; 0 if unknown
	Known bool    `json:"known"`
	Note  string  `json:"note"` // the conditions under which it holds, or what is missing

	// OfFailures is set if the figure depends only on the failures and saves of the job, not
	// on its iterations.
	OfFailures bool `json:"-"`
}

// The names of figures. They are explained in docs/explain/goodput.md. FigureYoung is the suggested
// time between checkpoints.
const (
	figureGoodput          = "goodput"
	figureETTR             = "ettr"
	figureRuntimeGoodput   = "runtime_goodput"
	figureClusterReadiness = "cluster_readiness_ratio"
	figureStepGoodput      = "step_goodput"
	figureSlowdown         = "slowdown_seconds"
	figureMTTF             = "mttf_seconds"
	FigureYoung            = "young_interval_seconds"
	figureSaxena           = "availability_interval_seconds"
	figureMFU              = "mfu"
	figureHFU              = "hfu"
	figureUsefulFLOPs      = "useful_flops_ratio"
)

// Figures returns the commonly used ratios, computed from the totals of the
// report. They are means over ranks, for the window of the report.
func (r *Report) Figures(b Basis) []Figure {
	n := float64(max(len(r.Ranks), 1))
	sec := func(c Category) float64 { return float64(r.Categories[c]) / n / 1e9 }
	wall := float64(r.Wall) / 1e9
	var out []Figure
	give := func(name string, above, below float64, note string) {
		f := Figure{Name: name, Note: note}
		if f.Value = above / below; below > 0 && !math.IsNaN(f.Value) && !math.IsInf(f.Value, 0) {
			f.Known = true
		} else {
			f.Value, f.Note = 0, "unknown: the divisor is 0"
		}
		out = append(out, f)
	}
	unknown := func(name, why string) { out = append(out, Figure{Name: name, Note: "unknown: " + why}) }

	productive, down := sec(Productive), sec(Downtime)
	give(figureGoodput, productive, wall, "productive time / wall time")
	queued := "with the given queue time"
	if b.Queue == 0 {
		queued = "without queue time, which is unknown"
	}
	give(figureETTR, productive, wall+b.Queue.Seconds(), "productive time / (wall time + queue time), "+queued)
	if r.Iterations.HasSaves {
		give(figureRuntimeGoodput, productive-float64(r.Iterations.AtRiskTime)/n/1e9, wall-down,
			"saved progress / time in which the job ran")
	} else {
		unknown(figureRuntimeGoodput, "no record names the saved checkpoints")
	}
	give(figureClusterReadiness,
		wall-sec(LostWork)-sec(Stall)-sec(Init)-sec(CheckpointLoad)-down-sec(CheckpointSave), wall-down,
		"data wait, warm-up and validation count as productive here")
	r.steps(b, wall, productive, give, unknown)
	steps := len(out)
	r.failures(cmp.Or(r.Saves, b.Saves), n, wall-down-sec(Unobserved)-sec(Absent), give, unknown)
	for i := range out[steps:] {
		out[steps+i].OfFailures = true
	}
	r.flops(b, wall, productive, give, unknown)
	return out
}

type giver func(name string, above, below float64, note string)

// steps adds the figures that compare kept iterations with an ideal time.
func (r *Report) steps(b Basis, wall, productive float64, give giver, unknown func(name, why string)) {
	ideal, note := b.Ideal.Seconds(), "kept iterations x the given ideal time"
	if ideal == 0 {
		ideal, note = float64(r.Iterations.Shortest)/1e9, "kept iterations x the shortest iteration"
	}
	if ideal == 0 {
		unknown(figureStepGoodput, "no finished iteration")
		unknown(figureSlowdown, "no finished iteration")
		return
	}
	worth := float64(r.Iterations.Kept) * ideal
	give(figureStepGoodput, worth, wall, note)
	give(figureSlowdown, productive-worth, 1, "productive time above "+note)
}

// failures adds the figures that depend on how often the job failed.
func (r *Report) failures(saves int, ranks, observed float64, give giver, unknown func(name, why string)) {
	failed := 0
	for _, d := range r.Disruptions {
		if !d.Proper {
			failed++
		}
	}
	if failed == 0 {
		unknown(figureMTTF, "no failure")
		unknown(FigureYoung, "no failure")
		unknown(figureSaxena, "no failure")
		return
	}
	mttf := observed / float64(failed)
	give(figureMTTF, mttf, 1, "running time / number of failures, without planned stops")
	if saves == 0 {
		unknown(FigureYoung, "no checkpoint save was recorded")
		unknown(figureSaxena, "no checkpoint save was recorded")
		return
	}
	// The job waits for the rank that saves longest: the others may save nothing.
	longest := int64(0)
	for i := range r.Ranks {
		longest = max(longest, r.Ranks[i].Categories[CheckpointSave])
	}
	save := float64(longest) / 1e9 / float64(saves)
	restart := 0.0
	for _, d := range r.Disruptions {
		restart += float64(d.Down+d.Init+d.Reload) / ranks / 1e9 / float64(len(r.Disruptions))
	}
	give(FigureYoung, math.Sqrt(2*save*mttf), 1, "between checkpoints; a suggestion for small losses")
	give(figureSaxena, save+math.Sqrt(2*(mttf+restart)*save+save*save), 1, "between checkpoints, including the restart time; a suggestion")
}

// flops adds the figures of accelerator utilization.
func (r *Report) flops(b Basis, wall, productive float64, give giver, unknown func(name, why string)) {
	peak := float64(b.Devices) * b.PeakFLOPs
	if peak <= 0 {
		for _, name := range []string{figureMFU, figureHFU, figureUsefulFLOPs} {
			unknown(name, "devices and their peak were not given")
		}
		return
	}
	kept := float64(r.Iterations.Kept)
	if b.ModelFLOPs <= 0 {
		unknown(figureMFU, "the FLOPs of an iteration were not given")
		unknown(figureUsefulFLOPs, "the FLOPs of an iteration were not given")
	} else {
		give(figureMFU, kept*b.ModelFLOPs, peak*productive, "of productive time, without recomputation, relative to the given peak")
		give(figureUsefulFLOPs, kept*b.ModelFLOPs, peak*wall, "of the wall time: goodput x MFU")
	}
	if b.HardwareFLOPs <= 0 {
		unknown(figureHFU, "the FLOPs executed in an iteration were not given")
		return
	}
	give(figureHFU, kept*b.HardwareFLOPs, peak*productive, "of productive time, with recomputation; compare runs by MFU")
}
