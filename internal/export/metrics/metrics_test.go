package metrics_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/export/metrics"
	"github.com/trainspan/trainspan/internal/export/metrics/promname"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/otelconv"
)

var update = flag.Bool("update", false, "write the tables of the documents")

// TestDocuments compares the tables of docs/reference/signals.md with the table in code. -update
// writes them.
func TestDocuments(t *testing.T) {
	var tables strings.Builder
	for _, g := range metrics.Groups {
		head, rule := "| name | in Prometheus | unit | kind | attributes | meaning |", "| --- | --- | --- | --- | --- | --- |"
		oneLogger := slices.ContainsFunc(g.Metrics, func(m *metrics.Metric) bool { return m.OneLogger != "" })
		elsewhere := slices.ContainsFunc(g.Metrics, func(m *metrics.Metric) bool { return m.Elsewhere != "" })
		if oneLogger {
			head, rule = head+" one-logger |", rule+" --- |"
		}
		if elsewhere {
			head, rule = head+" elsewhere |", rule+" --- |"
		}
		fmt.Fprintf(&tables, "\n### `%s`\n\n%s.\n\n%s\n%s\n", g.Namespace, g.Why, head, rule)
		for _, m := range g.Metrics {
			fmt.Fprintf(&tables, "| `%s` | `%s` | %s | %s | %s | %s |", m.Name, promname.Of(m), m.Unit, m.Kind, m.By, m.Text)
			if oneLogger {
				fmt.Fprintf(&tables, " %s |", m.OneLogger)
			}
			if elsewhere {
				fmt.Fprintf(&tables, " %s |", m.Elsewhere)
			}
			tables.WriteByte('\n')
		}
	}
	const path = "../../../docs/reference/signals.md"
	want := strings.TrimPrefix(tables.String(), "\n")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	between := regexp.MustCompile(`(?s)(<!-- metrics: [^\n]*\n)(.*?)(<!-- end of metrics -->)`)
	m := between.FindSubmatch(text)
	if m == nil {
		t.Fatalf("%s has no markers for the table", path)
	}
	if string(m[2]) == want {
		return
	}
	if !*update {
		t.Errorf("%s differs from the table: run go test ./internal/export/metrics -update", path)
		return
	}
	text = between.ReplaceAllLiteral(text, []byte(string(m[1])+want+string(m[3])))
	if err := os.WriteFile(path, text, 0o644); err != nil { //nolint:gosec // a document
		t.Fatal(err)
	}
}

// all returns the rows of all groups.
func all() (rows []*metrics.Metric) {
	for _, g := range metrics.Groups {
		rows = append(rows, g.Metrics...)
	}
	return rows
}

// TestTable checks that each row is complete, and has a base unit and a
// namespace that is ours or a standard's.
func TestTable(t *testing.T) {
	units := regexp.MustCompile(`^(s|By|1|\{[a-zA-Z_]+\}(/s)?)$`)
	names, shown := map[string]bool{}, map[string]bool{}
	for _, m := range all() {
		prom := promname.Of(m)
		if names[m.Name] || shown[prom] {
			t.Errorf("%s is there twice, want once", m.Name)
		}
		names[m.Name], shown[prom] = true, true
		if !units.MatchString(m.Unit) || m.Text == "" || m.Kind == "" {
			t.Errorf("metric %+v, want a known unit, a text and a kind", m)
		}
		if !strings.HasPrefix(m.Name, "training.") && !strings.HasPrefix(m.Name, "trainspan.") && !strings.HasPrefix(m.Name, "otel.sdk.") {
			t.Errorf("%s has an unknown namespace, want training., trainspan. or otel.sdk.", m.Name)
		}
	}
}

// TestStandard compares the standard rows with the conventions of the pinned version.
func TestStandard(t *testing.T) {
	if !strings.HasSuffix(semconv.SchemaURL, strings.TrimPrefix(metrics.Semconv, "v")) {
		t.Errorf("schema %s, want version %s as in the table", semconv.SchemaURL, metrics.Semconv)
	}
	type standard interface {
		Name() string
		Unit() string
	}
	known := map[string]standard{}
	for _, s := range []standard{
		otelconv.SDKSpanLive{}, otelconv.SDKSpanStarted{}, otelconv.SDKProcessorSpanQueueSize{}, otelconv.SDKProcessorSpanProcessed{}, otelconv.SDKExporterSpanExported{},
		otelconv.SDKLogCreated{}, otelconv.SDKProcessorLogQueueSize{}, otelconv.SDKProcessorLogProcessed{}, otelconv.SDKExporterLogExported{},
	} {
		known[s.Name()] = s
	}
	for _, m := range all() {
		s := known[m.Name]
		if strings.HasPrefix(m.Name, "otel.") != (s != nil) || s != nil && s.Unit() != m.Unit {
			t.Errorf("%s has unit %s, convention %v; want the unit of the convention for otel., none else", m.Name, m.Unit, s)
		}
	}
	for key, want := range map[string]string{metrics.ComponentName: string(semconv.OTelComponentNameKey), metrics.ComponentType: string(semconv.OTelComponentTypeKey), metrics.ErrorType: string(semconv.ErrorTypeKey)} {
		if key != want {
			t.Errorf("attribute key %s, want %s as in the conventions", key, want)
		}
	}
}

// TestEachMetricIsInAGroup checks that every metric is in a group; without one
// it would be in no document.
func TestEachMetricIsInAGroup(t *testing.T) {
	text, err := os.ReadFile("table.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := len(regexp.MustCompile(`(?m)^\s+\w+ += &Metric\{`).FindAll(text, -1))
	if n := len(all()); declared != n || n == 0 {
		t.Errorf("%d metrics are declared, want %d as in the groups", declared, n)
	}
}
