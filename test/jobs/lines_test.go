package jobs_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	linePID  = regexp.MustCompile(`"pid":\d+`)
	lineRank = regexp.MustCompile(`"rank":(\d+)`)
	linePair = regexp.MustCompile(`"([a-z_]+)":("(?:[^"\\]|\\.)*"|-?[0-9][-+.0-9eE]*|\[[^]]*\]|true|false)`)
)

// lines writes the content of JSON lines files, by rank. The order of the keys
// counts.
func (f *form) lines(b *strings.Builder, paths []string) error {
	type text struct {
		rank  int64
		label string
		lines []string
	}
	var all []text
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		t := text{rank: -1, lines: strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")}
		if f.noHost { // the name of the file is from the script
			t.label, _, _ = strings.Cut(" "+filepath.Base(path), ".")
		}
		if m := lineRank.FindSubmatch(data); m != nil {
			t.rank = number(string(m[1]))
		}
		all = append(all, t)
	}
	slices.SortStableFunc(all, func(a, b text) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.label, b.label), cmp.Compare(len(a.lines), len(b.lines)))
	})
	for _, t := range all {
		fmt.Fprintln(b, "lines"+t.label)
		for _, line := range t.lines {
			line = linePID.ReplaceAllString(line, `"pid":PID`)
			line = linePair.ReplaceAllStringFunc(line, func(pair string) string {
				if key, _, _ := strings.Cut(pair[1:], `"`); f.hides(key) {
					return `"` + key + `":HIDDEN`
				}
				return pair
			})
			fmt.Fprintln(b, " ", f.ids(line))
		}
	}
	return nil
}
