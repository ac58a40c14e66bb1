package deploy_test

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
	"text/template"

	"github.com/trainspan/trainspan/internal/export/metrics"
	"github.com/trainspan/trainspan/internal/export/metrics/promname"
)

var update = flag.Bool("update", false, "write the alerts and the dashboards")

// prom returns the name in Prometheus of a metric. It fails the test if the
// table has no such metric.
func prom(name string) string {
	for _, g := range metrics.Groups {
		for _, m := range g.Metrics {
			if m.Name == name {
				return promname.Of(m)
			}
		}
	}
	panic("no metric is called " + name)
}

// fill replaces the names of metrics in a text.
func fill(text string) string {
	var out bytes.Buffer
	t := template.Must(template.New("").Delims("<<", ">>").Funcs(template.FuncMap{"m": prom}).Parse(text))
	if err := t.Execute(&out, nil); err != nil {
		panic(err)
	}
	return out.String()
}

// written compares a file with the generated text, or writes it with -update.
func written(t *testing.T, path, want string) {
	t.Helper()
	if there, err := os.ReadFile(path); err == nil && string(there) == want {
		return
	}
	if !*update {
		t.Errorf("%s differs from the table of metrics: run go test ./deploy -update", path)
		return
	}
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil { //nolint:gosec // for everybody
		t.Fatal(err)
	}
}

// training is an additional condition of the alerts of a rank: the rank trains
// now. A closed loop reports 0; a series that has ended does not match.
const training = `and on (job, instance) << m "training.loops.open" >> == 1`

