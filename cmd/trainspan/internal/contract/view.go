package contract

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// View selects the part of an output that is recorded.
type View struct {
	// Form is the form of the output: Object, Lines, CSV, or "" if only the exit
	// status matters.
	Form Form
	// Group merges all rows that agree in these keys.
	Group []string
	// Keep and Drop are the paths below which values are recorded; "" means all.
	// Keys are always recorded.
	Keep, Drop []string
	// Prose are lists of sentences; their number is recorded.
	Prose []string
	// Open are maps whose keys are data.
	Open []string
}

// Form is the form of an output.
type Form string

// Forms.
const (
	Object Form = "an object or array of JSON"
	Lines  Form = "lines of JSON"
	CSV    Form = "a table"
)

// belowAny reports whether a path is one of some, or below one; "" matches all.
func belowAny(path string, some []string) bool {
	return slices.ContainsFunc(some, func(s string) bool {
		rest, ok := strings.CutPrefix(path, s)
		return ok && (s == "" || rest == "" || strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "["))
	})
}

// Add records an exit status and an output. Keys are recorded under the
// command's name up to " with ", so that one command about many pairs has one
// list.
func (f *File) Add(job, command string, v *View, exit int, output string) error {
	a := Answer{"exit": json.Number(strconv.Itoa(exit))}
	if f.Jobs[job] == nil {
		f.Jobs[job] = make(map[string]Answer)
	}
	f.Jobs[job][command] = a
	doc, err := v.decode(output)
	if err != nil || doc == nil {
		return err
	}
	all := make(columns)
	all.add("", doc, v.Open)
	name, _, _ := strings.Cut(command, " with ")
	for _, key := range all.keys() {
		if at, found := slices.BinarySearch(f.Keys[name], key); !found {
			f.Keys[name] = slices.Insert(f.Keys[name], at, key)
		}
	}
	if rows, ok := doc.([]any); ok && v.Group != nil {
		all = make(columns)
		all.add("", groupRows(rows, v.Group), nil)
	}
	for path, at := range all {
		switch {
		case len(at.values) == 0:
		case slices.Contains(v.Prose, path):
			a[path+" count"] = json.Number(strconv.Itoa(len(at.values)))
		case belowAny(path, v.Keep) && !belowAny(path, v.Drop):
			a.record(path, at.values)
		}
	}
	return nil
}

// decode returns nil if nothing was printed.
func (v *View) decode(output string) (any, error) {
	switch v.Form {
	case CSV:
		rows, err := decodeCSV(output)
		return rows, err
	case Lines:
		rows, err := decodeLines(output)
		return rows, err
	case Object:
		docs, err := decodeLines(output)
		if err != nil || len(docs) == 0 {
			return nil, err
		}
		if len(docs) > 1 {
			return nil, fmt.Errorf("%d JSON documents, want 1", len(docs))
		}
		return docs[0], nil
	}
	return nil, nil
}
