package setup

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/platform/safelog"
	"github.com/trainspan/trainspan/internal/record/settings"
)

// withLogFiles returns a logger that also writes to the log files of the configuration.
// A nil l means the default logger with the configured level. It returns l if the
// configuration has no log files.
func withLogFiles(l *slog.Logger, c *config.Logger, rank int) *slog.Logger {
	level := settings.Level(c)
	var handlers []slog.Handler
	for _, f := range []struct {
		path  string
		level slog.Level
	}{{c.InfoPath, slog.LevelInfo}, {c.ErrorPath, slog.LevelError}} {
		if f.path != "" {
			host := identity.HostName()
			path, err := fswrite.Name{Path: f.path, Rank: &rank, PID: os.Getpid(), Host: host}.Expand()
			if err != nil {
				continue // the configuration is already validated
			}
			if err := fswrite.Check(path, func(*os.File) error { return nil }); !fswrite.AsIs(path) && errors.Is(err, fs.ErrExist) {
				safelog.New(l).Warn("telemetry does not write messages to this log file", "error", err, "see", helptopic.File)
				continue
			}
			handlers = append(handlers, slog.NewTextHandler(logFile(path), &slog.HandlerOptions{Level: max(level, f.level)}))
		}
	}
	if len(handlers) == 0 {
		return l
	}
	if l == nil {
		l = slog.New(safelog.AtLeast(slog.Default().Handler(), level))
	}
	return slog.New(slog.NewMultiHandler(append(handlers, l.Handler())...))
}

// logFile is the path of a file to which lines are appended. The file is open only while
// a line is written: messages are rare, and the last ones are logged after every point
// at which it could be closed.
type logFile string

// Write implements io.Writer.
func (path logFile) Write(line []byte) (int, error) {
	f, err := fswrite.OpenAppend(string(path))
	if err != nil {
		return 0, err
	}
	n, err := f.Write(line)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return n, err
}
