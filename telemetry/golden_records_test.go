package telemetry_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/spans"
)

// record is a parsed line of a file.
type record struct {
	text   string
	kind   string
	span   string // name of the span, if this or an earlier line has it
	event  string
	count  int
	fields []field
}

// field is a leaf of a record: its path and its text, as written.
type field struct{ path, text string }

func (r *record) get(path string) string {
	for _, f := range r.fields {
		if f.path == path {
			return f.text
		}
	}
	return ""
}

// bare matches the words that Python writes and JSON does not have.
var bare = regexp.MustCompile(`([:\[,])(-?(?:NaN|Infinity))\b`)

func parseRecords(t *testing.T, text string) []*record {
	t.Helper()
	var out []*record
	names := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		r := &record{text: line}
		d := json.NewDecoder(bytes.NewReader([]byte(bare.ReplaceAllString(line, `$1"$2"`))))
		d.UseNumber()
		v, err := leaves(d, "", &r.fields)
		if err != nil {
			t.Fatalf("line %d is not JSON: %v: %s", len(out)+1, err, line)
		}
		_ = v
		r.kind = strings.Trim(r.get("type"), `"`)
		r.event = strings.Trim(r.get("event.name")+r.get("error.name"), `"`)
		if name := strings.Trim(r.get("name"), `"`); name != "" {
			names[r.get("id")] = name
		}
		r.span = names[r.get("id")+r.get("span_id")]
		_, _ = fmt.Sscan(r.get("count"), &r.count)
		out = append(out, r)
	}
	return out
}

// leaves returns the leaves of a JSON value in order. Lists are leaves.
func leaves(d *json.Decoder, path string, out *[]field) (any, error) {
	tok, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch tok {
	case json.Delim('{'):
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			at := key.(string)
			if path != "" {
				at = path + "." + at
			}
			if _, err := leaves(d, at, out); err != nil {
				return nil, err
			}
		}
		_, err := d.Token()
		return nil, err
	case json.Delim('['):
		var items []string
		for d.More() {
			var in []field
			if _, err := leaves(d, "", &in); err != nil {
				return nil, err
			}
			for _, f := range in {
				items = append(items, f.text)
			}
		}
		_, err := d.Token()
		*out = append(*out, field{path, "[" + strings.Join(items, ",") + "]"})
		return nil, err
	}
	text := fmt.Sprint(tok)
	if s, ok := tok.(string); ok {
		text = fmt.Sprintf("%q", s)
	}
	if tok == nil {
		text = "null"
	}
	*out = append(*out, field{path, text})
	return nil, nil
}

// pair is a recorded record and its counterpart, or one of them alone.
type pair struct{ want, got *record }

// alike reports whether two records are about the same thing. A start and a
// complete record are not; neither are spans with different names, and
// successes of different checkpoints.
func alike(a, b *record) bool {
	return a.kind == b.kind && a.span == b.span && a.event == b.event &&
		(a.event != spans.EventSaveCheckpointSuccess ||
			a.get("event.attributes.current_iteration") == b.get("event.attributes.current_iteration"))
}

// align finds the longest common subsequence of like records.
func align(want, got []*record) []pair {
	n, m := len(want), len(got)
	best := make([][]int, n+1)
	for i := range best {
		best[i] = make([]int, m+1)
	}
	score := func(i, j int) int {
		if !alike(want[i], got[j]) {
			return 0
		}
		same := 2
		if want[i].stripped() == got[j].stripped() {
			same = 3
		}
		return same
	}
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			best[i][j] = max(best[i+1][j], best[i][j+1])
			if s := score(i, j); s > 0 {
				best[i][j] = max(best[i][j], s+best[i+1][j+1])
			}
		}
	}
	var out []pair
	i, j := 0, 0
	for i < n && j < m {
		s := score(i, j)
		switch {
		case s > 0 && best[i][j] == s+best[i+1][j+1]:
			out = append(out, pair{want[i], got[j]})
			i, j = i+1, j+1
		case best[i][j] == best[i+1][j]:
			out = append(out, pair{want: want[i]})
			i++
		default:
			out = append(out, pair{got: got[j]})
			j++
		}
	}
	for ; i < n; i++ {
		out = append(out, pair{want: want[i]})
	}
	for ; j < m; j++ {
		out = append(out, pair{got: got[j]})
	}
	return out
}

var countField = regexp.MustCompile(`"count":\d+`)

// stripped returns the record without its number.
func (r *record) stripped() string { return countField.ReplaceAllString(r.text, "") }