var rules = `# Alerts on training jobs and on the agents of nodes. Made from the table of metrics by
# go test ./deploy -update. Here "job" is a training job and "instance" a process of it;
# the thresholds are a start: set them for your jobs.
groups:
  - name: trainspan
    rules:
      - alert: TrainingGoodputLow
        expr: |
          sum by (job) (increase(<< m "training.productive.time" >>[1h]) ` + training + `)
            / sum by (job) (increase(<< m "training.loop.time" >>[1h]) ` + training + `) < 0.8
            and on (job) max by (job) (<< m "training.loop.time" >>) > 3600
        for: 15m
        labels: {severity: warning}
        annotations:
          summary: "{{ $labels.job }} spent {{ $value | humanizePercentage }} of the last hour in iterations"
          next: trainspan report on the directory of the run says what took the rest
      - alert: TrainingRankLate
        # Where ranks wait for each other within an iteration all are equally late, and the
        # report tells who is waited for.
        expr: |
          (rate(<< m "training.iteration.duration" >>_sum[15m]) / rate(<< m "training.iteration.duration" >>_count[15m]) ` + training + `)
            > on (job) group_left ()
          1.2 * quantile by (job) (0.5, rate(<< m "training.iteration.duration" >>_sum[15m]) / rate(<< m "training.iteration.duration" >>_count[15m]) ` + training + `)
        for: 15m
        labels: {severity: warning}
        annotations:
          summary: "iterations of {{ $labels.instance }} take {{ $value | humanizeDuration }}, more than 1.2 times as long as on the other ranks of {{ $labels.job }}"
          next: trainspan report names the rank and the cause
      - alert: TrainingSlowedDown
        # From the files of the job: trainspan run --metrics.
        expr: << m "training.diagnosis" >>{kind!~"fine|unknown|hang"} == 1 ` + training + `
        for: 15m
        labels: {severity: warning}
        annotations:
          summary: "{{ $labels.job }} is slowed down: {{ $labels.kind }}, {{ $labels.cause }}"
          next: trainspan report names the ranks and what the run would gain
      - alert: TrainingHung
        expr: << m "training.diagnosis" >>{kind="hang"} == 1 ` + training + `
        for: 1m
        labels: {severity: critical}
        annotations:
          summary: "ranks of {{ $labels.job }} wait for a rank that does not arrive"
          next: trainspan report names the rank and where it is
      - alert: TrainingNoStep
        # The metrics of a job that was queued again have the totals of all attempts from
        # the first moment on, so it must have trained at the beginning of the time, too.
        expr: |
          << m "training.loop.time" >> > 900 ` + training + ` and on (job, instance) << m "training.loops.open" >> offset 15m == 1
            unless on (job, instance) increase(<< m "training.iterations" >>[15m]) > 0
        labels: {severity: critical}
        annotations:
          summary: "{{ $labels.instance }} of {{ $labels.job }} is training, but has completed no iteration for 15 minutes"
          next: trainspan top shows what is open on each rank
      - alert: TrainingCheckpointOverdue
        # Attempts of a job may have other addresses, so other instances.
        expr: |
          max by (job) (<< m "training.loop.time" >> ` + training + `) > 7200
            and on (job) max by (job) (<< m "training.loops.open" >> offset 2h) == 1
            unless on (job) sum by (job) (increase(<< m "training.checkpoint.saves" >>{outcome="success"}[2h])) > 0
        labels: {severity: critical}
        annotations:
          summary: "{{ $labels.job }} has saved no checkpoint for two hours: a failure would lose the work since then"
      - alert: TrainingStartupLong
        # A job that failed before its first step may still be watched: trainspan alert --metrics.
        expr: |
          << m "training.startup.time" >> > 1800 unless on (job, instance) << m "training.iterations" >> > 0
            unless on (job, instance) << m "training.outcome" >>{how!="running"} == 1
        labels: {severity: warning}
        annotations:
          summary: "{{ $labels.instance }} of {{ $labels.job }} has been starting for {{ $value | humanizeDuration }}"
          next: trainspan report shows what is being started, imports, data, model
      - alert: TelemetryLost
        expr: |
          (
            sum by (job, instance) (increase(<< m "otel.sdk.processor.span.processed" >>{error_type!=""}[15m])) > 0
            or sum by (job, instance) (increase(<< m "otel.sdk.exporter.span.exported" >>{error_type!=""}[15m])) > 0
            or sum by (job, instance) (increase(<< m "otel.sdk.processor.log.processed" >>{error_type!=""}[15m])) > 0
            or sum by (job, instance) (increase(<< m "otel.sdk.exporter.log.exported" >>{error_type!=""}[15m])) > 0
            or sum by (job, instance) (increase(<< m "trainspan.file.lost" >>[15m])) > 0
          ) and on (job, instance) (<< m "otel.sdk.span.live" >> or << m "training.ranks" >>)
        labels: {severity: warning}
        annotations:
          summary: "{{ $labels.instance }} of {{ $labels.job }} lost {{ $value | humanize }} spans or records in 15 minutes; the training is not affected"
  - name: trainspan-agent
    rules:
      - alert: AgentDown
        expr: up{job="trainspan-agent"} == 0
        for: 5m
        labels: {severity: warning}
        annotations:
          summary: "the agent of {{ $labels.instance }} does not respond: ranks there queue their spans"
      - alert: AgentQueueFilling
        expr: otelcol_exporter_queue_size / otelcol_exporter_queue_capacity > 0.8
        for: 10m
        labels: {severity: warning}
        annotations:
          summary: "the queue of {{ $labels.instance }} to {{ $labels.exporter }} is {{ $value | humanizePercentage }} full"
      - alert: AgentLosesLines
        expr: sum by (job, instance) (increase(otelcol_dftracer_lost_lines[15m])) > 0 and on (job, instance) up == 1
        labels: {severity: warning}
        annotations:
          summary: "the disk under the trace files of {{ $labels.instance }} failed: {{ $value | humanize }} lines are missing"
`

func TestRules(t *testing.T) { written(t, "prometheus/rules.yaml", fill(rules)) }

// rising returns the values of a series in promtool's notation: they begin with
// value and increase by step each minute.
func rising(series, values string) string {
	return "      - series: '" + series + "'\n        values: '" + values + "'\n"
}

