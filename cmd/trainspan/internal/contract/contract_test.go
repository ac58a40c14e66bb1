package contract

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// recorded returns the files that TestContract of the command compares with.
func recorded(t *testing.T) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", "..", "testdata", "contract", "*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("files %v, %v; want one or more", paths, err)
	}
	out := make(map[string][]byte)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(path)] = data
	}
	return out
}

func decoded(t *testing.T, data []byte) *File {
	t.Helper()
	f, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// one returns a file with one answer, and its own keys.
func one(job, command string, a Answer, keys []string) *File {
	return &File{Keys: map[string][]string{command: keys}, Jobs: map[string]map[string]Answer{job: {command: a}}}
}

// changed returns a scalar that differs by the smallest amount that must be
// noticed.
func changed(path string, v any) any {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return !v
	case string:
		return v + "x"
	case json.Number:
		if n, err := v.Int64(); err == nil && (n == 0 || !isMeasured(path) || isDate(v)) {
			return json.Number(strconv.FormatInt(n+1, 10))
		}
		f, err := v.Float64()
		if err != nil {
			panic(err)
		}
		if f *= 1.001; f == 0 {
			f = 1e-6
		}
		if isMeasured(path) && f == float64(int64(f)) { // keep it an integer
			return json.Number(strconv.FormatInt(int64(f), 10))
		}
		return json.Number(strconv.FormatFloat(f, 'g', 12, 64))
	}
	panic("not a scalar")
}

// TestEveryChangeIsNoticed changes each key, status and value of every recorded
// file, one at a time, and expects exactly that difference.
func TestEveryChangeIsNoticed(t *testing.T) {
	for name, data := range recorded(t) {
		if testing.Short() && !strings.HasPrefix(name, "own") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			want := decoded(t, data)
			if d := Compare(decoded(t, data), want, false); len(d) > 0 {
				t.Fatalf("the file differs from itself: %v", d[0])
			}
			tried := 0
			notice := func(what string, got, want *File, part bool, n int) {
				t.Helper()
				tried++
				if d := Compare(got, want, part); len(d) != n {
					t.Errorf("%s: %d differences, want %d: %v", what, len(d), n, d)
				}
			}
			for command, keys := range want.Keys {
				for i, key := range keys {
					renamed := slices.Clone(keys)
					path, kind, _ := strings.Cut(key, " ")
					renamed[i] = path + "_renamed " + kind
					a, b := one("j", command, nil, renamed), one("j", command, nil, keys)
					notice(command+": renamed "+key, a, b, false, 2)
					notice(command+": renamed in a part "+key, a, b, true, 1)
				}
			}
			for job, commands := range want.Jobs {
				for command, a := range commands {
					for path, v := range a {
						with := func(v any) *File { return one(job, command, Answer{path: v}, nil) }
						b := with(v)
						what := job + ": " + command + ": " + path
						notice(what+" is gone", one(job, command, Answer{}, nil), b, true, 1)
						list, ok := v.([]any)
						if !ok {
							notice(what+" is changed", with(changed(path, v)), b, true, 1)
							continue
						}
						for i := range list {
							other := slices.Clone(list)
							other[i] = changed(path, list[i])
							notice(what+" is changed at "+strconv.Itoa(i), with(other), b, true, 1)
						}
						if len(list) > 1 && !sameScalar(path, list[0], list[1]) {
							swapped := slices.Clone(list)
							swapped[0], swapped[1] = list[1], list[0]
							notice(what+" is swapped", with(swapped), b, true, 2)
							notice(what+" is shorter", with(list[1:]), b, true, 1)
						}
					}
				}
			}
			if tried < 100 {
				t.Errorf("%d changes were tried, want at least 100", tried)
			}
		})
	}
}

// TestEncode checks that a file is decoded as it was encoded.
func TestEncode(t *testing.T) {
	for name, data := range recorded(t) {
		if got := string(decoded(t, data).Encode()); got != string(data) {
			t.Errorf("%s differs from what Encode writes", name)
		}
	}
}

const document = `{"kind": "slow", "ranks": [2, 3], "share_ns": 100000, "count": 100000, "start_ns": 1795161600000000001, "gain": 1.25, "none": [], "off": {},
 "table": [{"rank": 0, "own_ms": 5.5, "note": null}, {"rank": 1, "own_ms": 7}], "causes": {"2": "input", "11": "host"}, "why": "a sentence"}`

var documentView = &View{Form: Object, Keep: []string{""}, Drop: []string{"why"}}

