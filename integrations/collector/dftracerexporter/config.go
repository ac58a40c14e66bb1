package dftracerexporter

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile/place"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configretry"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
)

// Defaults of Config.
const (
	defaultFileName    = "trace-{rank}-{host}-{pid}.pfw.gz"
	defaultMaxPerHost  = 1024
	defaultIdleTimeout = 10 * time.Minute
	defaultOrderWindow = 2 * time.Second
	defaultMaxWaiting  = 8192
	defaultMaxParents  = 16384
)

// stallMemory is how many bytes of a file wait in memory while the disk fails.
const stallMemory = 4 << 20

// Config is the configuration of the exporter. The factory's default is
// complete except for the directory.
type Config struct {
	// Directory is the directory of the files. The exporter creates it with the
	// first file. Required.
	Directory string `mapstructure:"directory"`
	// FileName is the name of a process's file below Directory. The exporter
	// replaces {host}, {pid}, {rank} and {service}, by "unknown-host", 0 and
	// "unknown" if the resource does not have them. The name ends in .pfw.gz, or in
	// .pfw for plain text. If a file has the name already, the exporter adds a
	// number: it never overwrites a file.
	FileName string `mapstructure:"file_name"`

	// Dialect is the version of the format: V1, V2 (default) or V22.
	Dialect string `mapstructure:"dialect"`
	// Compression is members (many gzip members, default), single (one, for readers
	// that index with zindex) or none. Empty follows FileName.
	Compression string `mapstructure:"compression"`
	// CompressionLevel is 1 (fastest) to 9 (smallest); 0 adapts the level to the
	// load.
	CompressionLevel int `mapstructure:"compression_level"`
	// MemberSize is the number of bytes of text in a gzip member; 0 is 1 MiB.
	MemberSize int `mapstructure:"member_size"`
	// FlushInterval is the interval in which written text goes to the file, 1 s by
	// default; 0 is 0.5 s.
	FlushInterval time.Duration `mapstructure:"flush_interval"`
	// Sync selects when the exporter forces files to the disk: never (default),
	// on_close or always.
	Sync string `mapstructure:"sync"`
	// RotateSize is the size on disk, in bytes, after which a file continues in the
	// next one; 0 is never. It needs compression.
	RotateSize int64 `mapstructure:"rotate_size"`

	// MaxOpenFiles limits the files that are open at once. To open another one, the
	// exporter closes one temporarily; it reopens that file when its process sends
	// spans.
	MaxOpenFiles int `mapstructure:"max_open_files"`
	// MaxProcesses limits the processes that the exporter knows at once, whether
	// their files are open or not. For a further process the exporter completes the
	// file of the process that sent nothing for longest, if that is a minute or
	// more; otherwise spans of further processes go to one shared file.
	MaxProcesses int `mapstructure:"max_processes"`
	// MaxFilesPerHost limits the files for the processes of a host while the
	// exporter knows any of them. Completed files of processes that sent for a
	// minute do not count. Spans of further processes go to one shared file,
	// because a resource may change with each batch.
	MaxFilesPerHost int `mapstructure:"max_files_per_host"`
	// MaxMemory limits, in bytes and over all processes, the data that waits to be
	// written and the data for finding parents. Above the limit the exporter writes
	// waiting spans early; if that is not enough, it refuses batches until memory
	// is free.
	MaxMemory int64 `mapstructure:"max_memory"`
	// IdleTimeout is the time without writes after which the exporter completes a
	// file; 0 is never.
	IdleTimeout time.Duration `mapstructure:"idle_timeout"`

	// OrderWindow is how long a span waits for its parent and its siblings before
	// the exporter writes it. 0 writes each batch at once.
	OrderWindow time.Duration `mapstructure:"order_window"`
	// MaxWaitingSpans limits the spans of a process that wait at once.
	MaxWaitingSpans int `mapstructure:"max_waiting_spans"`
	// MaxParents limits, per process, the open spans that children have named, and
	// the finished spans that the exporter remembers.
	MaxParents int `mapstructure:"max_parents"`

	// MaxAttributes, MaxEvents and MaxLinks limit what the exporter keeps of a
	// span, and MaxAttributes also what it keeps of an event and of a resource. The
	// exporter adds the rest to the span's counts of what its sender dropped.
	MaxAttributes int `mapstructure:"max_attributes"`
	MaxEvents     int `mapstructure:"max_events"`
	MaxLinks      int `mapstructure:"max_links"`

	// Acknowledge selects when the exporter acknowledges a batch: received
	// (default), when it is in memory, or written, when it is in the file. With
	// written there is no order window, and each batch is a gzip member.
	Acknowledge string `mapstructure:"acknowledge"`

	// FoldOneLogger turns the spans that NVIDIA's one-logger exporter sends as
	// copies of events back into events of their span.
	FoldOneLogger bool `mapstructure:"fold_one_logger_events"`

	// TraceIDs adds the arguments trace_id, span_id and parent_span_id.
	TraceIDs bool `mapstructure:"trace_ids"`

	// Retry configures the retries when a file cannot be created.
	Retry configretry.BackOffConfig `mapstructure:"retry_on_failure"`
	// Queue is off unless configured: files do not need a queue, and without it the
	// sender sees that the disk cannot keep up.
	Queue configoptional.Optional[exporterhelper.QueueBatchConfig] `mapstructure:"sending_queue"`
}

