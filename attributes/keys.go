package attributes

// Keys of attributes that the reference grammar does not have.
const (
	Epoch = "epoch"
	Step  = "step"

	// Truncated is 1 on what was still open when the recording ended.
	Truncated = "truncated"

	// DFTracerCategory names the DFTracer category of a span that is not in
	// the standard table.
	DFTracerCategory = "dftracer.cat"
)
