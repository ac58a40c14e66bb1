package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

func share(part, all int) float64 {
	if all == 0 {
		return 0
	}
	return 100 * float64(part) / float64(all)
}

// printHouse prints a line for each package and the totals.
func printHouse(w io.Writer, h *house) {
	slices.SortFunc(h.packages, func(a, b *facts) int { return strings.Compare(a.path, b.path) })
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "package\tfiles\tlines\tcode\tnames\tusers\tsignature\tsiblings\tinterface\ttests\town\tnobody\tarcs\tback\t%\tlargest type\t")
	var files, lines, code, public, names, arcs, back int
	var byUse [uses]int
	for _, f := range h.packages {
		l, c := f.lines()
		files, lines, code, arcs, back = files+len(f.files), lines+l, code+c, arcs+f.arcs, back+len(f.back)
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t", f.path, len(f.files), l, c)
		if f.public {
			public++
			names += len(f.names)
			fmt.Fprintf(table, "%d\t", len(f.names))
			for u, n := range f.byUse {
				byUse[u] += n
				fmt.Fprintf(table, "%d\t", n)
			}
		} else {
			fmt.Fprint(table, "\t\t\t\t\t\t\t\t")
		}
		largest := ""
		if len(f.types) > 0 {
			largest = fmt.Sprintf("%s %d/%d", f.types[0].name, f.types[0].fields, f.types[0].methods)
		}
		fmt.Fprintf(table, "%d\t%d\t%.0f\t%s\t\n", f.arcs, len(f.back), share(len(f.back), f.arcs), largest)
	}
	fmt.Fprintf(table, "%d packages, %d public\t%d\t%d\t%d\t%d\t", len(h.packages), public, files, lines, code, names)
	for _, n := range byUse {
		fmt.Fprintf(table, "%d\t", n)
	}
	fmt.Fprintf(table, "%d\t%d\t%.1f\t\t\n", arcs, back, share(back, arcs))
	table.Flush() //nolint:errcheck // of a terminal
	fmt.Fprintf(w, "\nfields/methods over %d:\n", most)
	for _, f := range h.packages {
		for _, t := range f.types {
			if max(t.fields, t.methods) > most {
				fmt.Fprintf(w, "  %s.%s %d/%d\n", f.path, t.name, t.fields, t.methods)
			}
		}
	}
	fmt.Fprintf(w, "\nfiles over %d lines:\n", longest)
	for _, f := range h.packages {
		for _, file := range f.files {
			if file.lines > longest {
				fmt.Fprintf(w, "  %s %d\n", file.name, file.lines)
			}
		}
	}
	fmt.Fprintln(w, "\npackages with the most names that only siblings use:")
	for _, f := range h.siblings(10) {
		fmt.Fprintf(w, "  %s %d: %s\n", f.path, f.byUse[bySibling], strings.Join(f.used(bySibling, 6), " "))
	}
}

// siblings returns the packages with the most names that only siblings use.
func (h *house) siblings(n int) []*facts {
	list := slices.Clone(h.packages)
	slices.SortStableFunc(list, func(a, b *facts) int { return b.byUse[bySibling] - a.byUse[bySibling] })
	list = list[:min(n, len(list))]
	return slices.DeleteFunc(list, func(f *facts) bool { return f.byUse[bySibling] == 0 })
}

// used returns names of one kind, at most so many.
func (f *facts) used(u use, limit int) (list []string) {
	for _, n := range f.names {
		if n.use == u {
			if len(list) == limit {
				return append(list, "…")
			}
			list = append(list, n.key)
		}
	}
	return list
}

// printPackage prints one package in detail.
func printPackage(w io.Writer, f *facts) {
	lines, code := f.lines()
	fmt.Fprintf(w, "%s: %d files, %d lines, %d of code, %d exported names\n", f.path, len(f.files), lines, code, len(f.names))
	for _, file := range f.files {
		if file.lines > longest {
			fmt.Fprintf(w, "  %s has %d lines\n", file.name, file.lines)
		}
	}
	fmt.Fprintln(w, "largest types (fields/methods, files with methods):")
	for i, t := range f.types {
		if i < 3 || max(t.fields, t.methods) > most*3/5 {
			fmt.Fprintf(w, "  %s %d/%d, %d\n", t.name, t.fields, t.methods, t.files)
		}
	}
	fmt.Fprintf(w, "backward: %d of %d arcs, %.1f %%\n", len(f.back), f.arcs, share(len(f.back), f.arcs))
	for _, a := range f.back {
		fmt.Fprintf(w, "  %s uses of the later %s: %s\n", a.from, a.to, strings.Join(a.names, " "))
	}
}

func printNames(w io.Writer, f *facts) {
	for u := range uses {
		if list := f.used(u, len(f.names)); len(list) > 0 {
			fmt.Fprintf(w, "%s (%d): %s\n", useNames[u], len(list), strings.Join(list, " "))
		}
	}
}
