// Package contract records the output of commands for known jobs, and compares
// it with earlier records. It is for tests.
package contract

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// File is the content of a file in testdata/contract for one corpus.
type File struct {
	// Keys has the path and type of every key that a command printed for any job.
	Keys map[string][]string
	// Jobs has the answers, by job and command.
	Jobs map[string]map[string]Answer
}

// NewFile returns an empty record.
func NewFile() *File {
	return &File{Keys: make(map[string][]string), Jobs: make(map[string]map[string]Answer)}
}

// Answer is the output of one command for one job, by path: a scalar, or a list
// of the scalars of all elements of the arrays on the path. Numbers are
// json.Number. "exit" is the exit status.
type Answer map[string]any

// columns are the values of a JSON document by path. An array adds [] to the
// path, and each of its elements a value to the columns below. An object or
// array without elements has its own path with {} or [].
type columns map[string]*column

type column struct {
	values []any
	types  [numTypes]bool
}

const (
	typeString = iota
	typeNumber
	typeBool
	typeNull
	typeObject
	typeArray
	numTypes
)

var typeNames = [numTypes]string{"string", "number", "bool", "null", "{}", "[]"}

// add walks a document. The keys of the maps named in open are data, and become
// one path.
func (c columns) add(path string, v any, open []string) {
	kind := typeString
	switch v := v.(type) {
	case map[string]any:
		data := slices.Contains(open, path)
		for _, key := range slices.Sorted(maps.Keys(v)) {
			at := key
			if data || isNumeral(key) {
				at = "*"
			}
			if path != "" {
				at = path + "." + at
			}
			c.add(at, v[key], open)
		}
		if len(v) > 0 {
			return
		}
		kind = typeObject
	case []any:
		for _, element := range v {
			c.add(path+"[]", element, open)
		}
		if len(v) > 0 {
			return
		}
		kind = typeArray
	case json.Number:
		kind = typeNumber
	case bool:
		kind = typeBool
	case nil:
		kind = typeNull
	}
	at := c[path]
	if at == nil {
		at = new(column)
		c[path] = at
	}
	if at.types[kind] = true; kind < typeObject {
		at.values = append(at.values, v)
	}
}

// keys returns each path with each of its types.
func (c columns) keys() []string {
	var out []string
	for path, at := range c {
		for kind, has := range at.types {
			if has {
				out = append(out, path+" "+typeNames[kind])
			}
		}
	}
	return out
}

// isNumeral reports whether a key of a map is a rank's number: all numbers
// count as one key.
func isNumeral(key string) bool {
	return key != "" && strings.Trim(strings.TrimPrefix(key, "-"), "0123456789") == ""
}

// decodeLines decodes successive JSON documents.
func decodeLines(text string) ([]any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var rows []any
	for {
		var row any
		if err := d.Decode(&row); errors.Is(err, io.EOF) {
			return rows, nil
		} else if err != nil {
			return rows, err
		}
		rows = append(rows, row)
	}
}

