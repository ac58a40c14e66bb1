package spans

// Attributes by which an OpenTelemetry span says what it is called in a trace
// file. They are no arguments there.
const (
	AttrCategory = "dftracer.cat"
	AttrName     = "dftracer.name"
)
