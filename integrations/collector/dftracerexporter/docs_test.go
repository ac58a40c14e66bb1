package dftracerexporter

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

func TestReadmeNamesEverySetting(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for f := range reflect.TypeFor[Config]().Fields() {
		if key := f.Tag.Get("mapstructure"); !strings.Contains(string(readme), "| `"+key+"` |") {
			t.Errorf("README.md has no row for %s", key)
		}
	}
}

// TestGeneratedFilesAreUpToDate checks that mdatagen's output belongs to this
// metadata.yaml. "tools/collector generated" compares every byte where the tool
// is available.
func TestGeneratedFilesAreUpToDate(t *testing.T) {
	read := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	metrics := regexp.MustCompile(`(?m)^    (dftracer_\w+):\n      enabled: true\n      description: (.*)\n`)
	code, doc := read("internal/metadata/generated_telemetry.go"), read("documentation.md")
	all := metrics.FindAllStringSubmatch(read("metadata.yaml"), -1)
	for _, m := range all {
		if !strings.Contains(code, `"otelcol_`+m[1]+`"`) || !strings.Contains(code, m[2]) {
			t.Errorf("the code has no metric %s: %s", m[1], m[2])
		}
		if !strings.Contains(doc, "### otelcol_"+m[1]+"\n\n"+m[2]) {
			t.Errorf("documentation.md has no metric %s: %s", m[1], m[2])
		}
	}
	if n := strings.Count(doc, "### otelcol_"); n != len(all) || n == 0 {
		t.Errorf("documentation.md has %d metrics, want %d as metadata.yaml", n, len(all))
	}
}
