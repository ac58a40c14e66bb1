package jobs_test

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// event is one line of a trace file, read without the tested code.
type event struct {
	ID             int64
	Name, Cat, PH  string
	PID, TID       int64
	TS, Dur        int64
	Args           map[string]any
	parent         int64 // 0 for none
	level          int64 // 0 is unknown
	begun, noEnd   bool  // has a begin record; has no end record
	events         []*event
	children       []*event
	seen, isBroken bool
}

// trace is a trace file.
type trace struct {
	path   string
	meta   []*event // metadata about the process
	spans  []*event // roots, with their children below
	other  []*event // counters
	all    []*event // spans, in the order of their starts
	rank   string
	start  int64
	hashes map[string]string

	mainHost string // the hash of the host of most events
}

// readTrace reads a trace file.
func readTrace(path string) (*trace, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(path, ".gz") {
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		if data, err = io.ReadAll(z); err != nil {
			return nil, err
		}
	}
	t := &trace{path: path, hashes: make(map[string]string)}
	var lines []*event
	scan := bufio.NewScanner(bytes.NewReader(data))
	scan.Buffer(nil, 1<<24)
	for n := 1; scan.Scan(); n++ {
		text := strings.TrimSuffix(strings.TrimSpace(scan.Text()), ",")
		if text == "" || text == "[" || text == "]" {
			continue
		}
		e := new(event)
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if err := d.Decode(e); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w\n%s", path, n, err, text)
		}
		e.parent, e.level = max(number(e.Args["p_idx"]), 0), number(e.Args["level"])
		lines = append(lines, e)
	}
	if err := scan.Err(); err != nil {
		return nil, err
	}
	t.build(lines)
	return t, nil
}

func number(v any) int64 {
	n, _ := strconv.ParseInt(fmt.Sprint(v), 10, 64)
	return n
}

// build builds the tree of spans from the lines.
func (t *trace) build(lines []*event) {
	byID := make(map[int64]*event)
	var begins, notes []*event
	for _, e := range lines {
		name, value := fmt.Sprint(e.Args["name"]), fmt.Sprint(e.Args["value"])
		switch {
		case e.PH == "X":
			byID[e.ID] = e
			t.all = append(t.all, e)
		case e.PH == "C":
			t.other = append(t.other, e)
		case e.Name == "HH" || e.Name == "FH" || e.Name == "SH":
			t.hashes[value] = name
		case e.Name == "CM" && name == "span.begin":
			begins = append(begins, e)
		case e.Name == "CM" && (e.parent > 0 || e.Args["span"] != nil):
			notes = append(notes, e)
		case e.Name == "CM" && name == "heartbeat" || e.Name == "thread_name":
		default:
			if e.Name == "PR" && name == "rank" {
				t.rank = value
			}
			t.meta = append(t.meta, e)
		}
	}
	for _, b := range begins {
		id := number(b.Args["begin_id"])
		if e := byID[id]; e != nil {
			e.begun = true
			continue
		}
		e := &event{
			ID: id, Name: fmt.Sprint(b.Args["value"]), Cat: fmt.Sprint(b.Args["begin_cat"]), PH: "X", PID: b.PID, TID: b.TID,
			TS: number(b.Args["begin_ts"]), Args: b.Args, parent: b.parent, level: b.level, begun: true, noEnd: true,
		}
		byID[id] = e
		t.all = append(t.all, e)
	}
	slices.SortStableFunc(t.all, compareEvents)
	for _, n := range notes {
		of := number(n.Args["span"])
		if of == 0 {
			of = n.parent
		}
		if e := byID[of]; e != nil {
			e.events = append(e.events, n)
		} else {
			t.meta = append(t.meta, n)
		}
	}
	for i, e := range t.all {
		if i == 0 || e.TS < t.start {
			t.start = e.TS
		}
		if p := byID[e.parent]; p != nil && p != e {
			p.children = append(p.children, e)
		} else {
			e.isBroken = e.parent > 0
			t.spans = append(t.spans, e)
		}
	}
}

func compareEvents(a, b *event) int {
	return cmp.Or(cmp.Compare(a.TS, b.TS), cmp.Compare(b.Dur, a.Dur), cmp.Compare(a.level, b.level), cmp.Compare(a.Cat, b.Cat), cmp.Compare(a.Name, b.Name),
		cmp.Compare(plainArgs(a.Args), plainArgs(b.Args)), cmp.Compare(a.ID, b.ID))
}

