package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Problem is one thing that is wrong in a configuration.
type Problem struct {
	// Field is the key of the setting, as in a file: "training.seq_length".
	Field string
	// Value is what was found there; nil when nothing was given.
	Value any
	// Message says what is wrong with it.
	Message string
	// Where is the place of the setting: "job.yaml:12:3", or the name of an
	// environment variable. It is empty for a setting made in code.
	Where string
}

// String writes the problem in one line: place, field, message, value.
func (p Problem) String() string {
	var b strings.Builder
	if p.Where != "" {
		b.WriteString(p.Where + ": ")
	}
	if p.Field != "" {
		b.WriteString(p.Field + ": ")
	}
	b.WriteString(p.Message)
	if p.Value != nil {
		b.WriteString(" (got " + showValue(p.Value) + ")")
	}
	return b.String()
}

// ValidationError is the error of a configuration that cannot be used. It holds
// every problem found, not only the first.
type ValidationError struct {
	// Problems are in the order in which they were found, and never empty.
	Problems []Problem
}

// Error writes one problem per line.
func (e *ValidationError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	if len(lines) == 1 {
		return "config: " + lines[0]
	}
	return fmt.Sprintf("config: %d problems:\n  %s", len(lines), strings.Join(lines, "\n  "))
}

// longestShown keeps a message readable when a whole document stands where a
// number was meant.
const longestShown = 200

func showValue(v any) string {
	var s string
	switch x := v.(type) {
	case string:
		s = strconv.Quote(x)
	case error:
		s = strconv.Quote(x.Error())
	case bool:
		s = strconv.FormatBool(x)
	default:
		if reflect.TypeOf(v).Kind() == reflect.Func {
			return "a function"
		}
		s = string(appendPyRepr(nil, v))
	}
	if len(s) > longestShown {
		s = strings.ToValidUTF8(s[:longestShown], "") + "…"
	}
	return s
}

// problems collects what is wrong, field by field.
type problems struct {
	list []Problem
}

func (p *problems) add(field string, value any, format string, args ...any) {
	p.list = append(p.list, Problem{Field: field, Value: value, Message: fmt.Sprintf(format, args...)})
}

// warn notes something about a variable.
func (p *problems) warn(variable string, value any, format string, args ...any) {
	p.add("", value, format, args...)
	p.list[len(p.list)-1].Where = variable
}

func (p *problems) err() error {
	if len(p.list) == 0 {
		return nil
	}
	return &ValidationError{Problems: p.list}
}
