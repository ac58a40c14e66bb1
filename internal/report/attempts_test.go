package report_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// The page of a job with very many restarts has the usual size: it shows the last
// attempts, and one row for the earlier ones.
func TestManyAttempts(t *testing.T) {
	dir := t.TempDir()
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	const attempts = 130
	for n := range attempts {
		write(t, dir, simjob.Attempt{Ranks: 1, Steps: 2, Number: n, Start: at.Add(time.Duration(n) * time.Minute), Plain: true})
	}
	r := report.Build(collect(t, dir).Jobs()[0])
	if len(r.Attempts) != attempts {
		t.Fatalf("%d attempts, want %d", len(r.Attempts), attempts)
	}
	for _, s := range r.Series.Attempts {
		if s.Attempt <= attempts-100 {
			t.Errorf("the picture has attempt %d, want only the last 100", s.Attempt)
		}
	}
	var page bytes.Buffer
	if err := report.HTML(&page, r, ""); err != nil {
		t.Fatal(err)
	}
	if text := page.String(); !strings.Contains(text, "<td>1 … 30</td>") || !strings.Contains(text, "<tr><td>31</td>") || strings.Contains(text, "<tr><td>29</td>") {
		t.Error("got other attempts than the last hundred")
	}
}
