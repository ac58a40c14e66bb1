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
		t.Fatalf("got %+v", r.Verdict.Across)
	}
	rc := r.Verdict.Across[0]
	if len(rc.Ranks) != 1 || rc.Ranks[0] != 3 || len(rc.Attempts) != 2 || rc.Judged != 2 {
		t.Errorf("got %+v", rc)
	}
	if !strings.Contains(r.Verdict.Sentence, rc.Sentence) {
		t.Errorf("not in the verdict: %s, want %q in it", r.Verdict.Sentence, rc.Sentence)
	}
}
