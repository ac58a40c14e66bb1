package servers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// Prometheus is a server that scrapes targets.
type Prometheus struct {
	*Process
	url string
}

// StartPrometheus starts the program with rules and with one target for each
// job, which it scrapes five times a second.
func StartPrometheus(ctx context.Context, program, dir, rules string, targets map[string]string) (*Prometheus, error) {
	address, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	var cfg strings.Builder
	fmt.Fprintf(&cfg, "global: {scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 1s}\nrule_files: [%q]\nscrape_configs:\n", rules)
	for job, target := range targets {
		fmt.Fprintf(&cfg, "  - job_name: %q\n    static_configs: [{targets: [%q]}]\n", job, target)
	}
	path := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(path, []byte(cfg.String()), 0o600); err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	p, err := start(ctx, nil, program, "--config.file="+path, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	if err != nil {
		return nil, err
	}
	return &Prometheus{Process: p, url: "http://" + address}, nil
}

// Log returns the end of its output.
func (p *Prometheus) Log() string { return p.log.String() }

// Ask returns the data of a response of its API.
func (p *Prometheus) Ask(ctx context.Context, path string, values url.Values, data any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path+"?"+values.Encode(), nil)
	if err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	var body struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil {
		return fmt.Errorf("servers: %s: %w", answer.Status, err)
	}
	if body.Status != "success" {
		return fmt.Errorf("servers: prometheus: %s", body.Error)
	}
	return json.Unmarshal(body.Data, data)
}

// Sample is one series in the result of a query, with its current value.
type Sample struct {
	Metric map[string]string
	Value  [2]any // the time, and the value as text
}

// Query returns the current result of a query.
func (p *Prometheus) Query(ctx context.Context, expr string) ([]Sample, error) {
	var data struct{ Result []Sample }
	err := p.Ask(ctx, "/api/v1/query", url.Values{"query": {expr}}, &data)
	return data.Result, err
}
