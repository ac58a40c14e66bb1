package dftracerexporter

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/internal/assemble"
)

// pathOf is the file of a process by the pattern of the configuration.
func pathOf(s *assemble.Sender, directory, pattern string) string {
	name := strings.NewReplacer(
		"{host}", assemble.SafeName(s.Host), "{service}", assemble.SafeName(s.Service),
		"{pid}", strconv.Itoa(s.PID), "{rank}", strconv.Itoa(max(s.Rank, 0)),
	).Replace(pattern)
	return filepath.Join(directory, filepath.FromSlash(name))
}
