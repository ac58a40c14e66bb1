package dftracerexporter_test

import (
	"fmt"

	"github.com/trainspan/trainspan/integrations/collector/dftracerexporter"
)

// A custom Collector adds the factory; the rest is configuration.
func ExampleNewFactory() {
	factory := dftracerexporter.NewFactory()
	cfg := factory.CreateDefaultConfig().(*dftracerexporter.Config)
	cfg.Directory = "/scratch/traces"
	fmt.Println(factory.Type(), cfg.Validate())
	// Output: dftracer <nil>
}