// alerts has series that make each alert fire at a given minute, and the labels
// of the alert. over has the values that the process reports when it has
// completed its work and stays, again those of a job that was queued again and
// has just started.
var alerts = []struct {
	name, labels string
	series       map[string]string // values by series
	at           int
	over         map[string]string // series of a completed job
	again        map[string]string // series of a job that is resumed
}{
	{
		name: "TrainingGoodputLow", labels: `{job="llm", severity="warning"}`, at: 90,
		series: map[string]string{
			`<< m "training.loops.open" >>{job="llm",instance="a"}`:             "1+0x200",
			`<< m "training.loop.time" >>{job="llm",instance="a"}`:              "0+60x200",
			`<< m "training.productive.time" >>{job="llm",instance="a"}`:        "0+30x200",
			`<< m "training.loops.open" >>{job="young",instance="y"}`:           "_x70 1+0x130", // its first hour has not ended
			`<< m "training.loop.time" >>{job="young",instance="y"}`:            "_x70 0+60x130",
			`<< m "training.productive.time" >>{job="young",instance="y"}`:      "_x70 0+10x130",
			`<< m "training.loops.open" >>{job="good",instance="b"}`:            "1+0x200",
			`<< m "training.loop.time" >>{job="good",instance="b"}`:             "0+60x200",
			`<< m "training.productive.time" >>{job="good",instance="b"}`:       "0+57x200",
			`<< m "training.loops.open" >>{job="llm",instance="finished"}`:      "0+0x200",
			`<< m "training.loop.time" >>{job="llm",instance="finished"}`:       "9000+60x200",
			`<< m "training.productive.time" >>{job="llm",instance="finished"}`: "900+0x200",
		},
		over: map[string]string{`<< m "training.loops.open" >>{job="llm",instance="a"}`: "0+0x200"},
	},
	{
		name: "TrainingRankLate", labels: `{job="llm", instance="c", severity="warning"}`, at: 60,
		series: map[string]string{
			`<< m "training.loops.open" >>{job="llm",instance="a"}`:               "1+0x200",
			`<< m "training.loops.open" >>{job="llm",instance="b"}`:               "1+0x200",
			`<< m "training.loops.open" >>{job="llm",instance="c"}`:               "1+0x200",
			`<< m "training.iteration.duration" >>_sum{job="llm",instance="a"}`:   "0+60x200",
			`<< m "training.iteration.duration" >>_count{job="llm",instance="a"}`: "0+60x200",
			`<< m "training.iteration.duration" >>_sum{job="llm",instance="b"}`:   "0+60x200",
			`<< m "training.iteration.duration" >>_count{job="llm",instance="b"}`: "0+60x200",
			`<< m "training.iteration.duration" >>_sum{job="llm",instance="c"}`:   "0+60x200",
			`<< m "training.iteration.duration" >>_count{job="llm",instance="c"}`: "0+40x200",
		},
		over: map[string]string{
			`<< m "training.loops.open" >>{job="llm",instance="c"}`: "0+0x200", `<< m "training.loops.open" >>{job="llm",instance="a"}`: "0+0x200",
			`<< m "training.loops.open" >>{job="llm",instance="b"}`: "0+0x200",
		},
	},
	{
		name: "TrainingSlowedDown", labels: `{job="llm", instance="a", kind="slow_ranks", cause="input", severity="warning"}`, at: 40,
		series: map[string]string{
			`<< m "training.loops.open" >>{job="llm",instance="a"}`:                                "1+0x200",
			`<< m "training.diagnosis" >>{job="llm",instance="a",kind="slow_ranks",cause="input"}`: "1+0x200",
			`<< m "training.loops.open" >>{job="llm",instance="b"}`:                                "1+0x200",
			`<< m "training.diagnosis" >>{job="llm",instance="b",kind="fine",cause=""}`:            "1+0x200",
		},
		over: map[string]string{`<< m "training.loops.open" >>{job="llm",instance="a"}`: "1+0x20 0+0x180"},
	},
	{
		name: "TrainingHung", labels: `{job="llm", instance="a", kind="hang", severity="critical"}`, at: 40,
		series: map[string]string{
			`<< m "training.loops.open" >>{job="llm",instance="a"}`:            "1+0x200",
			`<< m "training.diagnosis" >>{job="llm",instance="a",kind="hang"}`: "1+0x200",
		},
		over: map[string]string{`<< m "training.loops.open" >>{job="llm",instance="a"}`: "1+0x20 0+0x180"},
	},
	{
		name: "TrainingNoStep", labels: `{job="llm", instance="a", severity="critical"}`, at: 40,
		series: map[string]string{
			`<< m "training.loops.open" >>{job="llm",instance="a"}`: "1+0x200",
			`<< m "training.loop.time" >>{job="llm",instance="a"}`:  "0+60x200",
			`<< m "training.iterations" >>{job="llm",instance="a"}`: "0+10x20 200+0x180",
			`<< m "training.loops.open" >>{job="llm",instance="b"}`: "1+0x200",
			`<< m "training.loop.time" >>{job="llm",instance="b"}`:  "0+60x200",
			`<< m "training.iterations" >>{job="llm",instance="b"}`: "0+10x200",
		},
		over: map[string]string{`<< m "training.loops.open" >>{job="llm",instance="a"}`: "1+0x20 0+0x180"},
		again: map[string]string{
			`<< m "training.loops.open" >>{job="llm",instance="a"}`: "1+0x5 stale _x30 1+0x160",
			`<< m "training.loop.time" >>{job="llm",instance="a"}`:  "25000+60x5 stale _x30 27600+60x160",
			`<< m "training.iterations" >>{job="llm",instance="a"}`: "0+10x5 stale _x30 60+0x160",
		},
	},
	{
		name: "TrainingCheckpointOverdue", labels: `{job="llm", severity="critical"}`, at: 170,
		series: map[string]string{
			`<< m "training.loops.open" >>{job="llm",instance="a"}`:                           "1+0x100",
			`<< m "training.loop.time" >>{job="llm",instance="a"}`:                            "0+60x100",
			`<< m "training.loops.open" >>{job="llm",instance="c"}`:                           "_x105 1+0x100",
			`<< m "training.loop.time" >>{job="llm",instance="c"}`:                            "_x105 6000+60x100",
			`<< m "training.checkpoint.saves" >>{job="llm",instance="a",outcome="success"}`:   "0+0x10 1+0x190",
			`<< m "training.checkpoint.saves" >>{job="llm",instance="a",outcome="failure"}`:   "0+1x200",
			`<< m "training.loops.open" >>{job="saves",instance="b"}`:                         "1+0x200",
			`<< m "training.loop.time" >>{job="saves",instance="b"}`:                          "0+60x200",
			`<< m "training.checkpoint.saves" >>{job="saves",instance="b",outcome="success"}`: "0+0x100 1+0x100",
		},
		over: map[string]string{`<< m "training.loops.open" >>{job="llm",instance="a"}`: "1+0x20 0+0x180", `<< m "training.loops.open" >>{job="llm",instance="c"}`: "0+0x200"},
		again: map[string]string{
			`<< m "training.loops.open" >>{job="llm",instance="c"}`:                         "_x200",
			`<< m "training.loop.time" >>{job="llm",instance="c"}`:                          "_x200",
			`<< m "training.loops.open" >>{job="llm",instance="a"}`:                         "1+0x30 stale _x135 1+0x30",
			`<< m "training.loop.time" >>{job="llm",instance="a"}`:                          "25000+60x30 stale _x135 35000+60x30",
			`<< m "training.checkpoint.saves" >>{job="llm",instance="a",outcome="success"}`: "3+0x10 4+0x20 stale _x135 4+0x30",
		},
	},
	{
		name: "TrainingStartupLong", labels: `{job="llm", instance="a", severity="warning"}`, at: 40,
		series: map[string]string{
			`<< m "training.startup.time" >>{job="llm",instance="a"}`:          "0+60x200",
			`<< m "training.iterations" >>{job="llm",instance="a"}`:            "0+0x200",
			`<< m "training.startup.time" >>{job="llm",instance="b"}`:          "0+60x35 2100+0x165", // it took long and has ended
			`<< m "training.iterations" >>{job="llm",instance="b"}`:            "0+0x35 1+1x165",
			`<< m "training.startup.time" >>{job="llm",instance="c"}`:          "2100+0x200", // it failed
			`<< m "training.iterations" >>{job="llm",instance="c"}`:            "0+0x200",
			`<< m "training.outcome" >>{job="llm",instance="c",how="failed"}`:  "1+0x200",
			`<< m "training.outcome" >>{job="llm",instance="a",how="running"}`: "1+0x200",
		},
		over: map[string]string{`<< m "training.iterations" >>{job="llm",instance="a"}`: "0+10x200"},
	},
	{
		name: "TelemetryLost", labels: `{job="llm", instance="a", severity="warning"}`, at: 30,
		series: map[string]string{
			`<< m "otel.sdk.span.live" >>{job="llm",instance="a"}`:                                        "4+0x200",
			`<< m "otel.sdk.exporter.span.exported" >>{job="llm",instance="a"}`:                           "0+100x200",
			`<< m "otel.sdk.exporter.span.exported" >>{job="llm",instance="a",error_type="refused"}`:      "0+0x20 5+5x180",
			`<< m "trainspan.file.lost" >>{job="llm",instance="a",output="trace"}`:                        "0+0x200",
			`<< m "otel.sdk.span.live" >>{job="llm",instance="b"}`:                                        "4+0x200",
			`<< m "otel.sdk.exporter.span.exported" >>{job="llm",instance="b",error_type="refused"}`:      "7+0x200",
			`<< m "otel.sdk.processor.span.processed" >>{job="llm",instance="b",error_type="queue_full"}`: "0+0x200",
		},
		over: map[string]string{`<< m "otel.sdk.exporter.span.exported" >>{job="llm",instance="a",error_type="refused"}`: "5+0x200"},
	},
	{
		name: "AgentDown", labels: `{job="trainspan-agent", instance="n1", severity="warning"}`, at: 30,
		series: map[string]string{`up{job="trainspan-agent",instance="n1"}`: "0+0x200", `up{job="llm",instance="a"}`: "0+0x200"},
		over:   map[string]string{`up{job="trainspan-agent",instance="n1"}`: "1+0x200"},
	},
	{
		name: "AgentQueueFilling", labels: `{job="trainspan-agent", instance="n1", exporter="otlp_grpc/gateway", severity="warning"}`, at: 30,
		series: map[string]string{
			`otelcol_exporter_queue_size{job="trainspan-agent",instance="n1",exporter="otlp_grpc/gateway"}`:     "900+0x200",
			`otelcol_exporter_queue_capacity{job="trainspan-agent",instance="n1",exporter="otlp_grpc/gateway"}`: "1000+0x200",
		},
		over: map[string]string{`otelcol_exporter_queue_size{job="trainspan-agent",instance="n1",exporter="otlp_grpc/gateway"}`: "3+0x200"},
	},
	{
		name: "AgentLosesLines", labels: `{job="trainspan-agent", instance="n1", severity="warning"}`, at: 30,
		series: map[string]string{
			`up{job="trainspan-agent",instance="n1"}`:                          "1+0x200",
			`otelcol_dftracer_lost_lines{job="trainspan-agent",instance="n1"}`: "0+0x20 7+1x180",
		},
		over: map[string]string{`otelcol_dftracer_lost_lines{job="trainspan-agent",instance="n1"}`: "7+0x200"},
	},
}

