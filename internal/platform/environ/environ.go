// Package environ is the names of the environment variables by which the programs of a run
// find each other, and of those that say what is watched.
package environ

// Environment variables that are no setting.
const (
	// File is the environment variable that names the configuration file.
	File = "TRAINSPAN_CONFIG"
	// Dir names the directory for the files of a run.
	Dir = "TRAINSPAN_DIR"
	// Run says HOST:PID of the trainspan run that a program runs under.
	Run = "TRAINSPAN_RUN"
	// Ring names the folder for the rings of Python processes.
	Ring = "TRAINSPAN_RING"
	// Torch, Only and Without say what the client for Python
	// watches, Verbose whether it tells what it does.
	Torch   = "TRAINSPAN_TORCH"
	Only    = "TRAINSPAN_ONLY"
	Without = "TRAINSPAN_WITHOUT"
	Verbose = "TRAINSPAN_VERBOSE"
	// Inject is the delays that the client for Python makes, as JSON.
	Inject = "TRAINSPAN_INJECT"
	// Metrics is the address at which trainspan run serves the metrics of its job.
	Metrics = "TRAINSPAN_METRICS"

	// TokenHeader is no variable, but the header in OTEL_EXPORTER_OTLP_TRACES_HEADERS with
	// which a program shows its trainspan run that it may send spans.
	TokenHeader = "x-trainspan-token"

	// Application and Tag are those of the settings application_name
	// and session_tag, for who sets them for others.
	Application = "TRAINSPAN_APPLICATION_NAME"
	Tag         = "TRAINSPAN_SESSION_TAG"
)
