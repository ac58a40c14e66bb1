package main

import (
	"strings"
)

// house is what is counted of all packages of the product.
type house struct {
	packages []*facts
}

// count loads all modules below root and counts.
func count(root string) (*house, error) {
	all, err := loadAll(root)
	if err != nil {
		return nil, err
	}
	h := &house{}
	shipped := make(map[string]bool)
	var doors []*facts
	for _, p := range product(all) {
		shipped[p.PkgPath] = true
		f := measure(root, p)
		h.packages = append(h.packages, f)
		if f.public {
			doors = append(doors, f)
		}
	}
	used := make(usage)
	for _, p := range all {
		used.collect(p, shipped)
	}
	if err := used.snippets(root, doors); err != nil {
		return nil, err
	}
	judge(all, doors, used)
	return h, nil
}

// find returns the package that a pattern such as ./exporters/pfw names.
func (h *house) find(pattern string) *facts {
	path := strings.TrimPrefix(pattern, "./")
	for _, f := range h.packages {
		if f.path == path || path == "." && f.path == "(root)" {
			return f
		}
	}
	return nil
}
