package telemetry

import (
	"github.com/trainspan/trainspan/telemetry/internal/dispatch"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// The contract of outputs, under the names by which programs know it.
type (
	// Output is a place that telemetry writes to.
	Output = outputs.Output
	// Identity says who writes: the process and its place in the job.
	Identity = outputs.Identity
	// OutputHealth is what telemetry knows of an output for records.
	OutputHealth = dispatch.Health
)