// TestCompareOutputs checks which outputs count as equal.
func TestCompareOutputs(t *testing.T) {
	for _, tt := range []struct {
		name, old, new string
		want           []string
	}{
		{"the same", "", "", nil},
		{"a sentence", "a sentence", "another one", nil},
		{"order of keys", `"kind": "slow", "ranks": [2, 3]`, `"ranks": [2, 3], "kind": "slow"`, nil},
		{"a sum by 0.01 %", `"share_ns": 100000`, `"share_ns": 100010`, nil},
		{"a sum by 0.1 %", `"share_ns": 100000`, `"share_ns": 100100`, []string{"share_ns = 100100, want 100000"}},
		{"a gain by 0.1 %", `1.25`, `1.25125`, []string{"gain = 1.25125, want 1.25"}},
		{"a gain by 0.01 %", `1.25`, `1.250125`, nil},
		{"a count by 1", `"count": 100000`, `"count": 100001`, []string{"count = 100001, want 100000"}},
		{"a date by 1 ns", `0001, "gain"`, `0002, "gain"`, []string{"start_ns = 1795161600000000002, want 1795161600000000001"}},
		{"a rank", `[2, 3]`, `[2, 4]`, []string{"ranks[] at 1 = 4, want 3"}},
		{"ranks swapped", `[2, 3]`, `[3, 2]`, []string{"ranks[] at 0 = 3, want 2", "ranks[] at 1 = 2, want 3"}},
		{"a rank less", `[2, 3]`, `[2]`, []string{"ranks[] = [2], want [2,3]"}},
		{"rows swapped", `{"rank": 0, "own_ms": 5.5, "note": null}, {"rank": 1, "own_ms": 7}`, `{"rank": 1, "own_ms": 7}, {"rank": 0, "own_ms": 5.5, "note": null}`,
			[]string{"table[].own_ms at 0 = 7, want 5.5", "table[].own_ms at 1 = 5.5, want 7", "table[].rank at 0 = 1, want 0", "table[].rank at 1 = 0, want 1"}},
		{"a key", `"why"`, `"reason"`, []string{"key why string = (absent), want present", "key reason string = present, want (absent)", `reason = "a sentence", want (absent)`}},
		{"a type", `"count": 100000`, `"count": "100000"`, []string{"key count number = (absent), want present", "key count string = present, want (absent)", `count = "100000", want 100000`}},
		{"null for nothing", `"note": null`, `"note": 1`, []string{"key table[].note null = (absent), want present", "key table[].note number = present, want (absent)", "table[].note at 0 = 1, want null"}},
		{"a key of data", `"11": "host"`, `"12": "host"`, nil},
		{"an empty list", `"none": []`, `"none": [1]`, []string{"key none [] = (absent), want present", "key none[] number = present, want (absent)", "none[] = [1], want (absent)"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := func(output string) *File {
				f := NewFile()
				if err := f.Add("j", "report", documentView, 0, output); err != nil {
					t.Fatal(err)
				}
				return f
			}
			if !strings.Contains(document, tt.old) {
				t.Fatalf("%q is not in the document", tt.old)
			}
			var got []string
			for _, d := range Compare(file(strings.Replace(document, tt.old, tt.new, 1)), file(document), false) {
				got = append(got, d.Path+" = "+d.Got+", want "+d.Want)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("differences\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// TestCompareFiles checks missing parts of an output.
func TestCompareFiles(t *testing.T) {
	file := func(exit int, jobs ...string) *File {
		f := NewFile()
		for _, job := range jobs {
			for _, command := range []string{"report", "compare with x"} {
				if err := f.Add(job, command, documentView, exit, document); err != nil {
					t.Fatal(err)
				}
			}
		}
		return f
	}
	want := file(0, "a", "b")
	if keys := unionKeys(want.Keys, nil); !slices.Equal(keys, []string{"compare", "report"}) {
		t.Errorf("commands with keys %q, want those of all pairs as one", keys)
	}
	for name, tt := range map[string]struct {
		got  *File
		part bool
		n    int
	}{
		"the same":              {file(0, "a", "b"), false, 0},
		"exit status":           {file(1, "a", "b"), false, 4},
		"a job less":            {file(0, "a"), false, 2 * len(want.Jobs["a"]["report"])},
		"a job less, of a part": {file(0, "a"), true, 0},
		"a job more":            {file(0, "a", "b", "c"), false, 2 * len(want.Jobs["a"]["report"])},
	} {
		if d := Compare(tt.got, want, tt.part); len(d) != tt.n {
			t.Errorf("%s: %d differences, want %d: %v", name, len(d), tt.n, d)
		}
	}
}

// TestLongColumns checks that sums, swaps and texts of long lists are noticed.
func TestLongColumns(t *testing.T) {
	rows := make([]string, listed+10)
	for i := range rows {
		rows[i] = `{"rank":` + strconv.Itoa(i%4) + `,"dur_us":` + strconv.Itoa(1000+i) + `,"name":"n` + strconv.Itoa(i) + `"}`
	}
	file := func(v *View, rows []string) *File {
		f := NewFile()
		if err := f.Add("j", "steps", v, 0, strings.Join(rows, "\n")); err != nil {
			t.Fatal(err)
		}
		return f
	}
	plain, grouped := &View{Form: Lines, Keep: []string{""}}, &View{Form: Lines, Group: []string{"rank"}, Keep: []string{""}}
	swapped := slices.Clone(rows)
	swapped[0], swapped[49] = rows[49], rows[0]
	more := slices.Clone(rows)
	more[3] = strings.Replace(rows[3], "1003", "1100", 1)
	for name, tt := range map[string]struct {
		view *View
		rows []string
		want []string
	}{
		"swapped":          {plain, swapped, []string{"[].dur_us placed", "[].name hash", "[].rank placed"}},
		"a sum":            {plain, more, []string{"[].dur_us sum"}},
		"a row less":       {plain, rows[:49], []string{"[].dur_us count", "[].dur_us placed", "[].dur_us sum", "[].name count", "[].name hash", "[].rank count", "[].rank placed", "[].rank sum"}},
		"swapped, grouped": {grouped, append(slices.Clone(rows[1:]), rows[0]), nil},
		"a sum, grouped":   {grouped, more, []string{"[].dur_us at 3"}},
		"a row, grouped":   {grouped, rows[:49], []string{"[].dur_us at 1", "[].rows at 1"}},
	} {
		var got []string
		for _, d := range Compare(file(tt.view, tt.rows), file(tt.view, rows), false) {
			got = append(got, d.Path)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: differences at %q, want %q", name, got, tt.want)
		}
	}
}

// TestKeep checks that a new record changes only what differs.
func TestKeep(t *testing.T) {
	was := one("j", "report", Answer{"a_ns": json.Number("100000"), "b_ns": json.Number("100000"), "c": []any{json.Number("1.5")}}, nil)
	now := one("j", "report", Answer{"a_ns": json.Number("100010"), "b_ns": json.Number("100100"), "c": []any{json.Number("1.50001")}, "d": true}, nil)
	now.Keep(was)
	want := Answer{"a_ns": json.Number("100000"), "b_ns": json.Number("100100"), "c": []any{json.Number("1.5")}, "d": true}
	if d := Compare(now, one("j", "report", want, nil), false); len(d) > 0 || now.Jobs["j"]["report"]["a_ns"] != want["a_ns"] {
		t.Errorf("kept %v, want %v", now.Jobs["j"]["report"], want)
	}
}

// TestTables reads a table, and invalid outputs.
func TestTables(t *testing.T) {
	f := NewFile()
	if err := f.Add("j", "steps --csv", &View{Form: CSV, Keep: []string{""}}, 0, "rank,dur_us,note\n0,10,\n1,20,x\n"); err != nil {
		t.Fatal(err)
	}
	want := Answer{"exit": json.Number("0"), "[].rank": []any{json.Number("0"), json.Number("1")}, "[].dur_us": []any{json.Number("10"), json.Number("20")}, "[].note": []any{nil, "x"}}
	if d := Compare(f, one("j", "steps --csv", want, f.Keys["steps --csv"]), false); len(d) > 0 {
		t.Errorf("documents differ: %s", d)
	}
	for _, tt := range []struct {
		form   Form
		output string
		bad    bool
	}{{Object, "", false}, {Object, "{}", false}, {Object, "{}{}", true}, {Object, "{", true}, {Lines, "", false}, {Lines, "{}\n{}\n", false}, {Lines, "{}\nx\n", true}, {CSV, "a,b\n1\n", true}, {"", "anything", false}} {
		if err := NewFile().Add("j", "c", &View{Form: tt.form}, 0, tt.output); (err != nil) != tt.bad {
			t.Errorf("%s of %q: error %v, want one: %v", tt.form, tt.output, err, tt.bad)
		}
	}
}
