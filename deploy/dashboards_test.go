package deploy_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// panel is a graph: its queries by legend, all with the same unit.
type panel struct {
	title, unit, note string
	queries           []query
}

type query struct{ expr, legend string }

// one returns a panel with one query.
func one(title, unit, expr, legend string) panel {
	return panel{title: title, unit: unit, queries: []query{{expr, legend}}}
}

const lost = `sum by (error_type) (rate(<< m "otel.sdk.processor.span.processed" >>{job=~"$job",error_type!=""}[$__rate_interval])
  or rate(<< m "otel.sdk.exporter.span.exported" >>{job=~"$job",error_type!=""}[$__rate_interval]))`

// files is the note of a panel whose data only a job's files have.
const files = "From the files of the job, over all its attempts: trainspan run --metrics, or trainspan alert --metrics."

// ofJob has the panels of one job, by rank where the rank matters.
var ofJob = []panel{
	{title: "What slows the job down", unit: "none", note: files, queries: []query{
		{`<< m "training.diagnosis" >>{job=~"$job",kind!~"fine|unknown"}`, "{{kind}}, {{cause}}"},
		{`0 * sum by (kind) (<< m "training.diagnosis" >>{job=~"$job",kind=~"fine|unknown"})`, "{{kind}}"},
	}},
	{title: "Productive time, by part", unit: "s", note: files, queries: []query{{`sum by (part) (<< m "training.time.productive" >>{job=~"$job"})`, "{{part}}"}}},
	{title: "Time that other ranks waited for a rank", unit: "s", note: files, queries: []query{{`<< m "training.waited_for" >>{job=~"$job"}`, "rank {{training_rank}}"}}},
	one("Time in iterations", "percentunit", `sum(rate(<< m "training.productive.time" >>{job=~"$job"}[$__rate_interval])) / sum(rate(<< m "training.loop.time" >>{job=~"$job"}[$__rate_interval]))`, "share of the time since the loop began"),
	{
		title: "Where the time went", unit: "s", note: files,
		queries: []query{{`sum by (category) (<< m "training.time" >>{job=~"$job"})`, "{{category}}"}},
	},
	{title: "Productive share of all time", unit: "percentunit", note: files, queries: []query{
		{`avg(<< m "training.goodput.ratio" >>{job=~"$job"})`, "since the first attempt began"},
		{`avg by (window_s) (<< m "training.goodput.window.ratio" >>{job=~"$job"})`, "last {{window_s}} s"},
	}},
	{title: "Work per step in excess of the other ranks", unit: "s", note: files, queries: []query{
		{`<< m "training.rank.excess" >>{job=~"$job"} / << m "training.ranks" >>{job=~"$job"}`, "rank {{training_rank}} on {{host_name}}"},
	}},
	{title: "Wait per step", unit: "s", note: files, queries: []query{
		{`<< m "training.rank.wait" >>{job=~"$job"} / << m "training.ranks" >>{job=~"$job"}`, "rank {{training_rank}} on {{host_name}}"},
	}},
	one("Iterations per second, by process", "ops", `rate(<< m "training.iterations" >>{job=~"$job"}[$__rate_interval])`, "{{instance}} {{training_rank}}"),
	one("Duration of an iteration, by process", "s", `rate(<< m "training.iteration.duration" >>_sum{job=~"$job"}[$__rate_interval]) / rate(<< m "training.iteration.duration" >>_count{job=~"$job"}[$__rate_interval])`, "{{instance}}"),
	{title: "Duration of an iteration, all processes", unit: "s", queries: []query{
		{`histogram_quantile(0.5, sum by (le) (rate(<< m "training.iteration.duration" >>_bucket{job=~"$job"}[$__rate_interval])))`, "median"},
		{`histogram_quantile(0.99, sum by (le) (rate(<< m "training.iteration.duration" >>_bucket{job=~"$job"}[$__rate_interval])))`, "99 %"},
	}},
	one("Loss", "none", `max(<< m "training.loss" >>{job=~"$job"})`, "latest"),
	one("Tokens per second", "none", `sum(rate(<< m "training.tokens" >>{job=~"$job"}[$__rate_interval]))`, "all ranks"),
	one("Operations per second per GPU", "none", `avg(<< m "training.gpu.throughput" >>{job=~"$job"})`, "mean over ranks"),
	{title: "Checkpoints", unit: "s", note: "Duration of a save: blocking (training waits) and background.", queries: []query{
		{`sum by (phase) (rate(<< m "training.checkpoint.duration" >>_sum{job=~"$job"}[$__rate_interval])) / sum by (phase) (rate(<< m "training.checkpoint.duration" >>_count{job=~"$job"}[$__rate_interval]))`, "{{phase}}"},
	}},
	one("Checkpoint saves", "none", `sum by (outcome) (<< m "training.checkpoint.saves" >>{job=~"$job"})`, "{{outcome}}"),
	one("Start-up, by process", "s", `<< m "training.startup.time" >>{job=~"$job"}`, "{{instance}}"),
	{title: "Telemetry: losses per second", unit: "none", queries: []query{
		{lost, "spans, {{error_type}}"},
		{`sum by (output) (rate(<< m "trainspan.file.lost" >>{job=~"$job"}[$__rate_interval]))`, "lines, {{output}}"},
	}},
	one("Telemetry: queued spans", "none", `sum(<< m "otel.sdk.processor.span.queue.size" >>{job=~"$job"})`, "all processes"),
	one("Telemetry: time blocked by the disk", "percentunit", `sum by (output) (rate(<< m "trainspan.file.blocked.time" >>{job=~"$job"}[$__rate_interval]))`, "{{output}}"),
	{title: "Ranks", unit: "none", note: "The rank, host and process of each series.", queries: []query{
		{`<< m "training.iterations" >>{job=~"$job",host_name!=""} or << m "training.iterations" >>{job=~"$job",host_name=""} * on (job, instance) group_left (training_rank, host_name) target_info`, "rank {{training_rank}} on {{host_name}}: {{instance}}"},
	}},
}