// plainArgs returns a sort key for events with equal times: arguments that are
// the same in each run.
func plainArgs(args map[string]any) string {
	var b strings.Builder
	for _, k := range sortedKeys(args) {
		switch k {
		case "hhash", "p_idx", "level", "written_ts", "span_id", "trace_id":
		default:
			fmt.Fprint(&b, k, "=", args[k], " ")
		}
	}
	return b.String()
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// form is the text form of the outputs of a replay.
type form struct {
	noTimes bool            // the times are those of the replay
	noHost  bool            // host, program and folder are those of the replay
	hide    map[string]bool // further arguments and attributes whose values differ
	zero    int64           // the first time of a trace, in microseconds
	names   map[string]string
	count   map[string]int
}

// name numbers names that differ in each run, in the order of their first use.
func (f *form) name(kind, value string) string {
	if f.names == nil {
		f.names, f.count = make(map[string]string), make(map[string]int)
	}
	key := kind + "\x00" + value
	if f.names[key] == "" {
		f.count[kind]++
		f.names[key] = fmt.Sprint(kind, f.count[kind])
	}
	return f.names[key]
}

// unstable are arguments of traces that differ between two runs, or that repeat
// the tree.
var unstable = map[string]bool{
	"p_idx": true, "level": true, "hhash": true, "written_ts": true, "date": true, "version": true, "ppid": true, "num_events": true,
	"begin_id": true, "begin_cat": true, "begin_ts": true, "span": true, "name": true, "value": true,
}

// ofReplay are arguments that a recording fixes; in the other jobs they are
// those of the test.
var ofReplay = map[string]bool{"cwd": true, "exec_hash": true, "cmd_hash": true}

// traces writes the content of trace files, by rank.
func (f *form) traces(b *strings.Builder, paths []string) error {
	var all []*trace
	for _, path := range paths {
		t, err := readTrace(path)
		if err != nil {
			return err
		}
		all = append(all, t)
	}
	slices.SortStableFunc(all, func(a, b *trace) int {
		return cmp.Or(cmp.Compare(number(a.rank), number(b.rank)), cmp.Compare(a.rank, b.rank), cmp.Compare(a.start, b.start), cmp.Compare(len(a.all), len(b.all)))
	})
	for i, t := range all {
		if i == 0 || t.start < f.zero {
			f.zero = t.start
		}
	}
	for _, t := range all {
		f.trace(b, t)
	}
	return nil
}

func (f *form) trace(b *strings.Builder, t *trace) {
	pid := int64(0)
	if len(t.all) > 0 {
		pid = t.all[0].PID
	}
	label := ""
	if f.noHost { // the name of the file is from the script
		label, _, _ = strings.Cut(filepath.Base(t.path), ".")
		label += " "
	}
	fmt.Fprintf(b, "trace %sof %s\n", label, f.name("process ", strconv.FormatInt(pid, 10)))
	var meta []string
	for _, e := range t.meta {
		line := fmt.Sprintf("  meta %s %v=%s%s", e.Name, e.Args["name"], f.value(t, "", e.Args["value"]), f.args(t, e.Args))
		if e.PID != pid {
			line += " of " + f.name("process ", strconv.FormatInt(e.PID, 10))
		}
		meta = append(meta, line)
	}
	slices.Sort(meta)
	for _, line := range meta {
		fmt.Fprintln(b, line)
	}
	lanes := map[string]string{}
	lane := func(e *event) string {
		key := fmt.Sprint(e.PID, " ", e.TID)
		if lanes[key] == "" {
			lanes[key] = fmt.Sprint("lane", len(lanes)+1)
			if e.PID == e.TID {
				lanes[key] = "main"
			}
			if e.PID != pid {
				lanes[key] = f.name("process ", strconv.FormatInt(e.PID, 10)) + "/" + lanes[key]
			}
		}
		return lanes[key]
	}
	hosts := make(map[string]int)
	for _, e := range t.all {
		hash, _ := e.Args["hhash"].(string)
		if hosts[hash]++; hosts[hash] > hosts[t.mainHost] {
			t.mainHost = hash
		}
	}
	for _, e := range t.all {
		lane(e) // numbered by their first use
	}
	f.siblings(b, len(t.spans), func(b *strings.Builder, i int) { f.span(b, t, t.spans[i], nil, 1, lane) })
	for _, e := range t.all {
		if !e.seen {
			fmt.Fprintf(b, "  CYCLE %s %s\n", e.Cat, e.Name)
		}
	}
	slices.SortStableFunc(t.other, compareEvents)
	for _, e := range t.other {
		fmt.Fprintf(b, "  counter %s/%s %s%s%s\n", e.Cat, e.Name, lane(e), f.time(e.TS-f.zero, -1), f.args(t, e.Args))
	}
}

// span writes a span, its events, and the spans below it. It omits the lane if
// it is the parent's, and the level if it is one more than the parent's.
func (f *form) span(b *strings.Builder, t *trace, e, parent *event, depth int, lane func(*event) string) {
	if e.seen {
		return
	}
	e.seen = true
	level, dur := int64(1), e.Dur
	if parent != nil {
		level = parent.level + 1
	}
	if e.noEnd {
		dur = -1
	}
	indent := strings.Repeat("  ", depth)
	line := indent + e.Cat + "/" + e.Name + f.time(e.TS-f.zero, dur)
	if l := lane(e); !f.noTimes && (parent == nil || l != lane(parent)) {
		line += " " + l
	}
	if e.level != level {
		line += fmt.Sprint(" level=", e.level)
	}
	if e.noEnd {
		line += " UNFINISHED"
	}
	if e.isBroken {
		line += " PARENT-MISSING"
	}
	if host := t.host(e); host != "" {
		line += " host=" + host
	}
	args := e.Args
	if f.noTimes && e.Cat == "data" { // data is read ahead; the step depends on timing
		args = maps.Clone(args)
		delete(args, "epoch")
		delete(args, "step")
	}
	fmt.Fprintln(b, line+f.args(t, args))
	for _, n := range e.events {
		line := fmt.Sprintf("%s  * %v=%s", indent, n.Args["name"], f.value(t, "", n.Args["value"]))
		if l := lane(n); !f.noTimes && l != lane(e) {
			line += " " + l
		}
		if n.level != e.level+1 && n.level+e.level != 0 {
			line += fmt.Sprint(" level=", n.level)
		}
		if n.parent != e.ID {
			line += " PARENT-DIFFERS"
		}
		fmt.Fprintln(b, line+f.args(t, n.Args))
	}
	f.siblings(b, len(e.children), func(b *strings.Builder, i int) { f.span(b, t, e.children[i], e, depth+1, lane) })
}

// siblings writes the children of a node: in the order of their starts or,
// without times, sorted and without duplicates.
func (f *form) siblings(b *strings.Builder, n int, write func(b *strings.Builder, i int)) {
	if !f.noTimes {
		for i := range n {
			write(b, i)
		}
		return
	}
	count := make(map[string]int)
	for i := range n {
		var one strings.Builder
		write(&one, i)
		count[one.String()]++
	}
	for _, text := range sortedKeys(count) {
		if count[text] > 1 {
			first, rest, _ := strings.Cut(text, "\n")
			text = fmt.Sprintf("%s x%d\n%s", first, count[text], rest)
		}
		b.WriteString(text)
	}
}

// host returns the host of an event, or "" for the host of most events of the
// file.
func (t *trace) host(e *event) string {
	hash, ok := e.Args["hhash"].(string)
	switch {
	case !ok:
		return "none"
	case t.hashes[hash] == "":
		return "UNKNOWN"
	case hash != t.mainHost:
		return t.hashes[hash]
	}
	return ""
}

// time writes a start and a duration in microseconds, without the duration if
// it is negative.
func (f *form) time(start, dur int64) string {
	switch {
	case f.noTimes:
		return ""
	case dur < 0:
		return fmt.Sprintf(" @%d", start)
	}
	return fmt.Sprintf(" @%d+%d", start, dur)
}

// hashed are arguments that are hashes of names.
var hashed = map[string]bool{"fhash": true, "newpath_hash": true, "cwd": true, "exec_hash": true, "cmd_hash": true}

// args writes arguments, sorted.
func (f *form) args(t *trace, args map[string]any) string {
	var all []string
	for _, k := range sortedKeys(args) {
		if unstable[k] || f.noHost && ofReplay[k] {
			continue
		}
		if f.hides(k) {
			all = append(all, k+"=HIDDEN")
			continue
		}
		all = append(all, k+"="+f.value(t, k, args[k]))
	}
	if len(all) == 0 {
		return ""
	}
	return " {" + strings.Join(all, " ") + "}"
}

// value writes a value. Ids get the number of their first use; a time becomes
// the distance from the first event.
func (f *form) value(t *trace, key string, v any) string {
	switch v := v.(type) {
	case json.Number:
		return f.moment(string(v))
	case string:
		if hashed[key] {
			name, ok := t.hashes[v]
			if !ok {
				return "HASH-UNKNOWN"
			}
			return strconv.Quote(name)
		}
		if n := number(v); n > minTime && n < maxTime {
			return f.moment(v)
		}
		return strconv.Quote(f.ids(shortened(v)))
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return f.ids(string(text))
}

// Numbers in this range are times in microseconds: from 1998, because scripts
// begin in 2000, to 2065.
const minTime, maxTime = 9e14, 3e15

// shortened returns a text, or for a long text its beginning and a mark that
// distinguishes it.
func shortened(text string) string {
	const most = 1000
	if len(text) <= most {
		return text
	}
	return fmt.Sprintf("%s... %d bytes, %08x", text[:20], len(text), crc32.ChecksumIEEE([]byte(text)))
}

// moment writes a number, or a time in microseconds.
func (f *form) moment(text string) string {
	n := number(text)
	if n < minTime || n > maxTime || strings.ContainsAny(text, ".eE") {
		return text
	}
	return strings.TrimSpace(cmp.Or(f.time(n-f.zero, -1), "TIME"))
}

var idText = regexp.MustCompile(`\b(?:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}|[0-9a-f]{16})\b`)

// timed matches the keys of measured values.
var timed = regexp.MustCompile(`_(?:msec|ns|sec|seconds|time|tflops|per_second)$|throughput|timestamp`)

// hides reports whether the form omits the value of an argument or attribute.
func (f *form) hides(key string) bool { return f.hide[key] || f.noTimes && timed.MatchString(key) }

// ids numbers the ids in a text.
func (f *form) ids(text string) string {
	return idText.ReplaceAllStringFunc(text, func(id string) string {
		switch len(id) {
		case 36:
			return f.name("uuid", id)
		case 32:
			return f.name("trace", id)
		}
		return f.name("span", id)
	})
}
