package rundir

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/trainspan/trainspan/internal/secret"
)

// Outline is what may be told of a command line: no value and no other
// argument, since no rule finds all secrets among them.
type Outline struct {
	Program string   // base name
	Script  string   // base name of a script, or the module of python -m
	Flags   []string // names, with their dashes
}

// scriptName finds the file names that are programs.
var scriptName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,126}\.(?:py|sh|bash|pl|rb|lua|jl|R|js|mjs)$`)

// moduleName is what python -m takes.
var moduleName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*){0,8}$`)

// launchers are modules that start a script.
var launchers = map[string]bool{
	"torch.distributed.run": true, "torch.distributed.launch": true, "accelerate.commands.launch": true,
	"deepspeed.launcher.runner": true, "pdb": true, "cProfile": true, "coverage": true,
}

// NewOutline reads a command line.
func NewOutline(args []string) Outline {
	o := Outline{Program: filepath.Base(args[0]), Flags: secret.Flags(args[1:], nil)}
	python := strings.HasPrefix(o.Program, "python")
	for i, arg := range args[1:] {
		base := filepath.Base(arg)
		switch {
		case strings.HasPrefix(arg, "-") || o.Script != "":
		case scriptName.MatchString(base):
			o.Script = base
		case python && args[i] == "-m" && moduleName.MatchString(arg) && !launchers[arg]:
			o.Script = arg
		}
	}
	return o
}

// Name is a name for the job: that of its script or module, else its program.
func (o *Outline) Name() string {
	if o.Script != "" {
		if ext := filepath.Ext(o.Script); scriptName.MatchString(o.Script) {
			return strings.TrimSuffix(o.Script, ext)
		}
		return o.Script
	}
	return o.Program
}
