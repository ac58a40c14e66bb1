package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/stats"
)

var sortWords = []string{"self", "total", "count", "mean", "p99", "name"}

// sortOrders sort the names of a summary, largest first. They come sorted by
// self time, which decides between equals.
var sortOrders = map[string]func([]stats.NameStat){
	"self":  func([]stats.NameStat) {},
	"total": descending(func(s *stats.NameStat) float64 { return float64(s.Total) }),
	"count": descending(func(s *stats.NameStat) float64 { return float64(s.Count) }),
	"mean":  descending(func(s *stats.NameStat) float64 { return s.Mean }),
	"p99":   descending(func(s *stats.NameStat) float64 { return float64(s.P99) }),
	"name": func(list []stats.NameStat) {
		slices.SortStableFunc(list, func(a, b stats.NameStat) int {
			return cmp.Or(strings.Compare(a.Category, b.Category), strings.Compare(a.Name, b.Name))
		})
	},
}

func descending(value func(*stats.NameStat) float64) func([]stats.NameStat) {
	return func(list []stats.NameStat) {
		slices.SortStableFunc(list, func(a, b stats.NameStat) int { return cmp.Compare(value(&b), value(&a)) })
	}
}
