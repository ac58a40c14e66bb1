package main

import (
	"fmt"
	"strings"
)

// most is how many fields and how many methods a type should have at most, longest
// how many lines a file.
const (
	most    = 25
	longest = 500
)

// limit is what holds at the moment. It goes down as the house gets smaller, and never
// up; beside it stands where it is to go.
type limit struct{ now, goal int }

var (
	exportedNames = limit{now: 883, goal: 1000} // of public packages
	siblingNames  = limit{now: 95, goal: 100}   // of these, used by other packages of the product alone
	publicDoors   = limit{now: 25, goal: 25}
	longFiles     = limit{now: 0, goal: 0}
)

// backwardShare is the percentage of the pairs of files of a package that may run
// backwards. One pair may in any package, however few it has.
const backwardShare = 8

// large are the types with more fields or methods than most.
var large = map[string]typ{
	// These mirror what is outside, one field or method for each: they stay.
	"callbacks.Callbacks":                    {fields: 1, methods: 45},  // the callbacks that training loops know
	"integrations/pytorch.FileReport":        {fields: 46, methods: 6},  // the keys of import --json
	"internal/grammar.TrainingMetricsUpdate": {fields: 30, methods: 1},  // an attribute set
	"internal/rundir.Run":                    {fields: 44, methods: 5},  // the keys of run.json
	"telemetry.TrainingTelemetryBuilder":     {fields: 20, methods: 25}, // one method for each setting
}

// exceeded says what is over its limit, and which limits can go down.
func (h *house) exceeded() (over []string) {
	var names, doors, long int
	for _, f := range h.packages {
		over = append(over, f.exceeded()...)
		if f.public {
			doors++
			names += len(f.names)
		}
		for _, file := range f.files {
			if file.lines > longest {
				long++
			}
		}
	}
	siblings := 0
	for _, f := range h.packages {
		siblings += f.byUse[bySibling]
	}
	check := func(what string, n int, l limit) {
		if n > l.now {
			over = append(over, fmt.Sprintf("%d %s, the limit is %d, the goal %d", n, what, l.now, l.goal))
		}
	}
	check("exported names in public packages", names, exportedNames)
	check("exported names that only siblings use", siblings, siblingNames)
	check("public packages", doors, publicDoors)
	check(fmt.Sprintf("files over %d lines", longest), long, longFiles)
	return over
}

func (f *facts) exceeded() (over []string) {
	allowed := max(1, f.arcs*backwardShare/100)
	if len(f.back) > allowed {
		over = append(over, fmt.Sprintf("%s: %d of %d pairs of files run backwards, the limit is %d", f.path, len(f.back), f.arcs, allowed))
	}
	for _, t := range f.types {
		l := large[f.path+"."+t.name]
		if t.fields > max(most, l.fields) || t.methods > max(most, l.methods) {
			over = append(over, fmt.Sprintf("%s.%s: %d fields and %d methods, the limit is %d and %d", f.path, t.name, t.fields, t.methods,
				max(most, l.fields), max(most, l.methods)))
		}
	}
	return over
}

// slack lists the exceptions that are not needed any more, or not as far.
func (h *house) slack() (list []string) {
	byPath := make(map[string]*facts)
	for _, f := range h.packages {
		byPath[f.path] = f
	}
	for what, l := range large {
		at := strings.LastIndexByte(what, '.')
		found := false
		if f := byPath[what[:at]]; f != nil {
			for _, t := range f.types {
				if t.name == what[at+1:] {
					found = t.fields == l.fields && t.methods == l.methods
				}
			}
		}
		if !found {
			list = append(list, what+" is smaller than its limit")
		}
	}
	return list
}