var _ component.Config = (*Config)(nil)

func createDefaultConfig() component.Config {
	return &Config{
		FileName:        defaultFileName,
		Dialect:         dftracer.V2.String(),
		MemberSize:      dftracer.DefaultMemberSize,
		FlushInterval:   time.Second, // longer than in a job: there are many files
		MaxOpenFiles:    place.DefaultMaxOpen,
		MaxProcesses:    place.DefaultMaxProcesses,
		MaxFilesPerHost: defaultMaxPerHost,
		MaxMemory:       place.DefaultMaxBytes,
		Acknowledge:     acknowledges[0],
		FoldOneLogger:   true,
		IdleTimeout:     defaultIdleTimeout,
		OrderWindow:     defaultOrderWindow,
		MaxWaitingSpans: defaultMaxWaiting,
		MaxParents:      defaultMaxParents,
		MaxAttributes:   place.DefaultLimit,
		MaxEvents:       place.DefaultLimit,
		MaxLinks:        place.DefaultLimit,
		Retry:           configretry.NewDefaultBackOffConfig(),
		Queue:           configoptional.Default(exporterhelper.NewDefaultQueueConfig()),
	}
}

var (
	dialects     = []string{dftracer.V1.String(), dftracer.V2.String(), dftracer.V22.String()}
	compressions = []string{"", "members", "single", "none"} // in the order of dftracer.Compression
	syncs        = []string{"never", "on_close", "always"}   // in the order of dftracer.SyncPolicy
	acknowledges = []string{"received", "written"}
	placeholders = []string{"{host}", "{pid}", "{rank}", "{service}"}
	placeholder  = regexp.MustCompile(`\{[^{}]*\}`)
)

// Validate checks the configuration when it is loaded. The error names all
// mistakes at once.
func (c *Config) Validate() error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(c.Directory == "", "directory is required: the directory for trace files")
	errs = append(errs, c.validateFileName())
	bad(indexFold(dialects, c.Dialect) < 0, "dialect %q is not one of %s", c.Dialect, strings.Join(dialects, ", "))
	bad(indexFold(compressions, c.Compression) < 0, "compression %q is not one of %s", c.Compression, strings.Join(compressions[1:], ", "))
	bad(c.CompressionLevel < 0 || c.CompressionLevel > 9, "compression_level is %d, not between 0 (adaptive) and 9", c.CompressionLevel)
	bad(c.MemberSize < 0, "member_size is %d, below 0", c.MemberSize)
	bad(c.FlushInterval < 0, "flush_interval is %v, below 0", c.FlushInterval)
	bad(c.Sync != "" && indexFold(syncs, c.Sync) < 0, "sync %q is not one of %s", c.Sync, strings.Join(syncs, ", "))
	bad(c.RotateSize < 0, "rotate_size is %d, below 0", c.RotateSize)
	bad(c.RotateSize > 0 && c.plain(), "rotate_size needs compression, file_name %q is plain text", c.FileName)
	bad(c.MaxOpenFiles < 1, "max_open_files is %d, below 1", c.MaxOpenFiles)
	bad(c.MaxProcesses < c.MaxOpenFiles, "max_processes is %d, below max_open_files %d", c.MaxProcesses, c.MaxOpenFiles)
	bad(c.MaxFilesPerHost < 1, "max_files_per_host is %d, below 1", c.MaxFilesPerHost)
	bad(c.MaxMemory < 1<<20, "max_memory is %d bytes, below 1 MiB", c.MaxMemory)
	bad(c.Acknowledge != "" && indexFold(acknowledges, c.Acknowledge) < 0, "acknowledge %q is not one of %s", c.Acknowledge, strings.Join(acknowledges, ", "))
	bad(c.IdleTimeout < 0, "idle_timeout is %v, below 0", c.IdleTimeout)
	bad(c.OrderWindow < 0, "order_window is %v, below 0", c.OrderWindow)
	bad(c.IdleTimeout > 0 && c.IdleTimeout < c.OrderWindow, "idle_timeout %v is shorter than order_window %v", c.IdleTimeout, c.OrderWindow)
	bad(c.MaxWaitingSpans < 1, "max_waiting_spans is %d, below 1", c.MaxWaitingSpans)
	bad(c.MaxParents < 1, "max_parents is %d, below 1", c.MaxParents)
	bad(c.MaxAttributes < 1, "max_attributes is %d, below 1", c.MaxAttributes)
	bad(c.MaxEvents < 1, "max_events is %d, below 1", c.MaxEvents)
	bad(c.MaxLinks < 1, "max_links is %d, below 1", c.MaxLinks)
	return errors.Join(errs...)
}