// decodeCSV decodes a table with a header; numeric fields become numbers.
func decodeCSV(text string) ([]any, error) {
	all, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(all) == 0 {
		return nil, err
	}
	var rows []any
	for _, fields := range all[1:] {
		row := make(map[string]any)
		for i, field := range fields {
			if row[all[0][i]] = field; field == "" {
				row[all[0][i]] = nil
			} else if _, err := strconv.ParseFloat(field, 64); err == nil {
				row[all[0][i]] = json.Number(field)
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// groupRows merges all rows that agree in some keys into one: those keys, the
// number of rows, and the sum of each number that is a time or a size.
func groupRows(rows []any, by []string) []any {
	type group struct {
		first map[string]any
		rows  int
		all   columns
	}
	groups := make(map[string]*group)
	for _, row := range rows {
		fields, _ := row.(map[string]any)
		id := ""
		for _, key := range by {
			id += fmt.Sprintf("%v\x00", fields[key])
		}
		g := groups[id]
		if g == nil {
			g = &group{first: fields, all: make(columns)}
			groups[id] = g
		}
		g.rows++
		for key, v := range fields {
			if isMeasured(key) {
				g.all.add(key, v, nil)
			}
		}
	}
	var out []any
	for _, id := range slices.Sorted(maps.Keys(groups)) {
		g := groups[id]
		row := map[string]any{"rows": json.Number(strconv.Itoa(g.rows))}
		for _, key := range by {
			row[key] = g.first[key]
		}
		for path, at := range g.all {
			if n := numbers(at.values); len(n) > 0 && !isDate(n[0]) {
				row[path] = sum(n)
			}
		}
		out = append(out, row)
	}
	return out
}

func numbers(values []any) []json.Number {
	var out []json.Number
	for _, v := range values {
		if n, ok := v.(json.Number); ok {
			out = append(out, n)
		}
	}
	return out
}

// sum returns the sum of numbers, exact for integers.
func sum(numbers []json.Number) json.Number {
	whole, part := new(big.Int), 0.0
	point := false
	for _, n := range numbers {
		if i, err := n.Int64(); err == nil {
			whole.Add(whole, big.NewInt(i))
			continue
		}
		f, err := n.Float64()
		if err != nil {
			panic(err)
		}
		part, point = part+f, true
	}
	if !point {
		return json.Number(whole.String())
	}
	f, _ := new(big.Float).SetInt(whole).Float64()
	return json.Number(strconv.FormatFloat(f+part, 'g', -1, 64))
}

// placed returns the sum of the numbers, each times its position.
func placed(numbers []json.Number) json.Number {
	var total float64
	for i, n := range numbers {
		f, err := n.Float64()
		if err != nil {
			panic(err)
		}
		total += f * float64(i+1)
	}
	return json.Number(strconv.FormatFloat(total, 'g', -1, 64))
}

// listed is how many values of a column are recorded individually. For a longer
// column the sum is recorded, and the sum of each value times its position,
// which changes if two are swapped.
const listed = 40

// record adds a column to an Answer.
func (a Answer) record(path string, values []any) {
	if !strings.ContainsAny(path, "[*") && len(values) == 1 {
		a[path] = shortened(values[0])
		return
	}
	if len(values) <= listed {
		list := make([]any, len(values))
		for i, v := range values {
			list[i] = shortened(v)
		}
		a[path] = list
		return
	}
	a[path+" count"] = json.Number(strconv.Itoa(len(values)))
	figures := numbers(values)
	if len(figures) > 0 {
		a[path+" sum"], a[path+" placed"] = shortened(sum(figures)), shortened(placed(figures))
	}
	if len(figures) < len(values) {
		text := fnv.New32a()
		for _, v := range values {
			fmt.Fprintf(text, "%v\x00", v)
		}
		a[path+" hash"] = fmt.Sprintf("%08x", text.Sum32())
	}
}

// shortened returns a number with a decimal point with six significant digits.
func shortened(v any) any {
	n, ok := v.(json.Number)
	if !ok || !strings.ContainsAny(n.String(), ".eE") {
		return v
	}
	f, err := n.Float64()
	if err != nil {
		return v
	}
	if math.Abs(f) < 1e-9 { // a rounding error of a difference
		f = 0
	}
	return json.Number(strconv.FormatFloat(f, 'g', 6, 64))
}

// units are the ends of keys of measured values; other integers are counts and
// numbers.
var units = []string{"ns", "us", "ms", "s", "sec", "bytes", "share"}

// isMeasured reports whether a key of a path ends with a unit.
func isMeasured(path string) bool {
	for key := range strings.SplitSeq(path, ".") {
		key, _, _ = strings.Cut(key, " ")
		key = strings.TrimSuffix(key, "[]")
		if slices.Contains(units, key[strings.LastIndexByte(key, '_')+1:]) {
			return true
		}
	}
	return false
}

// isDate reports whether a number is a time since 1970 in microseconds or
// nanoseconds.
func isDate(n json.Number) bool {
	i, err := n.Int64()
	return err == nil && i >= 1e15
}

// tolerance is the relative difference that a measured value may have: half of
// what must be noticed.
const tolerance = 0.0005

// sameScalar reports whether two scalars of a path are the same.
func sameScalar(path string, got, want any) bool {
	g, ok := got.(json.Number)
	w, also := want.(json.Number)
	if !ok || !also {
		return got == want
	}
	if g == w {
		return true
	}
	point := strings.ContainsAny(g.String(), ".eE") || strings.ContainsAny(w.String(), ".eE")
	if !point && (!isMeasured(path) || isDate(g) || isDate(w)) {
		return false
	}
	a, errA := g.Float64()
	b, errB := w.Float64()
	return errA == nil && errB == nil && math.Abs(a-b) <= tolerance*math.Max(math.Abs(a), math.Abs(b))
}

// Difference is one difference from the record.
type Difference struct{ Job, Command, Path, Got, Want string }

func (d Difference) String() string {
	return fmt.Sprintf("%s: %s: %s = %s, want %s", d.Job, d.Command, d.Path, d.Got, d.Want)
}

const absent = "(absent)"

// compareValues compares the values at one path; nil means that the path does
// not exist.
func compareValues(d Difference, got, want any) []Difference {
	g, ok := got.([]any)
	w, also := want.([]any)
	switch {
	case ok && also && len(g) == len(w):
		var out []Difference
		for i := range g {
			if !sameScalar(d.Path, g[i], w[i]) {
				at := d
				at.Path, at.Got, at.Want = fmt.Sprintf("%s at %d", d.Path, i), show(g[i]), show(w[i])
				out = append(out, at)
			}
		}
		return out
	case ok || also || !sameScalar(d.Path, got, want):
		d.Got, d.Want = show(got), show(want)
		return []Difference{d}
	}
	return nil
}

// missing stands for a value that one side does not have, because null is a
// value.
type missing struct{}

func show(v any) string {
	if v == (missing{}) {
		return absent
	}
	text := inJSON(v)
	if len(text) > 120 {
		text = text[:120] + "..."
	}
	return text
}

// unionKeys returns the sorted keys of two maps.
func unionKeys[V any](a, b map[string]V) []string {
	all := make(map[string]bool)
	for _, m := range []map[string]V{a, b} {
		for key := range m {
			all[key] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func either(a Answer, path string) any {
	if v, ok := a[path]; ok {
		return v
	}
	return missing{}
}

// Compare returns the differences of a corpus from the record, keys first. For
// a part of a corpus only its jobs are compared, and keys may be missing.
func Compare(got, want *File, part bool) []Difference {
	var out []Difference
	for _, command := range unionKeys(got.Keys, want.Keys) {
		g, w := got.Keys[command], want.Keys[command]
		for _, key := range w {
			if !part && !slices.Contains(g, key) {
				out = append(out, Difference{"all jobs", command, "key " + key, absent, "present"})
			}
		}
		for _, key := range g {
			if !slices.Contains(w, key) {
				out = append(out, Difference{"all jobs", command, "key " + key, "present", absent})
			}
		}
	}
	for _, job := range unionKeys(got.Jobs, want.Jobs) {
		if part && got.Jobs[job] == nil {
			continue
		}
		for _, command := range unionKeys(got.Jobs[job], want.Jobs[job]) {
			g, w := got.Jobs[job][command], want.Jobs[job][command]
			for _, path := range unionKeys(g, w) {
				out = append(out, compareValues(Difference{Job: job, Command: command, Path: path}, either(g, path), either(w, path))...)
			}
		}
	}
	return out
}

// Keep replaces values that are equal within the tolerance by the recorded
// ones, so that a new record differs only in what changed.
func (f *File) Keep(recorded *File) {
	for job, commands := range f.Jobs {
		for command, a := range commands {
			for path, v := range a {
				if w, ok := recorded.Jobs[job][command][path]; ok && len(compareValues(Difference{Path: path}, v, w)) == 0 {
					a[path] = w
				}
			}
		}
	}
}

// Decode decodes a file of testdata/contract.
func Decode(data []byte) (*File, error) {
	f := new(File)
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return f, d.Decode(f)
}

// Encode returns a sorted line for each key and each value, so that a changed
// Answer is a changed line.
func (f *File) Encode() []byte {
	var out bytes.Buffer
	out.WriteString("{\n \"Keys\": {")
	for i, command := range slices.Sorted(maps.Keys(f.Keys)) {
		fmt.Fprintf(&out, "%s\n  %q: [", comma(i), command)
		for k, key := range f.Keys[command] {
			fmt.Fprintf(&out, "%s\n   %s", comma(k), inJSON(key))
		}
		out.WriteString("]")
	}
	out.WriteString("},\n \"Jobs\": {")
	for i, job := range slices.Sorted(maps.Keys(f.Jobs)) {
		fmt.Fprintf(&out, "%s\n  %s: {", comma(i), inJSON(job))
		for k, command := range slices.Sorted(maps.Keys(f.Jobs[job])) {
			fmt.Fprintf(&out, "%s\n   %s: {", comma(k), inJSON(command))
			a := f.Jobs[job][command]
			for n, path := range slices.Sorted(maps.Keys(a)) {
				fmt.Fprintf(&out, "%s\n    %s: %s", comma(n), inJSON(path), inJSON(a[path]))
			}
			out.WriteString("}")
		}
		out.WriteString("}")
	}
	out.WriteString("}}\n")
	return out.Bytes()
}

func comma(i int) string {
	if i == 0 {
		return ""
	}
	return ","
}

// inJSON encodes scalars and lists of scalars.
func inJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}