// ofFleet has the panels for all jobs.
var ofFleet = []panel{
	one("Training jobs", "none", `count(max by (job) (<< m "training.loops.open" >>) == 1)`, "jobs"),
	one("Processes, by job", "none", `sum by (job) (<< m "training.ranks" >>) or count by (job) (<< m "otel.sdk.span.live" >>)`, "{{job}}"),
	one("Time in iterations, by job", "percentunit", `sum by (job) (rate(<< m "training.productive.time" >>[$__rate_interval])) / sum by (job) (rate(<< m "training.loop.time" >>[$__rate_interval]))`, "{{job}}"),
	{title: "Productive share of all time, by job", unit: "percentunit", note: files, queries: []query{{`avg by (job) (<< m "training.goodput.ratio" >>)`, "{{job}}"}}},
	{title: "What slows jobs down", unit: "none", note: files, queries: []query{{`<< m "training.diagnosis" >>{kind!~"fine|unknown"}`, "{{job}}: {{kind}}, {{cause}}"}}},
	one("Slowest process over the median, by job", "none", `max by (job) (rate(<< m "training.iteration.duration" >>_sum[$__rate_interval]) / rate(<< m "training.iteration.duration" >>_count[$__rate_interval]))
  / quantile by (job) (0.5, rate(<< m "training.iteration.duration" >>_sum[$__rate_interval]) / rate(<< m "training.iteration.duration" >>_count[$__rate_interval]))`, "{{job}}"),
	one("Tokens per second, by job", "none", `sum by (job) (rate(<< m "training.tokens" >>[$__rate_interval]))`, "{{job}}"),
	one("Failed iterations, by job", "none", `sum by (job) (<< m "training.iterations.failed" >>)`, "{{job}}"),
	one("Saved checkpoints, by job", "none", `sum by (job) (<< m "training.checkpoint.saves" >>{outcome="success"})`, "{{job}}"),
	one("Lost spans per second, by job", "none", strings.NewReplacer(`job=~"$job",`, "", "by (error_type)", "by (job)").Replace(lost), "{{job}}"),
}

type object = map[string]any

// dashboard returns the JSON text of a dashboard. Grafana 9 and later read it.
func dashboard(uid, title string, withJob bool, panels []panel) string {
	source := object{"type": "prometheus", "uid": "${source}"}
	variables := []object{{"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}}
	if withJob {
		variables = append(variables, object{
			"name": "job", "label": "Job", "type": "query", "datasource": source, "refresh": 2, "sort": 1,
			"query": fill(`label_values(<< m "training.iterations" >>, job)`), "includeAll": false, "multi": false,
		})
	}
	var drawn []object
	for i, p := range panels {
		var targets []object
		for n, q := range p.queries {
			targets = append(targets, object{"refId": string(rune('A' + n)), "datasource": source, "expr": fill(q.expr), "legendFormat": q.legend, "range": true})
		}
		drawn = append(drawn, object{
			"id": i + 1, "type": "timeseries", "title": p.title, "description": p.note, "datasource": source, "targets": targets,
			"gridPos":     object{"x": i % 3 * 8, "y": i / 3 * 8, "w": 8, "h": 8},
			"fieldConfig": object{"defaults": object{"unit": p.unit}, "overrides": []object{}},
			"options":     object{"legend": object{"displayMode": "list", "placement": "bottom"}},
		})
	}
	text, err := json.MarshalIndent(object{
		"uid": uid, "title": title, "tags": []string{"trainspan"}, "schemaVersion": 37, "version": 1, "editable": true, "refresh": "30s",
		"time": object{"from": "now-3h", "to": "now"}, "templating": object{"list": variables}, "panels": drawn,
	}, "", "  ")
	if err != nil {
		panic(err)
	}
	return string(text) + "\n"
}

func TestDashboards(t *testing.T) {
	written(t, "grafana/job.json", dashboard("trainspan-job", "Training job", true, ofJob))
	written(t, "grafana/fleet.json", dashboard("trainspan-fleet", "Training jobs", false, ofFleet))
}
