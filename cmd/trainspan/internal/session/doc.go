// Package session implements the telemetry process of trainspan run. It
// collects the telemetry and resource use of a command and its processes,
// writes the files of the start, and reports at the end. It runs in parallel
// to the command (package launch) and ends when the files are complete.
package session

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/trainspan/trainspan/internal/ingest/pyring/pyclient"
	"github.com/trainspan/trainspan/internal/ingest/pyring/ring"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
)

// Names of the folders that Python processes use.
const (
	folderPrefix = "trainspan-"
	folderRings  = "rings"
	folderClient = "python"
)

// RemoveFolder deletes the folder that a start made for ring buffers: the
// folder itself, or its parent, which also contains the client. The folder must
// belong to this user, be private, and contain only files that a start leaves:
// the client, and the names of ring buffers that were read. Otherwise nothing
// is deleted.
func RemoveFolder(rings string) error {
	dir := filepath.Clean(rings)
	if filepath.Base(dir) == folderRings {
		dir = filepath.Dir(dir)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(filepath.Base(dir), folderPrefix) || !info.IsDir() || info.Mode().Perm() != 0o700 {
		return fmt.Errorf("%s: is not a directory of trainspan run", dir)
	}
	return fswrite.RemoveDir(dir, isOwn)
}

// isOwn reports whether a start creates files with this name in its folder.
func isOwn(name string) bool {
	if client, ok := strings.CutPrefix(name, folderClient+"/"); ok {
		return pyclient.IsClient(client)
	}
	dir := path.Dir(name)
	return (dir == "." || dir == folderRings) && path.Ext(name) == ring.SideExt
}
