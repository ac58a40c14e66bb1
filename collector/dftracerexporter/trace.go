package dftracerexporter

import (
	"github.com/trainspan/trainspan/internal/assemble"
)

// trace is a process and its file, while something is written to it.
type trace struct {
	cfg    *Config
	id     assemble.Sender // of the process; the file may be that of several
	file   *assemble.File[assemble.Sender]
	asm    *assemble.Assembler
	names  *assemble.Names
	folded int64
}

// shared reports whether the file is that of processes that are one too many.
func (t *trace) shared() bool { return t.file.Key != t.id }
