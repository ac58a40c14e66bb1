package report_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// Missing ranks are determined by the world size in a trace, and contradictory records are
// reported.
func TestMissingRanks(t *testing.T) {
	for _, key := range []string{"world_size", "pytorch.world_size", "training.world_size", ""} {
		dir := t.TempDir()
		for _, rank := range []int{0, 2} {
			w, err := dftracer.Create(filepath.Join(dir, fmt.Sprintf("trace-rank%d.pfw.gz", rank+rank/2)), &dftracer.Options{
				Start: time.Unix(1_700_000_000, 0), Process: dftracer.Process{PID: 100 + rank, Rank: &rank},
			})
			if err != nil {
				t.Fatal(err)
			}
			if key != "" {
				tracefile.WriteCustom(w, key, "4")
			}
			step := dftracer.NewKey("pipeline", "train.iteration")
			for i := range 10 {
				w.WriteComplete(&step, dftracer.Span{TS: 1_700_000_000_000_000 + int64(i)*1_000_000, Dur: 900_000}, dftracer.Int("step", int64(i)))
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		s, err := report.Load(nil, dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range []*report.Job{s.Jobs()[0], digested(t, dir)} {
			r := report.Build(j)
			missing := slices.ContainsFunc(r.Ledger.Flags, func(f account.Flag) bool {
				return f.Kind == account.MissingRank && f.Rank == 1 && f.Count == 1
			})
			if missing != (key != "") {
				t.Errorf("%q: flags %+v, want missing ranks flagged: %v", key, r.Ledger.Flags, key != "")
			}
			if r.Quality.Disagree != 1 || r.Quality.DisagreeOn != "rank" { // the name of a file contains rank3
				t.Errorf("%q: quality %+v, want one disagreement on rank", key, r.Quality)
			}
			var text bytes.Buffer
			if err := report.Full(&text, r); err != nil {
				t.Fatal(err)
			}
			flat := strings.Join(strings.Fields(text.String()), " ")
			if !strings.Contains(flat, "rank contradictory in records and file names, 1 time") || strings.Contains(flat, "The files of ranks 1, 3 are missing") != missing {
				t.Errorf("%q: want that the rank is contradictory, and the missing ranks if they are missing, got\n%s", key, text.String())
			}
		}
	}
}