// promtoolTest returns promtool's test file: each alert fires, and does not
// fire for a job that has completed, nor for series that end five minutes
// before, nor for a job that is resumed.
func promtoolTest(rulesFile string) string {
	var out strings.Builder
	out.WriteString("rule_files: [" + rulesFile + "]\nevaluation_interval: 1m\ntests:\n")
	for i := range alerts {
		a := &alerts[i]
		for _, kind := range []string{"fires", "completed", "vanished", "resumed"} {
			if kind == "resumed" && a.again == nil {
				continue
			}
			out.WriteString("  - name: " + a.name + " " + kind + "\n    interval: 1m\n    input_series:\n")
			for _, series := range sortedKeys(a.series) {
				values := a.series[series]
				if other, ok := a.over[series]; ok && kind == "completed" {
					values = other
				}
				if other, ok := a.again[series]; ok && kind == "resumed" {
					values = other
				}
				if kind == "vanished" {
					values = cut(values, a.at-5)
				}
				out.WriteString(rising(fill(series), values))
			}
			out.WriteString("    alert_rule_test:\n      - eval_time: " + itoa(a.at) + "m\n        alertname: " + a.name + "\n        exp_alerts:")
			if kind != "fires" {
				out.WriteString(" []\n")
				continue
			}
			out.WriteString("\n          - exp_labels: " + strings.NewReplacer("=", ": ").Replace(a.labels) + "\n            exp_annotations: {}\n")
		}
	}
	return out.String()
}
