package main

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/export/metrics"
	"github.com/trainspan/trainspan/internal/export/metrics/promname"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/report"
)

// mostRanks have a label of their own: a series for each of ten thousand ranks and each
// start is more than a Prometheus server wants.
const mostRanks = 8

// metricsServer serves what the last report says.
type metricsServer struct {
	last   atomic.Pointer[report.Report]
	server *http.Server
	url    string
	done   chan struct{}
}

// serveMetrics listens on an address of this machine.
func serveMetrics(ctx context.Context, address string) (*metricsServer, error) {
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, ui.Usage("--metrics %s: give an address that only this machine reaches, such as 127.0.0.1:9465", address)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, ui.Usage("--metrics: %s", ui.Explain(err))
	}
	m := &metricsServer{url: "http://" + l.Addr().String() + "/metrics", done: make(chan struct{})}
	registry := prometheus.NewRegistry()
	registry.MustRegister(m)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second}))
	m.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
	go func() {
		defer close(m.done)
		_ = m.server.Serve(l) // ends with close
	}()
	return m, nil
}

func (m *metricsServer) set(r *report.Report) { m.last.Store(r) }

func (m *metricsServer) close() {
	_ = m.server.Close()
	<-m.done
}

var (
	descGoodput  = desc(metrics.JobGoodput)
	descTime     = desc(metrics.JobTime, "category")
	descSteps    = desc(metrics.JobSteps)
	descStep     = desc(metrics.JobStep)
	descVerdict  = desc(metrics.JobDiagnosis, "kind", "cause")
	descOutcome  = desc(metrics.JobOutcome, "how")
	descRecorded = desc(metrics.JobLastRecord)
	descRanks    = desc(metrics.RankCount, "rank", "node")
	descOwn      = desc(metrics.RankOwnWork, "rank", "node")
	descWait     = desc(metrics.RankWait, "rank", "node")
	descExcess   = desc(metrics.RankExcess, "rank", "node")
)

// desc describes a row of the table of metrics to Prometheus.
func desc(m *metrics.Metric, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(promname.Of(m), m.Text, labels, nil)
}

// Describe implements [prometheus.Collector].
func (m *metricsServer) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, ch) }

// Collect implements [prometheus.Collector].
func (m *metricsServer) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		for i := range labels {
			labels[i] = display.Text(labels[i])
		}
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	r := m.last.Load()
	if r == nil {
		return
	}
	if r.Goodput != nil {
		gauge(descGoodput, *r.Goodput)
	}
	for c, ns := range r.Ledger.Categories {
		gauge(descTime, float64(ns)/1e9, string(c))
	}
	gauge(descSteps, float64(r.Steps.Count))
	if r.Steps.Compared > 0 {
		gauge(descStep, r.Steps.Median/1e3)
	}
	gauge(descRecorded, float64(r.Ledger.To)/1e9)
	if v := r.Verdict.Rank; v != nil {
		gauge(descVerdict, 1, string(v.Kind), v.Cause)
	}
	switch {
	case r.Outcome != nil:
		gauge(descOutcome, 1, string(r.Outcome.How))
	case len(r.Attempts) > 0 && r.Attempts[len(r.Attempts)-1].Running:
		gauge(descOutcome, 1, "running")
	}
	for _, row := range rankRows(r) {
		gauge(descRanks, float64(row.ranks), row.rank, row.node)
		gauge(descOwn, row.own/1e3, row.rank, row.node)
		gauge(descWait, row.wait/1e3, row.rank, row.node)
		gauge(descExcess, row.excess/1e3, row.rank, row.node)
	}
}

// rankRow is a rank, or the sum of those of a node that have no row of their own.
type rankRow struct {
	rank, node        string
	ranks             int
	own, wait, excess float64 // ms
}

// rankRows are the ranks furthest behind, those of the verdict first, and the sums of the
// others by node.
func rankRows(r *report.Report) (out []rankRow) {
	list := slices.Clone(r.Ranks)
	named := func(k *report.Rank) bool {
		return r.Verdict.Rank != nil && slices.Contains(r.Verdict.Rank.Ranks, k.Rank)
	}
	slices.SortStableFunc(list, func(a, b report.Rank) int {
		if named(&a) != named(&b) {
			if named(&a) {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Excess, a.Excess), cmp.Compare(a.Rank, b.Rank))
	})
	at := make(map[string]int)
	for i := range list {
		k := &list[i]
		one := rankRow{rank: strconv.Itoa(k.Rank), node: k.Host, ranks: 1, own: k.Own, wait: k.Wait, excess: k.Excess}
		if i < mostRanks {
			out = append(out, one)
			continue
		}
		j, ok := at[k.Host]
		if !ok {
			j = len(out)
			at[k.Host] = j
			out = append(out, rankRow{node: k.Host})
		}
		sum := &out[j]
		sum.ranks, sum.own, sum.wait, sum.excess = sum.ranks+1, sum.own+one.own, sum.wait+one.wait, sum.excess+one.excess
	}
	return out
}
