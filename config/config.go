package config

// Config is the root of a configuration file: the job, which spans are
// exported, and where to. Its zero value asks for no output at all.
type Config struct {
	// Base describes the job. In a file its fields stand at the top level.
	Base
	// Export chooses the spans for the native exporters.
	Export Export `key:"export"`
	// Outputs says what is written where.
	Outputs Outputs `key:"outputs"`
	// OTel holds what concerns OpenTelemetry as a whole.
	OTel OTel `key:"otel"`
	// Ranks is this process's place in the job as its launcher gives it. It is
	// read from the environment or set in code, never from a file: one file
	// serves all ranks.
	Ranks Ranks `key:"-"`
	// Warnings is what [Load] found suspicious and did not refuse, such as a
	// variable with a misspelt name. Package exporters logs it.
	Warnings []Problem `key:"-"`
}

// OTel holds the settings that concern OpenTelemetry as a whole.
type OTel struct {
	// SDKDisabled switches off everything that goes through OpenTelemetry's
	// exporters; the file and the trace are still written. Unset is false.
	SDKDisabled Var[bool] `key:"sdk_disabled" env:"OTEL_SDK_DISABLED"`
	// ServiceName is the resource's service.name; it wins over the same key in
	// ResourceAttributes.
	ServiceName string `key:"service_name" env:"OTEL_SERVICE_NAME"`
	// ResourceAttributes describe the process; the values are text.
	ResourceAttributes Metadata `key:"resource_attributes" env:"OTEL_RESOURCE_ATTRIBUTES"`
}
