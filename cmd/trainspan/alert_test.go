package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
	"github.com/trainspan/trainspan/internal/testkit/until"
	"go.uber.org/goleak"
)

// reportOf returns a report with a diagnosis of ranks and an outcome.
func reportOf(kind finding.Kind, how job.How, ranks ...int) *report.Report {
	r := &report.Report{Ledger: &account.Report{}}
	r.Verdict.Rank = &straggler.Verdict{Finding: finding.Finding{Kind: kind, Ranks: ranks}, Ranking: make([]straggler.RankRow, 3)}
	if how != "" {
		r.Outcome = &job.Outcome{How: how}
	}
	return r
}

// TestAlertReportsChanges checks that an answer that two readings give is reported
// once, and an answer that alternates once per interval.
func TestAlertReportsChanges(t *testing.T) {
	fine, slow, other := reportOf(finding.Fine, ""), reportOf(finding.SlowRanks, "", 3), reportOf(finding.SlowRanks, "", 4)
	unknown, hung, done := reportOf(finding.Unknown, ""), reportOf(finding.Hang, job.Hung, 3), reportOf(finding.Fine, job.Completed)
	type reading struct {
		at   int // seconds
		r    *report.Report
		told string
	}
	for name, readings := range map[string][]reading{
		"one reading is none":          {{0, fine, ""}, {2, slow, ""}, {4, fine, ""}, {6, fine, ""}},
		"two are":                      {{0, fine, ""}, {2, slow, ""}, {4, slow, "slow_ranks [3]"}, {6, slow, ""}, {300, slow, ""}},
		"files that do not change":     {{0, fine, ""}, {2, slow, ""}, {4, nil, "slow_ranks [3]"}, {6, nil, ""}},
		"another rank":                 {{0, slow, ""}, {2, slow, "slow_ranks [3]"}, {4, other, ""}, {6, other, "slow_ranks [4]"}},
		"fine and unknown are no news": {{0, fine, ""}, {2, unknown, ""}, {4, unknown, ""}},
		"all is well again":            {{0, slow, ""}, {2, slow, "slow_ranks [3]"}, {4, fine, ""}, {60, fine, ""}, {130, fine, "fine []"}},
		"it flaps":                     {{0, slow, ""}, {2, slow, "slow_ranks [3]"}, {4, fine, ""}, {6, fine, ""}, {8, slow, ""}, {10, slow, ""}, {130, fine, ""}, {132, fine, "fine []"}, {134, slow, ""}, {136, slow, ""}, {260, slow, "slow_ranks [3]"}},
		"a hang is told at once":       {{0, slow, ""}, {2, slow, "slow_ranks [3]"}, {4, hung, ""}, {6, hung, "hung hang [3]"}},
		"the end":                      {{0, fine, ""}, {2, done, ""}, {4, nil, "completed fine []"}},
	} {
		t.Run(name, func(t *testing.T) {
			told := ""
			now := noon
			w := &alerter{quiet: 2 * time.Minute, now: func() time.Time { return now }, notifiers: []notifier{func(_ context.Context, m *alertMessage) error {
				how := ""
				if m.Outcome != nil {
					how = string(m.Outcome.How) + " "
				}
				if told = fmt.Sprint(how, m.Verdict.Rank.Kind, " ", m.Verdict.Rank.Ranks); m.Verdict.Rank.Ranking != nil {
					t.Error("got a row for each rank, want none")
				}
				return nil
			}}}
			for _, r := range readings {
				told, now = "", noon.Add(time.Duration(r.at)*time.Second)
				if err := w.take(t.Context(), &topReading{at: now, report: r.r, same: r.r == nil}); err != nil || told != r.told {
					t.Errorf("second %d: %q, want %q (%v)", r.at, told, r.told, err)
				}
			}
		})
	}
}

// TestAlertCallsAgain checks that a failing notifier is called three times, and one that has sent
// the answer is not called again.
func TestAlertCallsAgain(t *testing.T) {
	failing, working := 0, 0
	w := &alerter{now: fixed, notifiers: []notifier{
		func(context.Context, *alertMessage) error { working++; return nil },
		func(context.Context, *alertMessage) error { failing++; return errors.New("no") },
	}}
	for range 9 {
		_ = w.take(t.Context(), &topReading{report: reportOf(finding.Drift, "")})
	}
	if failing != maxCalls || working != 1 {
		t.Errorf("%d calls of the failing notifier and %d of the other, want %d and 1", failing, working, maxCalls)
	}
}

// TestAlertLeavesAProcess checks that a command succeeds even if a process that it started holds
// its streams.
func TestAlertLeavesAProcess(t *testing.T) {
	var errs lockedBuffer
	a := &ui.App{Stdout: display.NewWriter(&errs), Stderr: display.NewWriter(&errs)}
	o := &alertOptions{exec: "sleep 2 &", timeout: time.Minute}
	if err := notifiersOf(a, o)[0](t.Context(), messageOf(reportOf(finding.Fine, ""), noon)); err != nil {
		t.Errorf("alert: %v, want no error", err)
	}
}

