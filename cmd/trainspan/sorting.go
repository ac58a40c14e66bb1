package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/analyze/spanstats"
)

var sortWords = []string{"self", "total", "count", "mean", "p99", "name"}

// sortOrders sort the names of a summary, largest first. They come sorted by
// self time, which decides between equals.
var sortOrders = map[string]func([]spanstats.NameStat){
	"self":  func([]spanstats.NameStat) {},
	"total": descending(func(s *spanstats.NameStat) float64 { return float64(s.Total) }),
	"count": descending(func(s *spanstats.NameStat) float64 { return float64(s.Count) }),
	"mean":  descending(func(s *spanstats.NameStat) float64 { return s.Mean }),
	"p99":   descending(func(s *spanstats.NameStat) float64 { return float64(s.P99) }),
	"name": func(list []spanstats.NameStat) {
		slices.SortStableFunc(list, func(a, b spanstats.NameStat) int {
			return cmp.Or(strings.Compare(a.Category, b.Category), strings.Compare(a.Name, b.Name))
		})
	},
}

func descending(value func(*spanstats.NameStat) float64) func([]spanstats.NameStat) {
	return func(list []spanstats.NameStat) {
		slices.SortStableFunc(list, func(a, b spanstats.NameStat) int { return cmp.Compare(value(&b), value(&a)) })
	}
}
