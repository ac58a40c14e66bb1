package config

// Environment variables that are no setting.
const (
	// fileVariable is the environment variable that names the configuration file.
	fileVariable = "TRAINSPAN_CONFIG"
	// DirVariable names the directory for the files of a run.
	DirVariable = "TRAINSPAN_DIR"
	// RunVariable says HOST:PID of the trainspan run that a program runs under.
	RunVariable = "TRAINSPAN_RUN"
	// RingVariable names the folder for the rings of Python processes.
	RingVariable = "TRAINSPAN_RING"
	// TorchVariable, OnlyVariable and WithoutVariable say what the client for Python
	// watches, VerboseVariable whether it tells what it does.
	TorchVariable   = "TRAINSPAN_TORCH"
	OnlyVariable    = "TRAINSPAN_ONLY"
	WithoutVariable = "TRAINSPAN_WITHOUT"
	VerboseVariable = "TRAINSPAN_VERBOSE"

	// ApplicationVariable and TagVariable are those of the settings application_name
	// and session_tag, for who sets them for others.
	ApplicationVariable = "TRAINSPAN_APPLICATION_NAME"
	TagVariable         = "TRAINSPAN_SESSION_TAG"
)