// TestAlert checks that a job with a slow rank is reported to a command and to
// a URL, with the report's diagnosis, and in the metrics.
func TestAlert(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "told.json")
	makeJob(t, dir, simjob.Attempt{Ranks: 8, Steps: 60, Slow: 3, Extra: [4]float64{40}, Start: noon})
	posted := make(chan []byte, 4)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		posted <- body
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout, stderr lockedBuffer
	done := make(chan int)
	go func() {
		done <- run(ctx, []string{"alert", dir, "--exec", "cat > '" + out + ".new' && mv '" + out + ".new' '" + out + "' && echo told", "--webhook", server.URL, "--interval", "5ms", "--metrics", "127.0.0.1:0"},
			ui.Streams{Out: &stdout, Err: &stderr})
	}()
	var m alertMessage
	until.Nil(t, func() error {
		text, err := os.ReadFile(out)
		if err != nil {
			return fmt.Errorf("%w: %s", err, stderr.String())
		}
		return json.Unmarshal(text, &m)
	})
	if v := m.Verdict.Rank; v == nil || v.Kind != finding.SlowRanks || !slices.Equal(v.Ranks, []int{3}) || m.Verdict.Sentence == "" || len(m.Losses) == 0 {
		t.Errorf("alert sent %+v, want slow rank 3, a sentence and losses", m)
	}
	var body alertMessage
	if err := json.Unmarshal(<-posted, &body); err != nil || body.Verdict.Sentence != m.Verdict.Sentence {
		t.Errorf("posted message: %v, sentence %q; want %q", err, body.Verdict.Sentence, m.Verdict.Sentence)
	}
	_, url, _ := strings.Cut(stderr.String(), "metrics: ")
	url, _, _ = strings.Cut(url, "\n")
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	page, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	for _, want := range []string{`training_diagnosis{cause="input",kind="slow_ranks"`, `training_rank_excess_seconds{`, `training_rank="3"`, "training_goodput_ratio{"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("no %s in\n%s", want, page)
		}
	}
	cancel()
	if status := <-done; status != 0 {
		t.Errorf("status %d, want 0: %s", status, stderr.String())
	}
	if n := strings.Count(stdout.String(), "told"); n != 1 {
		t.Errorf("%d calls, want 1: %s", n, stdout.String())
	}
}

// TestAlertCall checks that a failure is reported without the URL, and that
// calls end in time.
func TestAlertCall(t *testing.T) {
	defer goleak.VerifyNone(t)
	slow := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
			select {
			case <-slow:
			case <-r.Context().Done():
			}
		case "/moved":
			http.Redirect(w, r, "/well", http.StatusFound)
		case "/bad":
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer server.Close()
	defer close(slow)
	started := filepath.Join(t.TempDir(), "started")
	for _, tt := range []struct {
		o    alertOptions
		want string
	}{
		{alertOptions{exec: "exit 3"}, "exit status 3"},
		{alertOptions{exec: "(sleep 1000; touch '" + started + "') & sleep 1000", timeout: 50 * time.Millisecond}, "longer than --timeout 50ms"},
		{alertOptions{webhook: server.URL + "/bad?token=hunter2"}, "403"},
		{alertOptions{webhook: server.URL + "/moved?token=hunter2"}, "302"},
		{alertOptions{webhook: server.URL + "/slow?token=hunter2", timeout: 50 * time.Millisecond}, "longer than --timeout 50ms"},
		{alertOptions{webhook: "http://127.0.0.1:1/hunter2"}, "refused"},
	} {
		if tt.o.timeout == 0 {
			tt.o.timeout = time.Minute
		}
		var errs lockedBuffer
		a := &ui.App{Stdout: display.NewWriter(&errs), Stderr: display.NewWriter(&errs)}
		err := notifiersOf(a, &tt.o)[0](t.Context(), messageOf(reportOf(finding.Fine, ""), noon))
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("alert with %+v: error %v, want one with %q and without the password", tt.o, err, tt.want)
		}
	}
}

func TestAlertUse(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{
		{"alert"}, {"alert", dir}, {"alert", dir, "--webhook", "ftp://a/b"}, {"alert", dir, "--webhook", "nothing"}, {"alert", dir, "--exec", "true", "--timeout", "0s"},
		{"alert", dir, "--metrics", "0.0.0.0:0"}, {"alert", dir, "--metrics", ":9465"}, {"alert", filepath.Join(dir, "none"), "--exec", "true"},
	} {
		if status, _, errs := cli(t, args...); status != ui.StatusUse || errs == "" {
			t.Errorf("%v: status %d, stderr %q; want %d and a message", args, status, errs, ui.StatusUse)
		}
	}
}
