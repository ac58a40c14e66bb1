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

// stallMemory is how much of a file waits in memory while the disk fails.
const stallMemory = 4 << 20

// Config is the configuration of the exporter. What the factory gives as the
// default lacks nothing but the directory.
type Config struct {
	// Directory is where the files go. It is made when the first file is. Required.
	Directory string `mapstructure:"directory"`
	// FileName is the name of a process's file below Directory. {host}, {pid},
	// {rank} and {service} are replaced, by "unknown-host", 0 and "unknown" where the resource
	// does not say. It ends in .pfw.gz, or .pfw for plain text. A name that is
	// taken gets a number: nothing is ever overwritten.
	FileName string `mapstructure:"file_name"`

	// Dialect is the generation of the format: V1, V2 (default) or V22.
	Dialect string `mapstructure:"dialect"`
	// Compression is members (many gzip members, default), single (one, for
	// readers that index with zindex) or none. Empty goes by FileName.
	Compression string `mapstructure:"compression"`
	// CompressionLevel goes from 1, fastest, to 9, smallest; 0 adapts.
	CompressionLevel int `mapstructure:"compression_level"`
	// MemberSize is how many bytes of text a gzip member has, 0 is 1 MiB.
	MemberSize int `mapstructure:"member_size"`
	// FlushInterval is how often what was written goes to the file, 1 s by default;
	// 0 is 0.5 s.
	FlushInterval time.Duration `mapstructure:"flush_interval"`
	// Sync says when files are forced to the disk: never (default), on_close or always.
	Sync string `mapstructure:"sync"`
	// RotateSize makes a file go on in the next one after that many bytes on
	// disk; 0 is never. It needs compression.
	RotateSize int64 `mapstructure:"rotate_size"`

	// MaxOpenFiles bounds the files that are open at once. To make room one is
	// closed for now; it is opened again when its process sends something.
	MaxOpenFiles int `mapstructure:"max_open_files"`
	// MaxProcesses bounds the processes that are known at once, their files
	// open or not. The file of the one that was silent for longest, a minute or
	// more, is completed to make room; while there is none, spans of further
	// processes go to one file.
	MaxProcesses int `mapstructure:"max_processes"`
	// MaxFilesPerHost bounds the files that are made for the processes of a host
	// as long as any of them is known. Spans of further ones go to one file: a
	// resource may change with each batch.
	MaxFilesPerHost int `mapstructure:"max_files_per_host"`
	// MaxMemory bounds, in bytes and over all processes, what waits to be written
	// and what is remembered to find parents. Beyond it what waits is written
	// early, and where that does not help batches are refused until it does.
	MaxMemory int64 `mapstructure:"max_memory"`
	// IdleTimeout completes a file to which nothing was written for so long; 0 is never.
	IdleTimeout time.Duration `mapstructure:"idle_timeout"`

	// OrderWindow is how long a span waits for its parent and its siblings
	// before it is written. 0 writes each batch as it comes.
	OrderWindow time.Duration `mapstructure:"order_window"`
	// MaxWaitingSpans bounds the spans of a process that wait at once.
	MaxWaitingSpans int `mapstructure:"max_waiting_spans"`
	// MaxParents bounds, per process, the spans still open that children have
	// named, and the finished spans that are remembered.
	MaxParents int `mapstructure:"max_parents"`

	// MaxAttributes, MaxEvents and MaxLinks bound what is kept of a span, and
	// MaxAttributes what is kept of an event and of a resource. What is over is
	// added to the span's counts of what its sender left out.
	MaxAttributes int `mapstructure:"max_attributes"`
	MaxEvents     int `mapstructure:"max_events"`
	MaxLinks      int `mapstructure:"max_links"`

	// Acknowledge says when a batch is taken: received (default), when it is in
	// memory, or written, when it is in the file. The latter leaves out the
	// order window and makes each batch a gzip member.
	Acknowledge string `mapstructure:"acknowledge"`

	// FoldOneLogger makes spans with which NVIDIA's one-logger exporter doubles
	// events into events of their span again.
	FoldOneLogger bool `mapstructure:"fold_one_logger_events"`

	// TraceIDs adds the arguments trace_id, span_id and parent_span_id.
	TraceIDs bool `mapstructure:"trace_ids"`

	// Retry is what happens when a file cannot be made.
	Retry configretry.BackOffConfig `mapstructure:"retry_on_failure"`
	// Queue is off unless configured: files need none, and without it the
	// sender learns when the disk cannot keep up.
	Queue configoptional.Optional[exporterhelper.QueueBatchConfig] `mapstructure:"sending_queue"`
}

var _ component.Config = (*Config)(nil)

func createDefaultConfig() component.Config {
	return &Config{
		FileName:        defaultFileName,
		Dialect:         dftracer.V2.String(),
		MemberSize:      dftracer.DefaultMemberSize,
		FlushInterval:   time.Second, // half as often as a job: there are many files
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

// Validate is called when the configuration is loaded. It names everything that is wrong at once.
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

// plain reports whether files are not compressed.
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

// options returns the writer's, without the process.
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
		Heartbeat:     -1, // this process says nothing of the lives of others
	}
}

func indexFold(list []string, s string) int {
	return slices.IndexFunc(list, func(v string) bool { return strings.EqualFold(v, s) })
}
