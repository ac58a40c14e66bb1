// Package python holds the client for Python processes. trainspan run reads
// what it records, and trainspan trace import reads it after the processes have
// ended.
package python

import "embed"

// Client holds the files of the client: the packages trainspan and
// trainspan_torch, and in trainspan_site the modules that PYTHONPATH needs in
// addition.
//
//go:embed all:trainspan*
var Client embed.FS
