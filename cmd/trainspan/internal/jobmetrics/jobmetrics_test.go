package jobmetrics_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/jobmetrics"
	"github.com/trainspan/trainspan/internal/export/metrics"
	"github.com/trainspan/trainspan/internal/export/metrics/promname"
	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	"google.golang.org/protobuf/proto"
)

// fetch serves the metrics of a simulated job and returns the series that
// Prometheus gets, by name and labels, without those of the scope.
func fetch(t *testing.T, a simjob.Attempt, running bool, changes ...func(*report.Report)) (*report.Report, map[string]float64) {
	t.Helper()
	dir := t.TempDir()
	if _, err := a.Write(dir); err != nil {
		t.Fatal(err)
	}
	state, err := report.Load(t.Context().Err, dir)
	if err != nil {
		t.Fatal(err)
	}
	j := state.Jobs()[0]
	r := report.Live(j, math.MaxInt64)
	if running {
		r.Attempts[len(r.Attempts)-1].Running = true
	}
	for _, change := range changes {
		change(r)
	}
	s, err := jobmetrics.Serve(t.Context(), "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context()) //nolint:errcheck // the test is over
	if page := get(t, s.URL()); len(page) > 0 {
		t.Errorf("before the first reading: %v, want none", page)
	}
	s.Set(j, r)
	return r, get(t, s.URL())
}

var scope = regexp.MustCompile(`otel_scope_\w+="[^"]*",?`)

func get(t *testing.T, url string) map[string]float64 {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	out := map[string]float64{}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		name := strings.NewReplacer(",}", "}", "{}", "").Replace(scope.ReplaceAllString(line[:at], ""))
		out[name] = v
	}
	return out
}

// sum adds up the series of a metric.
func sum(series map[string]float64, m *metrics.Metric, suffix string) (all float64, n int) {
	name := promname.Of(m) + suffix
	for s, v := range series {
		if s == name || strings.HasPrefix(s, name+"{") {
			all, n = all+v, n+1
		}
	}
	return all, n
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Max(math.Abs(a), math.Abs(b)) }

// TestMetrics checks that the values are those of the report, and that each row
// of the table that a job has is served.
func TestMetrics(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	a := simjob.Attempt{Ranks: 4, Steps: 60, Slow: 2, Extra: [4]float64{40}, Start: noon, Save: 20}
	r, got := fetch(t, a, true)
	for _, c := range []struct {
		m      *metrics.Metric
		suffix string
		want   float64
		series int
	}{
		{metrics.Time, "", float64(r.Ledger.Categories.Sum()) / 1e9, len(r.Ledger.Categories)},
		{metrics.TimeProductive, "", float64(r.Ledger.Categories["productive"]) / 1e9, len(r.Ledger.ProductiveParts)},
		{metrics.WaitedFor, "", float64(waited(r)) / 1e9, len(r.Ledger.WaitedFor)},
		{metrics.GoodputRatio, "", *r.Goodput, 1},
		{metrics.Iterations, "", 240, 4},
		{metrics.IterationDuration, "_count", 240, 1},
		{metrics.LoopsOpen, "", 1, 1},
		{metrics.Ranks, "", 4, 4},
		{metrics.CheckpointSaves, "", float64(len(r.Checkpoints)), 2},
		{metrics.FileLost, "", 0, 1},
		{metrics.Diagnosis, "", 1, 1},
		{metrics.Outcome, "", 1, 1},
		{metrics.LastRecord, "", float64(r.Ledger.To) / 1e9, 1},
	} {
		if v, n := sum(got, c.m, c.suffix); n != c.series || !near(v, c.want) {
			t.Errorf("%s%s: got %d series with the sum %v, want %d with %v", c.m.Name, c.suffix, n, v, c.series, c.want)
		}
	}
	for _, m := range []*metrics.Metric{metrics.ProductiveTime, metrics.LoopTime, metrics.StartupTime} {
		if v, n := sum(got, m, ""); n != 1 || v <= 0 || v > float64(r.Ledger.Wall)/1e9 {
			t.Errorf("%s: got %v in %d series, want one below %v", m.Name, v, n, float64(r.Ledger.Wall)/1e9)
		}
	}
	if v := got[`training_rank_excess_seconds{host_name="node-a0",training_rank="2"}`]; !near(v, r.Ranks[2].Excess/1e3) {
		t.Errorf("excess of rank 2: got %v, want %v: %v", v, r.Ranks[2].Excess/1e3, got)
	}
	if v := got[`training_diagnosis{cause="input",kind="slow_ranks"}`]; v != 1 {
		t.Errorf("training_diagnosis of input is missing or not 1 in %v", got)
	}
}

// TestFailedSaves checks that saves that failed are counted as failures, and that both counters
// begin at 0.
func TestFailedSaves(t *testing.T) {
	a := simjob.Attempt{Ranks: 2, Steps: 60, Save: 20}
	for failed := range 3 {
		r, got := fetch(t, a, true, func(r *report.Report) {
			for i := range failed {
				r.Checkpoints[i].Failed = true
			}
			r.MoreSaves = 7
		})
		name := promname.Of(metrics.CheckpointSaves)
		success, failure := got[name+`{outcome="success"}`], got[name+`{outcome="failure"}`]
		if _, n := sum(got, metrics.CheckpointSaves, ""); n != 2 || success != float64(7+len(r.Checkpoints)-failed) || failure != float64(failed) {
			t.Errorf("%d of 7 + %d saves failed: %v were successes and %v failures in %d series", failed, len(r.Checkpoints), success, failure, n)
		}
	}
}

