package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/jobmetrics"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/report"
)

type alertOptions struct {
	exec, webhook, metrics   string
	quiet, timeout, interval time.Duration
}

func newAlert(a *ui.App) *cobra.Command {
	var o alertOptions
	cmd := &cobra.Command{
		Use:   "alert [RUN|DIR...]",
		Short: "Notify a program or a URL when the diagnosis of a job changes",
		Long: `Reads the files of a running job repeatedly, as "trainspan top" does, and sends a
notification when the diagnosis of the steps or the outcome changes: a rank is slow, ranks hang,
the job failed, the problem is gone. The notification is JSON with the first lines of
the report: outcome, verdict and shares of the time.

A change is reported when two readings in a row show it. Notifications are sent one
at a time; each ends after --timeout, and a failed one is sent again, twice. A new
diagnosis is sent immediately. A diagnosis that was sent before is sent again only if the
last notification was at least --for ago, so a diagnosis that alternates causes one
notification in that time.

--metrics serves metrics of the job to a Prometheus server on this machine, as
"trainspan run --metrics" does, or sends them to an OTLP receiver. The eight ranks furthest behind
have their own series; the others are summed by host.

The command waits for files in the directory, and runs until Ctrl-C.`,
		Example: `  trainspan alert out/demo --exec 'jq -r .verdict.sentence | mail -s "job 4711" me@example.org'
  trainspan alert /shared/runs/4711 --webhook https://hooks.example.org/T0 --for 10m
  trainspan alert out/demo --metrics 127.0.0.1:9465
  trainspan alert out/demo --metrics http://localhost:4318`,
		ValidArgsFunction: read.Complete,
		RunE:              func(cmd *cobra.Command, args []string) error { return runAlert(cmd.Context(), a, args, &o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.exec, "exec", "", "run this shell `command`, with JSON on its standard input")
	f.StringVar(&o.webhook, "webhook", "", "post JSON to this `URL`")
	f.StringVar(&o.metrics, "metrics", "", "serve metrics on this `address` of this machine, such as 127.0.0.1:9465, or send them to the URL of an OTLP receiver")
	f.DurationVar(&o.quiet, "for", 2*time.Minute, "shortest time between the last notification and one with a diagnosis that was sent before")
	f.DurationVar(&o.timeout, "timeout", 10*time.Second, "longest time of a notification")
	f.DurationVar(&o.interval, "interval", 2*time.Second, "shortest time between two readings")
	return cmd
}

func runAlert(ctx context.Context, a *ui.App, args []string, o *alertOptions) error {
	switch {
	case o.exec == "" && o.webhook == "" && o.metrics == "":
		return ui.Usage("no receiver is given; add --exec COMMAND, --webhook URL or --metrics ADDRESS")
	case o.quiet < 0 || o.timeout <= 0 || o.interval <= 0:
		return ui.Usage("--for %v, --timeout %v, --interval %v: set times above 0", o.quiet, o.timeout, o.interval)
	}
	if o.webhook != "" {
		if u, err := url.Parse(o.webhook); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return ui.Usage("--webhook: give a URL such as https://hooks.example.org/T0")
		}
	}
	reader, err := newTopReader(ctx, args, o.interval)
	if err != nil {
		return err
	}
	w := &alerter{quiet: o.quiet, now: time.Now, notifiers: notifiersOf(a, o)}
	if o.metrics != "" {
		if err := jobmetrics.Check(o.metrics); err != nil {
			return err
		}
		m, err := jobmetrics.Serve(ctx, o.metrics, nil)
		if err != nil {
			return err
		}
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.timeout)
			defer cancel()
			_ = m.Close(ctx) // the command ends
		}()
		a.Note("metrics: %s", m.URL())
		w.metrics = m
	}
	a.Note("watching %s; press Ctrl-C to stop", reader.name())
	for {
		r := reader.read(ctx, false)
		if ctx.Err() != nil {
			return nil
		}
		if r.err != nil {
			a.Note("%s", ui.Explain(r.err))
		}
		if err := w.take(ctx, &r); err != nil {
			a.Note("alert: %s; see "+helptopic.Alert, ui.Explain(err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(r.rest):
		}
	}
}

// alerter decides which changes are reported. It is not safe for concurrent
// use.
type alerter struct {
	quiet     time.Duration
	now       func() time.Time
	notifiers []notifier
	metrics   *jobmetrics.Server

	report *report.Report
	before string          // the answer of the previous reading
	latest string          // the last reported answer
	last   time.Time       // the time of that report
	sent   map[string]bool // all reported answers
	failed int             // failed notifications of the current answer
	called map[int]bool    // the notifiers that have sent the current answer
}

// notifier sends an alert.
type notifier func(context.Context, *alertMessage) error

// maxCalls is the maximum number of calls of a notifier that fails.
const maxCalls = 3

// alertMessage is the content of an alert: the first lines of the report.
type alertMessage struct {
	Version    int            `json:"version"`
	Name       string         `json:"name,omitempty"`
	JobID      string         `json:"job_id,omitempty"`
	SessionTag string         `json:"session_tag,omitempty"`
	At         time.Time      `json:"at"`      // of the reading
	Running    bool           `json:"running"` // the last attempt is
	Outcome    *job.Outcome   `json:"outcome"`
	Verdict    report.Verdict `json:"verdict"`
	Goodput    *float64       `json:"goodput"`
	Losses     []report.Loss  `json:"losses"`
	Categories account.Totals `json:"categories_ns"`
}

// take handles a reading, and sends an alert if its answer differs from the
// last reported one. Unchanged files give the same answer again.
func (w *alerter) take(ctx context.Context, r *topReading) error {
	if r.report != nil {
		w.report = r.report
		if w.metrics != nil {
			w.metrics.Set(r.job, r.report)
		}
	}
	if w.report == nil || r.report == nil && !r.same || len(w.notifiers) == 0 {
		return nil
	}
	answer := answerOf(w.report)
	agree := answer == w.before
	if w.before = answer; !agree {
		w.failed, w.called = 0, nil
		return nil
	}
	now := w.now()
	// A new answer is reported at once; an answer that was reported before only
	// when the time quiet has passed since the last report.
	if answer == w.latest || w.failed == maxCalls || (answer == "" || w.sent[answer]) && now.Sub(w.last) < w.quiet {
		return nil
	}
	if err := w.notify(ctx, messageOf(w.report, r.at)); err != nil {
		w.failed++
		return fmt.Errorf("notification failed (try %d of %d): %w", w.failed, maxCalls, err)
	}
	if w.sent == nil {
		w.sent = make(map[string]bool)
	}
	w.sent[answer], w.latest, w.last, w.failed, w.called = true, answer, now, 0, nil
	return nil
}

// notify calls the notifiers that have not sent the current answer, one after the other.
func (w *alerter) notify(ctx context.Context, m *alertMessage) error {
	var errs []error
	for i, call := range w.notifiers {
		if w.called[i] {
			continue
		}
		if err := call(ctx, m); err != nil {
			errs = append(errs, err)
			continue
		}
		if w.called == nil {
			w.called = make(map[int]bool)
		}
		w.called[i] = true
	}
	return errors.Join(errs...)
}

// answerOf returns the part of a report whose changes are reported. It omits
// statements that nothing was found, or that nothing can be found.
func answerOf(r *report.Report) string {
	var parts []string
	if o := r.Outcome; o != nil && o.How != job.Unfinished {
		parts = append(parts, string(o.How), o.Error)
		if o.Rank != nil {
			parts = append(parts, fmt.Sprint(*o.Rank))
		}
	}
	if v := r.Verdict.Rank; v != nil && v.ExitCode() == 3 {
		ranks := slices.Sorted(slices.Values(v.Ranks))
		parts = append(parts, string(v.Kind), v.Cause, fmt.Sprint(ranks))
	}
	return strings.Join(parts, "\x00")
}

func messageOf(r *report.Report, at time.Time) *alertMessage {
	m := &alertMessage{Version: report.Version, Name: r.Name, JobID: r.JobID, SessionTag: r.SessionTag, At: at.UTC(), Outcome: r.Outcome, Verdict: r.Verdict,
		Goodput: r.Goodput, Losses: r.Losses, Categories: r.Ledger.Categories}
	if n := len(r.Attempts); n > 0 {
		m.Running = r.Attempts[n-1].Running
	}
	if v := r.Verdict.Rank; v != nil {
		short := *v
		short.Ranking = nil // it has a row per rank
		m.Verdict.Rank = &short
	}
	return m
}

// notifiersOf returns the requested notifiers. Each call has --timeout of its own.
func notifiersOf(a *ui.App, o *alertOptions) (out []notifier) {
	add := func(send func(ctx context.Context, body []byte) error) {
		out = append(out, func(ctx context.Context, m *alertMessage) error {
			var body bytes.Buffer
			if err := report.JSON(&body, m); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("it took longer than --timeout %v", o.timeout))
			defer cancel()
			return send(ctx, body.Bytes())
		})
	}
	if o.exec != "" {
		add(func(ctx context.Context, body []byte) error { return callCommand(ctx, a, o.exec, body) })
	}
	if o.webhook != "" {
		add(func(ctx context.Context, body []byte) error { return post(ctx, o.webhook, body) })
	}
	return out
}

// callCommand runs a shell command. When the context ends, it ends the command
// and the processes that the command started.
func callCommand(ctx context.Context, a *ui.App, command string, body []byte) error {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(body), a.Stdout, a.Stderr
	cmd.WaitDelay = time.Second // processes that hold its streams open do not block
	ownGroup(cmd)
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // the command succeeded, and left a process that holds its streams
	}
	if flushed := a.Stdout.Flush(); err == nil {
		err = flushed
	}
	switch {
	case ctx.Err() != nil && err != nil:
		return fmt.Errorf("--exec: %w", context.Cause(ctx))
	case err != nil:
		return fmt.Errorf("--exec: %w", err)
	}
	return nil
}

// post sends JSON to a URL. Errors do not contain the URL, which may contain a
// token.
func post(ctx context.Context, to string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return errors.New("--webhook: no URL")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "trainspan")
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	switch inner := errors.Unwrap(err); {
	case ctx.Err() != nil:
		return fmt.Errorf("--webhook: %w", context.Cause(ctx))
	case inner != nil:
		return fmt.Errorf("--webhook: %w", inner)
	case err != nil:
		return errors.New("--webhook: no response")
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // the response is ignored
	_ = resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("--webhook: the server responded %s", resp.Status)
	}
	return nil
}
