package config_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/settings"
)

// TestEveryFieldIsDocumented compares docs/configuration.md with the code.
func TestEveryFieldIsDocumented(t *testing.T) {
	data, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if key, rest, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "` | "); ok && strings.HasPrefix(line, "| `") {
			rows[key] = rest
		}
	}
	cfg := config.Config{Base: config.Base{Training: &config.Training{}}}
	fields := flatten(&cfg)
	for key := range fields {
		if rows[key] == "" {
			t.Errorf("no row for %s", key)
		}
	}
	variables := map[string]bool{}
	for name, key := range config.EnvironmentVariables() {
		variables[name] = true
		if !strings.Contains(rows[key], "`"+name+"`") {
			t.Errorf("the row of %s does not name %s", key, name)
		}
	}
	name := regexp.MustCompile("`([A-Z]+_[A-Z_]+)`")
	for key, row := range rows {
		if _, ok := fields[key]; !ok {
			t.Errorf("row for %s, which is no field", key)
		}
		columns := strings.Split(row, " | ")
		for _, m := range name.FindAllStringSubmatch(columns[1], -1) {
			if !variables[m[1]] {
				t.Errorf("the row of %s names %s, which is not read", key, m[1])
			}
		}
	}
}

// TestDocumentedFileIsAccepted loads the example of the document.
func TestDocumentedFileIsAccepted(t *testing.T) {
	data, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "```yaml\n")
	text, _, _ := strings.Cut(rest, "```")
	cfg := mustLoad(t, config.LoadOptions{Path: write(t, "job.yaml", text), LookupEnv: config.Environ(nil)})
	if !settings.FileActive(&cfg) || !settings.TraceActive(&cfg) || !settings.OTLPActive(&cfg) {
		t.Errorf("outputs = %+v", cfg.Outputs)
	}
}
