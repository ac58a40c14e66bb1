package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/summary"
)

var sortWords = []string{"self", "total", "count", "mean", "p99", "name"}

// sortOrders sort the names of a summary, largest first. They come sorted by
// self time, which decides between equals.
var sortOrders = map[string]func([]summary.NameStat){
	"self":  func([]summary.NameStat) {},
	"total": descending(func(s *summary.NameStat) float64 { return float64(s.Total) }),
	"count": descending(func(s *summary.NameStat) float64 { return float64(s.Count) }),
	"mean":  descending(func(s *summary.NameStat) float64 { return s.Mean }),
	"p99":   descending(func(s *summary.NameStat) float64 { return float64(s.P99) }),
	"name": func(list []summary.NameStat) {
		slices.SortStableFunc(list, func(a, b summary.NameStat) int {
			return cmp.Or(strings.Compare(a.Category, b.Category), strings.Compare(a.Name, b.Name))
		})
	},
}

func descending(value func(*summary.NameStat) float64) func([]summary.NameStat) {
	return func(list []summary.NameStat) {
		slices.SortStableFunc(list, func(a, b summary.NameStat) int { return cmp.Compare(value(&b), value(&a)) })
	}
}
