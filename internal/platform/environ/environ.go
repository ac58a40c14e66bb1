// Package environ defines the names of the environment variables with which the
// processes of a run find each other, and those that choose what is recorded.
package environ

// Environment variables that are not settings.
const (
	// File is the path of the configuration file.
	File = "TRAINSPAN_CONFIG"
	// Dir is the directory for the files of a run.
	Dir = "TRAINSPAN_DIR"
	// Run is HOST:PID of the trainspan run that started the program.
	Run = "TRAINSPAN_RUN"
	// Ring is the folder for the ring buffers of Python processes.
	Ring = "TRAINSPAN_RING"
	// Torch, Only and Without choose what the Python client records; with Verbose
	// it prints what it does.
	Torch   = "TRAINSPAN_TORCH"
	Only    = "TRAINSPAN_ONLY"
	Without = "TRAINSPAN_WITHOUT"
	Verbose = "TRAINSPAN_VERBOSE"
	// Inject holds the delays that the Python client injects, as JSON.
	Inject = "TRAINSPAN_INJECT"
	// Metrics is the address at which trainspan run serves the metrics of its job.
	Metrics = "TRAINSPAN_METRICS"

	// TokenHeader is not a variable, but the header in
	// OTEL_EXPORTER_OTLP_TRACES_HEADERS with the token that allows a program to
	// send spans to its trainspan run.
	TokenHeader = "x-trainspan-token"

	// Application and Tag hold the settings application_name and session_tag, for
	// programs that set them for their children.
	Application = "TRAINSPAN_APPLICATION_NAME"
	Tag         = "TRAINSPAN_SESSION_TAG"
)
