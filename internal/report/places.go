package report

import (
	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// placeOfLoss returns the place that shows a loss best.
func placeOfLoss(c account.Category) place { return placeOfPart(partOf(c)) }

// placeOfPart returns the place that shows a share best.
func placeOfPart(part string) place {
	switch kindOfPart(part) {
	case finding.Checkpoints:
		return placeSaves
	case finding.LostWork, finding.Down, finding.StartUp:
		return placeStarts
	case finding.InputSlow, finding.OtherCode, finding.Recompile:
		return placeSteps
	case finding.Wait:
		return placeWaits
	case finding.SlowTransfer:
		return placeTransfers
	}
	return placeTime
}

// placeOfFinding returns the place that shows a finding about ranks best.
func placeOfFinding(v *straggler.Verdict) place {
	if v.Suspected != nil {
		return placeRanks
	}
	switch v.Kind {
	case finding.InputSlow, finding.Drift:
		return placeSteps
	case finding.SlowTransfer:
		return placeTransfers
	case finding.Hang:
		return placeWaits
	case finding.Unknown:
		return placeData
	}
	return placeRanks
}

// placeOfWhy returns the place that shows the reason for the diagnosis best.
func (r *Report) placeOfWhy() place {
	v := &r.Verdict
	if v.kind.IsOfSteps() && v.Finding == v.ofRanks() {
		return placeOfFinding(v.Rank)
	}
	if v.kind == finding.Unknown {
		return placeData
	}
	for i := range r.Shares {
		if part := r.Shares[i].Part; r.Profile == nil && kindOfPart(part) == v.kind {
			return placeOfPart(part)
		}
	}
	return placeTime
}

// linked is a sentence of the page with a link to the part that it is about. ID and To are
// empty without a link.
type linked struct{ Text, ID, To string }

// link links a sentence to the best existing part of the page for its place.
func (p *page) link(s said) linked {
	for _, to := range p.parts(s.at) {
		if to.there {
			return linked{s.text, to.id, to.name}
		}
	}
	return linked{Text: s.text}
}

// part is a part of the page.
type part struct {
	id, name string
	there    bool
}

// parts returns the parts of the page for a place, the best first.
func (p *page) parts(at place) []part {
	var (
		times    = part{"time", "where the time went", true}
		attempts = part{"attempts", "attempts", p.R.Profile == nil}
		lost     = part{"lost", "what each restart cost", p.R.Profile == nil && len(p.Disruptions) > 0}
		steps    = part{"h-steps", "steps", p.Chart["steps"]}
		heat     = part{"h-heat", "ranks and steps", p.Chart["heat"]}
		ranks    = part{"ranks", "ranks", len(p.Ranks) > 1 && p.R.Profile == nil}
		waits    = part{"waits", "who waits for whom", p.Waits != nil}
		comm     = part{"h-comm", "communication", p.Chart["comm"]}
		saves    = part{"h-saves", "checkpoints", len(p.R.Checkpoints) > 0}
	)
	switch at {
	case placeTime:
		return []part{times}
	case placeStarts:
		return []part{lost, attempts, times}
	case placeSteps:
		return []part{steps, times}
	case placeRanks:
		return []part{heat, ranks, times}
	case placeWaits:
		return []part{waits, ranks, times}
	case placeTransfers:
		return []part{comm, steps, times}
	case placeSaves:
		return []part{saves, times}
	case placeData:
		return []part{{"data-behind", "the data", true}}
	}
	return nil
}
