package report_test

import (
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/report"
)

// TestAcrossAttempts: a rank that is slow in both attempts is reported as such.
func TestAcrossAttempts(t *testing.T) {
	r := report.Build(read(t, faulty(t)))
	if len(r.Verdict.Across) != 1 {
		t.Fatalf("Verdict.Across = %+v, want one cause", r.Verdict.Across)
	}
	rc := r.Verdict.Across[0]
	if len(rc.Ranks) != 1 || rc.Ranks[0] != 3 || len(rc.Attempts) != 2 || rc.Judged != 2 {
		t.Errorf("Verdict.Across[0] = %+v, want rank 3 in 2 of 2 judged attempts", rc)
	}
	if !strings.Contains(r.Verdict.Sentence, rc.Sentence) {
		t.Errorf("not in the verdict: %s, want %q in it", r.Verdict.Sentence, rc.Sentence)
	}
}