func (c *Config) limits() place.Limits {
	return place.Limits{Attributes: c.MaxAttributes, Events: c.MaxEvents, Links: c.MaxLinks}
}

func (c *Config) acknowledgesWritten() bool { return strings.EqualFold(c.Acknowledge, acknowledges[1]) }

// plain reports whether files are uncompressed.
func (c *Config) plain() bool {
	return strings.EqualFold(c.Compression, "none") || c.Compression == "" && strings.HasSuffix(c.FileName, ".pfw")
}

func (c *Config) validateFileName() error {
	name := c.FileName
	for _, p := range placeholder.FindAllString(name, -1) {
		if !slices.Contains(placeholders, p) {
			return fmt.Errorf("file_name has the unknown placeholder %s; use one of %s", p, strings.Join(placeholders, ", "))
		}
	}
	plain := placeholder.ReplaceAllString(name, "x")
	base := filepath.Base(plain)
	switch {
	case name == "":
		return errors.New("file_name is empty")
	case strings.ContainsAny(plain, "{}"):
		return fmt.Errorf("file_name %q has an unmatched brace", name)
	case !filepath.IsLocal(plain):
		return fmt.Errorf("file_name %q is outside of the directory", name)
	case base == ".pfw.gz" || base == ".pfw" || !strings.HasSuffix(base, ".pfw.gz") && !strings.HasSuffix(base, ".pfw"):
		return fmt.Errorf("file_name %q must end in .pfw.gz or .pfw: analyzers find traces by it", name)
	case strings.HasSuffix(base, ".pfw.gz") && strings.EqualFold(c.Compression, "none"):
		return fmt.Errorf("file_name %q ends in .gz, but compression is none", name)
	case strings.HasSuffix(base, ".pfw") && (strings.EqualFold(c.Compression, "members") || strings.EqualFold(c.Compression, "single")):
		return fmt.Errorf("file_name %q does not end in .gz, but compression is %s", name, c.Compression)
	}
	return nil
}

// options returns the options of the writer, without the process.
func (c *Config) options() dftracer.Options {
	return dftracer.Options{
		Dialect:       dftracer.Dialect(max(indexFold([]string{"V2", "V1", "V22"}, c.Dialect), 0)),
		Compression:   dftracer.Compression(max(indexFold(compressions, c.Compression), 0)),
		Level:         c.CompressionLevel,
		MemberSize:    c.MemberSize,
		FlushInterval: c.FlushInterval,
		Sync:          dftracer.SyncPolicy(max(indexFold(syncs, c.Sync), 0)),
		RotateSize:    c.RotateSize,
		Existing:      dftracer.ExistingFail,
		StallMemory:   stallMemory,
		Heartbeat:     -1, // this process does not report whether other processes live
	}
}

func indexFold(list []string, s string) int {
	return slices.IndexFunc(list, func(v string) bool { return strings.EqualFold(v, s) })
}
