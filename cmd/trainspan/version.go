package main

import (
	"runtime"
	"runtime/debug"
)

// version says which program this is: the version of its module or, of a build
// from a working tree, the commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
	}
	commit, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = " " + s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = " with changes"
		}
	}
	return v + commit + changed + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}
