package config

import "time"

// Outputs says where telemetry is written. Each output is on when it is
// switched on, or when it has a place to go and is not switched off.
type Outputs struct {
	// File is the JSON-lines file with the native records.
	File File `key:"file"`
	// Trace is the DFTracer trace.
	Trace Trace `key:"trace"`
	// OTLP sends spans, logs and metrics to a collector or backend.
	OTLP OTLP `key:"otlp"`
	// Prometheus lets a Prometheus server fetch the metrics.
	Prometheus Prometheus `key:"prometheus"`
}

// File is the JSON-lines output.
type File struct {
	// Enabled switches the output on or off; unset means on when Path is set.
	Enabled Var[bool] `key:"enabled" env:"TRAINSPAN_FILE_ENABLED"`
	// Path is the file to write. {rank}, {pid} and {host} in it are replaced,
	// so that processes which share a configuration do not share a file.
	Path string `key:"path" env:"TRAINSPAN_FILE_PATH"`
	// Compat asks for the reference's records byte for byte: a start is held
	// back until its span is known to last, and our own additions are left
	// out. Unset is false.
	Compat Var[bool] `key:"compat" env:"TRAINSPAN_FILE_COMPAT"`
	// Append adds the records to a file that is already there. Unset is false:
	// they then go to the next free name, telemetry.run2.jsonl.
	Append Var[bool] `key:"append" env:"TRAINSPAN_FILE_APPEND"`
}

// Trace is the DFTracer trace output.
type Trace struct {
	// Enabled switches the output on or off; unset means on when Path is set.
	Enabled Var[bool] `key:"enabled" env:"DFTRACER_ENABLE"`
	// Path is a prefix, or a file when it ends in .pfw or .pfw.gz. {rank},
	// {pid} and {host} in it are replaced. Empty is "./trace".
	Path string `key:"path" alias:"log_file" env:"DFTRACER_LOG_FILE"`
	// Dialect is the grammar of the trace; empty is TraceV2.
	Dialect string `key:"dialect" env:"TRAINSPAN_TRACE_DIALECT"`
	// Metadata says whether events carry arguments. Unset is true.
	Metadata Var[bool] `key:"metadata" env:"DFTRACER_INC_METADATA"`
	// Compression says whether the trace is written as gzip. Unset is true.
	Compression Var[bool] `key:"compression" env:"DFTRACER_TRACE_COMPRESSION"`
	// BufferSize is the number of bytes of text gathered before they are
	// written, one gzip member at a time. Zero is 1 MiB.
	BufferSize int `key:"buffer_size" alias:"write_buffer_size" env:"DFTRACER_WRITE_BUFFER_SIZE"`
	// WriteInterval is the longest time that an event waits in the buffer.
	// Zero is half a second.
	WriteInterval time.Duration `key:"write_interval" env:"DFTRACER_TRACE_INTERVAL_MS:ms"`
	// CoreAffinity asks for a record of the processors this process may use.
	// Unset is false.
	CoreAffinity Var[bool] `key:"core_affinity" env:"DFTRACER_SET_CORE_AFFINITY"`
	// CommandLine asks for the names of the program's flags in the trace, beside
	// the program itself. Values and other arguments are never written. Unset is
	// false.
	CommandLine Var[bool] `key:"command_line" env:"TRAINSPAN_TRACE_COMMAND_LINE"`
	// TIDs says whether events carry the lane that they ran on as their thread
	// id; without, it is 0. Unset is true.
	TIDs Var[bool] `key:"tids" env:"DFTRACER_DISABLE_TIDS:not"`
	// DataDirs are the folders whose files are traced; empty means all files.
	// This and the next four are about what the program reads and writes
	// through package integrations/iofs: nothing is intercepted.
	DataDirs []string `key:"data_dirs" env:"DFTRACER_DATA_DIR:dirs"`
	// IO says whether calls on files are traced. Unset is true.
	IO Var[bool] `key:"io" env:"DFTRACER_DISABLE_IO:not"`
	// POSIX says whether those of category POSIX are: open64, read, pread and
	// their kind. Unset is true.
	POSIX Var[bool] `key:"posix" env:"DFTRACER_DISABLE_POSIX:not"`
	// STDIO says whether those of category STDIO are, which go to the buffer of
	// a stream: fread, fwrite. Unset is true.
	STDIO Var[bool] `key:"stdio" env:"DFTRACER_DISABLE_STDIO:not"`
	// AggregateIO asks for one record of all calls of a kind on a file in a
	// second, instead of one for each call. Unset is false.
	AggregateIO Var[bool] `key:"aggregate_io" env:"TRAINSPAN_TRACE_AGGREGATE_IO"`
}

// Prometheus is the output that metrics can be fetched from by http. It is on
// when it has an address.
type Prometheus struct {
	// Address is the host:port to listen on, such as "127.0.0.1:9464". Port 0
	// takes a free one. The host must be this machine's own loopback, unless
	// AllowRemote is set.
	Address string `key:"address" env:"TRAINSPAN_PROMETHEUS_ADDRESS"`
	// AllowRemote allows an address that other machines can reach. The metrics
	// are then open to everybody who can. Unset is false.
	AllowRemote Var[bool] `key:"allow_remote" env:"TRAINSPAN_PROMETHEUS_ALLOW_REMOTE"`
}
