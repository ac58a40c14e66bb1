package dftracerexporter

import (
	"os"
	"reflect"
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

func TestMetadataNamesEveryMetric(t *testing.T) {
	source, err := os.ReadFile("telemetry.go")
	if err != nil {
		t.Fatal(err)
	}
	metadata, err := os.ReadFile("metadata.yaml")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, part := range strings.Split(string(source), `= counter("`)[1:] {
		n++
		name, _, _ := strings.Cut(part, `"`)
		if !strings.Contains(string(metadata), "dftracer_"+name+":\n") {
			t.Errorf("metadata.yaml does not have %s", name)
		}
	}
	if n != 9 || !strings.Contains(string(metadata), "dftracer_open_files:") {
		t.Errorf("%d counters found in the source", n)
	}
}
