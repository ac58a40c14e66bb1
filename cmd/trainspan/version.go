package main

import (
	"runtime"
	"runtime/debug"
)

// release is the version that a release was built as; its build sets it.
var release string

// version says which program this is: the release, the version of its module or, of
// a build from a working tree, the commit.
func version() string {
	if release != "" {
		return release + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
	}
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