func waited(r *report.Report) (ns int64) {
	for _, w := range r.Ledger.WaitedFor {
		ns += w.Time
	}
	return ns
}

// TestManyRanks checks that eight ranks have their own series, including the
// diagnosed one, and that the others are summed by host. Counters are summed by
// host only, so that none decreases.
func TestManyRanks(t *testing.T) {
	r, got := fetch(t, simjob.Attempt{Ranks: 24, Steps: 20, Slow: 17, Extra: [4]float64{40}}, false)
	hosts := map[string]bool{}
	for i := range r.Ranks {
		hosts[r.Ranks[i].Host] = true
	}
	if v, n := sum(got, metrics.Ranks, ""); n != 8+len(hosts) || v != 24 {
		t.Errorf("ranks: got %v in %d series, want 24 in %d", v, n, 8+len(hosts))
	}
	if v, n := sum(got, metrics.Iterations, ""); n != len(hosts) || v != 24*20 {
		t.Errorf("iterations: got %v in %d series, want %d in %d", v, n, 24*20, len(hosts))
	}
	named := false
	for s := range got {
		named = named || strings.HasPrefix(s, "training_rank_excess") && strings.Contains(s, `training_rank="17"`)
	}
	if !named {
		t.Errorf("rank 17 has no series in %v", got)
	}
}

// TestBeforeTheFirstStep checks that a running job has an open loop from its start on, because it may hang in
// its first collective; the time since the loop began is 0 until it has finished a step.
func TestBeforeTheFirstStep(t *testing.T) {
	for running, want := range map[bool]float64{true: 1, false: 0} {
		_, got := fetch(t, simjob.Attempt{Ranks: 2}, running)
		if open, _ := sum(got, metrics.LoopsOpen, ""); open != want || got[promname.Of(metrics.LoopTime)] != 0 || got[promname.Of(metrics.IterationDuration)+"_count"] != 0 {
			t.Errorf("running %v: %v open loops, want %v and no steps: %v", running, open, want, got)
		}
	}
}

func TestCheck(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:0": true, "localhost:9477": true, "[::1]:9477": true, "0.0.0.0:9477": false, ":9477": false, "example.org:1": false, "9477": false, "": false,
		"http://localhost:4318": true, "https://collector.example.org": true, "ftp://localhost:4318": false, "http://": false,
	} {
		if err := jobmetrics.Check(address); (err == nil) != ok {
			t.Errorf("%q: got %v, want allowed %v", address, err, ok)
		}
	}
	if _, err := jobmetrics.Serve(context.Background(), "127.0.0.1:99999", nil); err == nil || !strings.Contains(err.Error(), "--metrics") {
		t.Errorf("Serve on port 99999: error %v, want one that names --metrics", err)
	}
}

// send sends the metrics of a simulated job with an id to an OTLP receiver and returns what it gets.
func send(t *testing.T, id string) (sent map[string]bool, of map[string]string) {
	t.Helper()
	requests := make(chan *metricspb.ExportMetricsServiceRequest, 8)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			var z *gzip.Reader
			if z, err = gzip.NewReader(bytes.NewReader(body)); err == nil {
				body, err = io.ReadAll(z)
			}
		}
		m := &metricspb.ExportMetricsServiceRequest{}
		if err != nil || r.URL.Path != "/v1/metrics" || proto.Unmarshal(body, m) != nil {
			t.Errorf("metrics sent to %s: %v; want a request to /v1/metrics", r.URL.Path, err)
		}
		requests <- m
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer receiver.Close()
	dir := t.TempDir()
	if _, err := (simjob.Attempt{Ranks: 2, Steps: 20}).Write(dir); err != nil {
		t.Fatal(err)
	}
	state, err := report.Load(t.Context().Err, dir)
	if err != nil {
		t.Fatal(err)
	}
	j := state.Jobs()[0]
	j.Job.ID, j.Job.Label = id, "train.3"
	s, err := jobmetrics.Serve(t.Context(), receiver.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Set(j, report.Live(j, math.MaxInt64))
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := (<-requests).GetResourceMetrics()[0]
	sent, of = make(map[string]bool), make(map[string]string)
	for _, m := range got.GetScopeMetrics()[0].GetMetrics() {
		sent[m.GetName()] = true
	}
	for _, kv := range got.GetResource().GetAttributes() {
		of[kv.GetKey()] = kv.GetValue().GetStringValue()
	}
	return sent, of
}

// TestMetricsOverOTLP checks that an OTLP receiver gets the metrics that Prometheus gets, with a resource by
// which Prometheus distinguishes jobs: it takes service.name and service.instance.id for the labels job and
// instance.
func TestMetricsOverOTLP(t *testing.T) {
	sent, of := send(t, "4711")
	if !sent[metrics.Iterations.Name] || !sent[metrics.Diagnosis.Name] {
		t.Errorf("receiver got %v, want %s and %s", sent, metrics.Iterations.Name, metrics.Diagnosis.Name)
	}
	if of["service.name"] != "train.3" || of["service.instance.id"] != "train.3/4711" || of["training.job"] != "4711" {
		t.Errorf("the resource is %v, want the run train.3 of the job 4711", of)
	}
	if _, other := send(t, "4712"); other["service.instance.id"] == of["service.instance.id"] {
		t.Errorf("two jobs have the instance %s", of["service.instance.id"])
	}
	t.Setenv("OTEL_SERVICE_NAME", "team")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=seven,service.name=x")
	if _, of := send(t, ""); of["service.name"] != "team" || of["service.instance.id"] != "seven" {
		t.Errorf("the resource is %v, want that of the environment", of)
	}
}
