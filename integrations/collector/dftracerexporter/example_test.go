package dftracerexporter_test

import (
	"fmt"

	"github.com/trainspan/trainspan/integrations/collector/dftracerexporter"
)

// A Collector of one's own takes the factory; the configuration says the rest.
func ExampleNewFactory() {
	factory := dftracerexporter.NewFactory()
	cfg := factory.CreateDefaultConfig().(*dftracerexporter.Config)
	cfg.Directory = "/scratch/traces"
	fmt.Println(factory.Type(), cfg.Validate())
	// Output: dftracer <nil>
}
