// Package jobmetrics derives metrics from the files of a running job, with the
// names that a program uses for its own: see docs/reference/signals.md.
package jobmetrics

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/exporters/otlp"
	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/export/metrics"
	"github.com/trainspan/trainspan/internal/export/prom"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/record/settings"
	"github.com/trainspan/trainspan/internal/report"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
)

// mostRanks is how many ranks have their own series: a series for each of ten
// thousand ranks and each start is too much for a Prometheus server.
const mostRanks = 8

// windows are the intervals of training.goodput.window.ratio.
var windows = []time.Duration{5 * time.Minute, time.Hour}

// Server serves the metrics of one job to Prometheus, or sends them to an OTLP receiver. It is
// safe for concurrent use.
type Server struct {
	http     *prom.Server // nil if they are sent
	url      string
	provider interface { // packages that see its type compile all of the SDK's generic code again
		Shutdown(ctx context.Context) error
	}
	last     atomic.Pointer[metricdata.ScopeMetrics]
	resource atomic.Pointer[resource.Resource]

	mu    sync.Mutex
	saved map[string]float64 // by job: the most saves that were served
}

// named are the places where the address is configured.
const named = "--metrics or TRAINSPAN_METRICS"

// Check returns an error for an address that may not be used: only this machine may reach it,
// unless it is the URL of an OTLP receiver.
func Check(address string) error {
	if isReceiver(address) {
		if u, err := url.Parse(address); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return ui.Usage("%s: %q is not the URL of an OTLP receiver; use one such as http://localhost:4318", named, address)
		}
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return ui.Usage("%s: %q is not a loopback address; use one such as 127.0.0.1:9477, or the URL of an OTLP receiver", named, address)
	}
	return nil
}

// isReceiver reports whether address is the URL of a receiver.
func isReceiver(address string) bool { return strings.Contains(address, "://") }

// Serve listens on an address, or sends metrics to it every ten seconds, see [Check]. Until
// [Server.Set] there are no metrics. Requests to a receiver are made as the standard OTEL_
// variables say. Failures are logged once, with slog.Default if log is nil.
func Serve(ctx context.Context, address string, log *slog.Logger) (*Server, error) {
	s := &Server{url: address}
	if isReceiver(address) {
		return s, s.send(ctx, log)
	}
	var reader sdkmetric.Reader
	var err error
	if s.http, reader, err = prom.Listen(ctx, address, prometheus.WithProducer(s), prometheus.WithoutTargetInfo()); err != nil {
		return nil, ui.Usage("%s: %s", named, ui.Explain(err))
	}
	s.provider, s.url = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), s.http.URL()
	return s, nil
}

// sendEvery is the time between two exports.
const sendEvery = 10 * time.Second

// send begins to send metrics to the receiver.
func (s *Server) send(ctx context.Context, log *slog.Logger) error {
	cfg, _, err := otlp.FromEnv(nil)
	if err != nil {
		return ui.Usage("%v", err)
	}
	cfg.Endpoint, cfg.TracesEndpoint, cfg.LogsEndpoint, cfg.MetricsEndpoint = s.url, "", "", ""
	next, err := otlp.NewMetricExporter(ctx, cfg, log)
	if err != nil {
		return ui.Usage("%v", err)
	}
	reader := sdkmetric.NewPeriodicReader(&sender{next, s}, sdkmetric.WithInterval(sendEvery), sdkmetric.WithProducer(s))
	s.provider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	return nil
}

// sender sends the metrics of a job with the job as their resource.
type sender struct {
	sdkmetric.Exporter
	of *Server
}

func (s *sender) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	if len(m.ScopeMetrics) == 0 {
		return nil
	}
	out := *m
	out.Resource = s.of.resource.Load()
	return s.Exporter.Export(ctx, &out)
}

// URL returns the address of the metrics, or of the receiver that gets them.
func (s *Server) URL() string { return s.url }

// Sends reports whether the metrics are sent to a receiver.
func (s *Server) Sends() bool { return s.http == nil }

// Close ends the server and waits for requests until ctx is done. Metrics that are sent are sent once more.
func (s *Server) Close(ctx context.Context) error {
	if s.http == nil {
		return s.provider.Shutdown(ctx)
	}
	return s.http.Close(ctx)
}

