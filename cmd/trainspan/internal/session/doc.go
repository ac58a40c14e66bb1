// Package session is the telemetry process of trainspan run: it gathers what a
// command and its processes say and use, writes the files of the start, and says
// at the end what came of it. It runs beside the command (package launch) and
// outlives it for as long as the files take.
package session

import (
	"path/filepath"
	"strings"
)

// Names of the folders that Python processes use.
const (
	folderPrefix = "trainspan-"
	folderRings  = "rings"
)

// Folder is the folder that a start made for a folder of rings: itself, or the one
// around it, which holds the client too.
func Folder(rings string) string {
	if up := filepath.Dir(rings); filepath.Base(rings) == folderRings && strings.HasPrefix(filepath.Base(up), folderPrefix) {
		return up
	}
	return rings
}
