package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/profile"
	"github.com/trainspan/trainspan/internal/platform/display"
)

// limits sets the limits of the report from the basis of a job.
func (r *Report) limits(j *Job) {
	b := j.basis(r.Ledger)
	if b.ModelFLOPs <= 0 || b.PeakFLOPs <= 0 {
		return
	}
	out := &Limits{FLOPsPerStep: b.ModelFLOPs, Peak: b.PeakFLOPs, Devices: b.Devices, Without: []Without{}}
	steps, wall := float64(r.Ledger.Iterations.Kept), float64(r.Ledger.Wall)
	if p := r.Profile; p != nil {
		steps, wall = float64(p.Steps), float64(p.Time)
	}
	if steps == 0 || wall == 0 {
		return
	}
	out.MFU = steps * b.ModelFLOPs / (float64(b.Devices) * b.PeakFLOPs * wall / 1e9)
	add := func(loss string, share float64) {
		if share >= worthLimit && share < 1 {
			out.Without = append(out.Without, Without{loss, share, out.MFU / (1 - share)})
		}
	}
	if p := r.Profile; p != nil {
		for part := profile.Communication; int(part) < profile.Parts; part++ {
			add(part.Words(p.Device), p.share(part))
		}
	} else {
		for _, l := range r.Losses {
			add(PartName(string(l.Category)), l.Share)
		}
		if v := r.Verdict.Rank; v != nil {
			for _, f := range append([]finding.Finding{v.Finding}, v.Others...) {
				add(f.Name(), f.CostInRun())
			}
		}
	}
	slices.SortStableFunc(out.Without, func(a, b Without) int { return cmp.Compare(b.Share, a.Share) })
	r.Limits = out
	if out.MFU > 1 {
		r.Quality.Remarks = append(r.Quality.Remarks, fmt.Sprintf("utilization is above the peak of the devices (%s): check that the operations per step are those of all ranks for one step, and the peak is that of one device", display.Percent(out.MFU)))
	}
}

// worthLimit is the smallest share of the time that is listed.
const worthLimit = 0.001

// basis returns the given basis, with one device per rank if the number was not given, and the recorded saves.
func (j *Job) basis(led *account.Report) account.Basis {
	b := j.Basis
	if b.Devices == 0 {
		b.Devices = max(j.Job.Ranks, len(led.Ranks))
	}
	if j.details != nil {
		b.Saves = int(j.details.moreSaves)
		for i := range j.details.checkpoints {
			if c := &j.details.checkpoints[i]; !c.Load && !c.Failed {
				b.Saves++
			}
		}
	}
	return b
}

// sentence returns the MFU, and the MFU without each of the largest losses, "" if they are unknown.
func (l *Limits) sentence() string {
	if l == nil {
		return ""
	}
	const most = 3
	text := display.Percent(l.MFU) + " of " + display.Plural(l.Devices, "device")
	for i, w := range l.Without[:min(len(l.Without), most)] {
		between := ", "
		if i == 0 {
			between = "; "
		}
		text += fmt.Sprintf("%s%s without %s", between, display.Percent(w.MFU), w.Loss)
	}
	return text
}