// Produce implements [sdkmetric.Producer].
func (s *Server) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	if m := s.last.Load(); m != nil {
		return []metricdata.ScopeMetrics{*m}, nil
	}
	return nil, nil
}

// Set replaces the served metrics by those of a job's report.
func (s *Server) Set(j *report.Job, r *report.Report) {
	f := family{from: time.Unix(0, r.Ledger.From), at: time.Unix(0, r.Ledger.To)}
	f.times(j.Ledger, r)
	f.steps(j.Ledger, r)
	f.checkpoints(r, s.atLeast(j.Job))
	f.answers(r)
	f.ranks(r)
	s.resource.Store(resourceOf(j.Job))
	s.last.Store(&metricdata.ScopeMetrics{
		Scope: instrumentation.Scope{Name: "github.com/trainspan/trainspan/cmd/trainspan", Version: identity.Version}, Metrics: f.out,
	})
}

// atLeast returns a function that keeps the number of a job's saves from falling when a
// later record shows that one failed: Prometheus takes a counter that falls for one that
// was reset, and adds all of it again.
func (s *Server) atLeast(j *job.Job) func(float64) float64 {
	name := j.Label + "/" + j.ID
	return func(n float64) float64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.saved == nil {
			s.saved = make(map[string]float64)
		}
		s.saved[name] = max(s.saved[name], n)
		return s.saved[name]
	}
}

// resourceOf describes the job. A receiver may get the metrics of several, and Prometheus
// distinguishes them by service.name and service.instance.id alone: they are the name of the run,
// and that with the launcher's id, because two users may have a run of the same name. Those of the
// environment take precedence.
func resourceOf(j *job.Job) *resource.Resource {
	instance := j.Label
	if j.ID != "" {
		instance += "/" + j.ID
	}
	of := []attribute.KeyValue{
		attribute.String(identity.Service.Attribute(), cmp.Or(j.Label, "trainspan")), attribute.String(identity.Instance.Attribute(), instance),
	}
	if j.ID != "" {
		of = append(of, attribute.String(identity.Job.Attribute(), j.ID))
	}
	if j.SessionTag != "" {
		of = append(of, attribute.String(identity.Session.Attribute(), j.SessionTag))
	}
	own := resource.NewSchemaless(of...)
	given, _ := settings.Environment() // the configuration warns of what is ignored
	if all, err := resource.Merge(own, given); err == nil {
		return all
	}
	return own
}

// family is the metrics of one reading.
type family struct {
	from, at time.Time
	out      []metricdata.Metrics
}

// point is a value with its attributes.
type point struct {
	value float64
	of    []attribute.KeyValue
}

// one returns a metric without attributes.
func one(v float64) []point { return []point{{value: v}} }

