package torchrules

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// Table has both tables of rules: which annotations and operators become AI
// events, and the kinds of kernels.
type Table struct {
	Rows    []Rule
	Kernels []DeviceRule
}

// Parse reads rules, one per line:
//
//	annotation compute.forward  ^my_forward$
//	operator   compute.gemm     ^mylib::gemm
//	annotation none             ^forward_hooks$
//	kernel     comm.all_reduce  ^mylib::ring_reduce
//	kernel     copy             ^mylib::stage
//
// The second word is the category and the name of the event, or the class of a
// kernel (compute, comm, copy) with the collective; the rest of the line is a
// regular expression. A named group, (?P<optimizer>.+), becomes an argument.
// Empty lines and lines that begin with # are ignored.
func Parse(r io.Reader) (Table, error) {
	var t Table
	s := bufio.NewScanner(r)
	for n := 1; s.Scan(); n++ {
		line := strings.TrimSpace(s.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if err := t.add(line); err != nil {
			return Table{}, fmt.Errorf("pytorch: rules, line %d: %w", n, err)
		}
	}
	if err := s.Err(); err != nil {
		return Table{}, fmt.Errorf("pytorch: rules: %w", err)
	}
	return t, nil
}

func (t *Table) add(line string) error {
	kind, rest := nextWord(line)
	what, pattern := nextWord(rest)
	if pattern == "" {
		return fmt.Errorf("%q: write a kind (annotation, operator or kernel), its meaning, and a regular expression", line)
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	cat, name, _ := strings.Cut(what, ".")
	switch kind {
	case "kernel":
		if slices.Contains(Classes[:], cat) && (name == "" || cat == Classes[1]) {
			t.Kernels = append(t.Kernels, DeviceRule{Pattern: pattern, Class: cat, Op: name})
			return nil
		}
		return fmt.Errorf("%q: the meaning of a kernel is compute, copy, comm, or comm with a collective, such as comm.all_reduce", what)
	case "annotation", "operator":
		rule := Rule{Pattern: pattern, Ops: kind == "operator", Cat: cat, Name: name, Outermost: true}
		if what == "none" {
			rule.Cat = ""
		} else if name == "" {
			return fmt.Errorf("%q: write category and name, such as compute.forward, or none", what)
		}
		for _, group := range re.SubexpNames() {
			if group != "" {
				rule.Arg = group
				break
			}
		}
		t.Rows = append(t.Rows, rule)
		return nil
	}
	return fmt.Errorf("%q: a rule must begin with annotation, operator or kernel", kind)
}

func nextWord(s string) (word, rest string) {
	s = strings.TrimSpace(s)
	if i := strings.IndexAny(s, " \t"); i >= 0 {
		return s[:i], strings.TrimSpace(s[i:])
	}
	return s, ""
}

// WriteTo writes the rules in the form that Parse reads.
func (t Table) WriteTo(w io.Writer) (int64, error) {
	var b strings.Builder
	for _, r := range t.Rows {
		kind, what := "annotation", "none"
		if r.Ops {
			kind = "operator"
		}
		if r.Name != "" {
			what = r.Cat + "." + r.Name
		}
		fmt.Fprintf(&b, "%-10s  %-22s  %s\n", kind, what, r.Pattern)
	}
	for _, r := range t.Kernels {
		what := r.Class
		if r.Op != "" {
			what += "." + r.Op
		}
		fmt.Fprintf(&b, "%-10s  %-22s  %s\n", "kernel", what, r.Pattern)
	}
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}
