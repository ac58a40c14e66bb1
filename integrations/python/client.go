// Package python holds the client that Python processes run. What they record
// with it is read by trainspan run, and by trainspan trace import when they are gone.
package python

import "embed"

// Client is the files of the client: the packages trainspan and trainspan_torch, and
// in trainspan_site what stands beside them in PYTHONPATH.
//
//go:embed all:trainspan*
var Client embed.FS