func (f *family) add(m *metrics.Metric, points []point) {
	if len(points) == 0 {
		return
	}
	out := make([]metricdata.DataPoint[float64], len(points))
	for i, p := range points {
		out[i] = metricdata.DataPoint[float64]{Attributes: attribute.NewSet(p.of...), StartTime: f.from, Time: f.at, Value: p.value}
	}
	var data metricdata.Aggregation = metricdata.Gauge[float64]{DataPoints: out}
	if m.Kind != metrics.Gauge {
		data = metricdata.Sum[float64]{DataPoints: out, Temporality: metricdata.CumulativeTemporality, IsMonotonic: m.Kind == metrics.Counter}
	}
	f.out = append(f.out, metricdata.Metrics{Name: m.Name, Description: m.Text, Unit: m.Unit, Data: data})
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// times adds the times by category.
func (f *family) times(l *account.Ledger, r *report.Report) {
	var byCategory, byPart, waited, byWindow []point
	for c, ns := range r.Ledger.Categories {
		byCategory = append(byCategory, point{seconds(ns), []attribute.KeyValue{attribute.String("category", string(c))}})
	}
	f.add(metrics.Time, byCategory)
	for p, ns := range r.Ledger.ProductiveParts {
		byPart = append(byPart, point{seconds(ns), []attribute.KeyValue{attribute.String("part", string(p))}})
	}
	f.add(metrics.TimeProductive, byPart)
	for _, w := range r.Ledger.WaitedFor[:min(len(r.Ledger.WaitedFor), mostRanks)] {
		waited = append(waited, point{seconds(w.Time), []attribute.KeyValue{attribute.String(metrics.RankAttribute, strconv.Itoa(w.Rank))}})
	}
	f.add(metrics.WaitedFor, waited)
	if it := &r.Ledger.Iterations; it.HasSaves {
		f.add(metrics.TimeCommitted, one(seconds(r.Ledger.Categories[account.Productive]-it.AtRiskTime)))
	}
	f.add(metrics.LastRecord, one(seconds(r.Ledger.To)))
	if r.Goodput == nil {
		return // the time of a window is unknown too
	}
	f.add(metrics.GoodputRatio, one(*r.Goodput))
	for _, w := range windows {
		to := r.Ledger.To
		of := l.Report(account.Query{From: to - int64(w), To: to, AsOf: to})
		if of.Wall > 0 {
			byWindow = append(byWindow, point{of.Ratio(), []attribute.KeyValue{attribute.Int("window_s", int(w.Seconds()))}})
		}
	}
	f.add(metrics.GoodputWindowRatio, byWindow)
}

// histogram counts values in seconds.
type histogram struct {
	counts   []uint64
	sum      float64
	count    uint64
	min, max float64
}

func (h *histogram) add(v float64, n int) {
	if h.counts == nil {
		h.counts = make([]uint64, len(metrics.Bounds)+1)
		h.min, h.max = v, v
	}
	at, _ := slices.BinarySearch(metrics.Bounds, v)
	h.counts[at] += uint64(n)
	h.count, h.sum = h.count+uint64(n), h.sum+v*float64(n)
	h.min, h.max = min(h.min, v), max(h.max, v)
}

func (f *family) histograms(m *metrics.Metric, attr string, of map[string]*histogram) {
	var points []metricdata.HistogramDataPoint[float64]
	for value, h := range of {
		var set attribute.Set
		if attr != "" {
			set = attribute.NewSet(attribute.String(attr, value))
		}
		if h.count > 0 {
			points = append(points, metricdata.HistogramDataPoint[float64]{
				Attributes: set, StartTime: f.from, Time: f.at, Count: h.count, Sum: h.sum, Bounds: metrics.Bounds, BucketCounts: h.counts,
				Min: metricdata.NewExtrema(h.min), Max: metricdata.NewExtrema(h.max),
			})
		}
	}
	if len(points) > 0 {
		f.out = append(f.out, metricdata.Metrics{Name: m.Name, Description: m.Text, Unit: m.Unit,
			Data: metricdata.Histogram[float64]{DataPoints: points, Temporality: metricdata.CumulativeTemporality}})
	}
}

// steps adds the metrics of iterations. Times are means over the ranks, because
// a program counts its own.
func (f *family) steps(l *account.Ledger, r *report.Report) {
	var lengths histogram
	done := make(map[int]int)
	first, firstEnd, took := r.Ledger.To, r.Ledger.To, int64(0)
	l.EachFinished(func(rank int, start, length int64, count int) {
		lengths.add(seconds(length), count)
		done[rank] += count
		first, firstEnd = min(first, start), min(firstEnd, start+length)
		took += length * int64(count)
	})
	n := float64(max(len(r.Ranks), 1))
	f.histograms(metrics.IterationDuration, "", map[string]*histogram{"": &lengths})
	f.add(metrics.ProductiveTime, one(seconds(took)/n))
	f.add(metrics.LoopTime, one(seconds(r.Ledger.To-first)))
	f.add(metrics.StartupTime, one(seconds(firstEnd-r.Ledger.From)))
	open := 0.0
	if k := len(r.Attempts); k > 0 && r.Attempts[k-1].Running { // also before its first step, where a job may hang too
		open = 1
	}
	f.add(metrics.LoopsOpen, one(open))
	var points []point
	for _, s := range countedBy(r) {
		sum := 0
		for _, k := range s.rows {
			sum += done[k.Rank]
		}
		points = append(points, point{float64(sum), s.of})
	}
	f.add(metrics.Iterations, points)
}

// checkpoints adds the saves.
func (f *family) checkpoints(r *report.Report, atLeast func(float64) float64) {
	saves, failures := float64(r.MoreSaves), 0.0
	of := map[string]*histogram{"blocking": {}, "background": {}}
	for i := range r.Checkpoints {
		c := &r.Checkpoints[i]
		switch {
		case c.Load:
			continue
		case c.Failed:
			failures++
			continue
		}
		saves++
		if c.Blocking > 0 {
			of["blocking"].add(seconds(c.Blocking), 1)
		}
		if c.Background > 0 {
			of["background"].add(seconds(c.Background), 1)
		}
	}
	f.add(metrics.CheckpointSaves, []point{
		{atLeast(saves), []attribute.KeyValue{attribute.String("outcome", "success")}}, {failures, []attribute.KeyValue{attribute.String("outcome", "failure")}},
	})
	f.histograms(metrics.CheckpointDuration, "phase", of)
}

// answers adds the diagnosis, the outcome and what the files lack.
func (f *family) answers(r *report.Report) {
	if v := r.Verdict.Rank; v != nil {
		f.add(metrics.Diagnosis, []point{{1, []attribute.KeyValue{attribute.String("kind", string(v.Kind)), attribute.String("cause", v.Cause)}}})
	}
	how := ""
	switch {
	case r.Outcome != nil:
		how = string(r.Outcome.How)
	case len(r.Attempts) > 0 && r.Attempts[len(r.Attempts)-1].Running:
		how = "running"
	}
	if how != "" {
		f.add(metrics.Outcome, []point{{1, []attribute.KeyValue{attribute.String("how", how)}}})
	}
	f.add(metrics.FileLost, []point{{float64(r.Quality.Dropped), []attribute.KeyValue{attribute.String("output", "trace")}}})
}

// ranks adds the metrics of each rank.
func (f *family) ranks(r *report.Report) {
	var count, work, wait, excess []point
	for _, s := range byRank(r) {
		var sum report.Rank
		for _, k := range s.rows {
			sum.Own, sum.Wait, sum.Excess = sum.Own+k.Own, sum.Wait+k.Wait, sum.Excess+k.Excess
		}
		count = append(count, point{float64(len(s.rows)), s.of})
		work, wait, excess = append(work, point{sum.Own / 1e3, s.of}), append(wait, point{sum.Wait / 1e3, s.of}), append(excess, point{sum.Excess / 1e3, s.of})
	}
	f.add(metrics.Ranks, count)
	f.add(metrics.RankWork, work)
	f.add(metrics.RankWait, wait)
	f.add(metrics.RankExcess, excess)
}

// series is a rank, or the ranks of a host without their own series.
type series struct {
	rows []*report.Rank
	of   []attribute.KeyValue
}

// countedBy returns the series of a counter. A rank must not move between two
// series: either each has its own, or all are counted by host.
func countedBy(r *report.Report) []*series {
	if len(r.Ranks) <= mostRanks {
		return byRank(r)
	}
	return split(r, 0)
}

// byRank returns the slowest ranks, those of the diagnosis first, and the
// others by host.
func byRank(r *report.Report) []*series { return split(r, mostRanks) }

// split returns a series for each of the first ranks, and one for each host of
// the others.
func split(r *report.Report, own int) (out []*series) {
	list := make([]*report.Rank, len(r.Ranks))
	for i := range r.Ranks {
		list[i] = &r.Ranks[i]
	}
	named := func(k *report.Rank) int {
		if v := r.Verdict.Rank; v != nil && slices.Contains(v.Ranks, k.Rank) {
			return 0
		}
		return 1
	}
	slices.SortFunc(list, func(a, b *report.Rank) int {
		return cmp.Or(cmp.Compare(named(a), named(b)), cmp.Compare(b.Excess, a.Excess), cmp.Compare(a.Rank, b.Rank))
	})
	hosts := make(map[string]*series)
	for i, k := range list {
		of := []attribute.KeyValue{attribute.String(metrics.HostAttribute, k.Host)}
		s := hosts[k.Host]
		if i < own {
			s = nil
			of = append(of, attribute.String(metrics.RankAttribute, strconv.Itoa(k.Rank)))
		}
		if s == nil {
			s = &series{of: of}
			out = append(out, s)
			if i >= own {
				hosts[k.Host] = s
			}
		}
		s.rows = append(s.rows, k)
	}
	return out
}
