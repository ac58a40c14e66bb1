package report

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/internal/human"
	"github.com/trainspan/trainspan/internal/replay"
)

// waitTable is who waited for whom, as the page shows it: a row for each that waited, a
// column for each that was waited for.
type waitTable struct {
	Sentence string
	By       string
	Names    []string
	Rows     []waitRow
}

type waitRow struct {
	Name  string
	Cells []waitCell
	Total int64 // ns
}

// waitCell has its share of the largest one, from 0 to 1, empty without a wait.
type waitCell struct {
	Weight string
	Time   int64 // ns
}

// fewNames is up to how many columns cells have their time as text.
const fewNames = 12

// Told reports whether cells have their time as text.
func (t *waitTable) Told() bool { return len(t.Names) <= fewNames }

// waits fills the table from the budget of a verdict, nil without one.
func waits(v *replay.Verdict) *waitTable {
	if v == nil || v.Waits == nil || v.Waits.Total == 0 || len(v.Waits.Names) < 2 {
		return nil
	}
	w := v.Waits
	t := &waitTable{By: w.By, Names: w.Names, Rows: make([]waitRow, len(w.Names))}
	for i := range t.Rows {
		t.Rows[i] = waitRow{Name: w.Names[i], Cells: make([]waitCell, len(w.Names))}
	}
	for _, c := range w.Cells {
		row := &t.Rows[c.Waiter]
		row.Cells[c.For] = waitCell{strconv.FormatFloat(float64(c.Time)/float64(w.Cells[0].Time), 'f', 2, 64), c.Time * 1000}
		row.Total += c.Time * 1000
	}
	list := func(parts []replay.WaitPart) string {
		var out []string
		for _, p := range parts[:min(len(parts), 4)] {
			if share := float64(p.Time) / float64(w.Total); share >= worth {
				out = append(out, fmt.Sprintf("%s %s", p.Name, human.Percent(share)))
			}
		}
		return strings.Join(out, ", ")
	}
	t.Sentence = fmt.Sprintf("%s of the time of all ranks is waiting for others. By group: %s. The last one took longer in: %s.", human.Percent(w.Share), list(w.Group), list(w.Phases))
	if w.Bubble > 0 {
		t.Sentence += fmt.Sprintf(" %s of it is the bubble of the pipeline: waiting for messages.", human.Percent(float64(w.Bubble)/float64(w.Total)))
	}
	return t
}
