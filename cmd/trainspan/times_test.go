package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestImpossibleTimes checks that a record from another time is dropped and
// reported, at any position, and that a trace whose times are all near 0 is
// kept.
func TestImpossibleTimes(t *testing.T) {
	const base = 1_700_000_000_000_000
	line := func(id int, ts, dur int64) string {
		return fmt.Sprintf(`{"id":%d,"name":"forward","cat":"compute","pid":7,"tid":1,"ts":%d,"dur":%d,"ph":"X","args":{"hhash":"h","level":1}}`+"\n", id, ts, dur)
	}
	var steps, relative strings.Builder
	for i := range int64(50) {
		steps.WriteString(line(int(i+10), base+i*1000, 900))
		relative.WriteString(line(int(i+10), i*1000, 900))
	}
	const aside = "ignored: more than 30 days"
	for _, test := range []struct {
		name, text, told string
		status           int
	}{
		{"as they should be", steps.String(), "", 0},
		{"one in 2255", steps.String() + line(1, 9_000_000_000_000_000, 5), "1 event " + aside, 1},
		{"the first in 1970", line(1, 5, 5) + steps.String(), "1 event " + aside, 1},
		{"one that ends before it begins", steps.String() + line(1, base, -5), "1 event " + aside, 1},
		{"near zero", relative.String(), "times are relative", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.pfw")
			if err := os.WriteFile(path, []byte("[\n"+test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			status, out, errs := cli(t, "trace", "summary", "--json", path)
			if status != test.status || !strings.Contains(errs, test.told) || test.told == "" && errs != "" || !strings.Contains(out, `"events": 50,`) || !strings.Contains(out, `"wall_us": 49900,`) {
				t.Errorf("trace summary: status %d, want %d, message %q, 50 events, 49900 µs: %s\n%s", status, test.status, test.told, errs, out)
			}
			status, out, errs = cli(t, "report", "--full", path)
			if word := strings.ReplaceAll(strings.ReplaceAll(test.told, "event", "record"), "times are relative", "with relative times"); !strings.Contains(strings.Join(strings.Fields(out), " "), word) {
				t.Errorf("report: status %d, want %q in the text: %s\n%s", status, word, errs, out)
			}
			_, out, errs = cli(t, "trace", "convert", "--to", "otlp", "-o", "-", path)
			if strings.Contains(out, `Nano":"-`) {
				t.Errorf("trace convert writes a negative time: %s\n%s", errs, out)
			}
		})
	}
	path := filepath.Join(t.TempDir(), "a.pfw")
	if err := os.WriteFile(path, []byte("[\n"+line(1, 1<<62, 5)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, out, errs := cli(t, "trace", "convert", "--to", "otlp", "-o", "-", path); strings.Contains(out, `Nano":"-`) || !strings.Contains(errs, "1 span dropped") {
		t.Errorf("trace convert to OTLP: want no negative time and \"1 span dropped\", got %s\n%s", errs, out)
	}
}

// TestImpossibleTimesInCommands checks that each command drops such records and
// reports it once, and that commands that copy a trace keep them.
func TestImpossibleTimesInCommands(t *testing.T) {
	const base = 1_700_000_000_000_000
	line := func(id int, ts, dur int64) string {
		return fmt.Sprintf(`{"id":%d,"name":"train.iteration","cat":"pipeline","pid":7,"tid":1,"ts":%d,"dur":%d,"ph":"X","args":{"hhash":"h","level":1,"step":%d}}`+"\n", id, ts, dur, id)
	}
	var steps, relative, wild strings.Builder
	for i := range int64(50) {
		steps.WriteString(line(int(i+10), base+i*1000, 900))
		relative.WriteString(line(int(i+10), 1+i*1000, 900))
		wild.WriteString(line(int(i+100), base+(i+31)*25*3600_000_000, 900))
	}
	const aside, kept = " ignored: more than 30 days", " with wrong times kept: they are more than 30 days"
	const sample = `{"name":"cpu","cat":"sys","pid":7,"tid":1,"ts":9000000000000000,"ph":"C","args":{"hhash":"h","x":1}}` + "\n"
	files := []struct {
		name, text string
		aside      int
	}{
		{"as they should be", steps.String(), 0},
		{"one in 2255", steps.String() + line(1, 9_000_000_000_000_000, 5), 1},
		{"a sample in 2255", steps.String() + sample, 1},
		{"the first in 1970", line(1, 5, 5) + line(2, 6, 5) + line(3, 7, 5) + steps.String(), 3},
		{"one that ends before it begins", steps.String() + line(1, base, -5), 1},
		{"an hour each", strings.Repeat(steps.String(), 2) + strings.ReplaceAll(wild.String(), "train.", "wild."), -1},
		{"near zero", relative.String(), 0},
	}
	for _, verb := range []struct {
		args   string
		events string // one of them in the output
		copies bool
	}{
		{"trace events --json", `"dur_us":900`, false},
		{"trace events --csv", ",900,", false},
		{"trace steps --csv", ",900,", false},
		{"trace events --json --sort duration --limit 1000", `"dur_us":900`, false},
		{"trace info", "", false},
		{"trace info --category *", "", false},
		{"trace summary --json", "", false},
		{"trace convert --to chrome -o -", `"dur":900`, false},
		{"trace convert --to otlp -o -", `"name":"train.iteration"`, false},
		{"trace convert --to parquet -o OUT", "", false},
		{"trace merge -o -", `"dur":900`, true},
		{"trace convert --to v2 -o -", `"dur":900`, true},
	} {
		for _, file := range files {
			if strings.HasPrefix(verb.args, "trace info") && file.name == "a sample in 2255" {
				continue // the shown time does not include samples
			}
			t.Run(verb.args+"/"+file.name, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "a.pfw")
				if err := os.WriteFile(path, []byte("[\n"+file.text), 0o600); err != nil {
					t.Fatal(err)
				}
				args := append(strings.Fields(strings.ReplaceAll(verb.args, "OUT", filepath.Join(dir, "out"))), path)
				status, out, errs := cli(t, args...)
				told, wrong := aside, file.aside != 0
				if verb.copies {
					told = kept
				}
				if n := strings.Count(errs, told); wrong && n != 1 || !wrong && n != 0 || !verb.copies && wrong != (status == 1) || status > 1 {
					t.Errorf("status %d, want the message %q: %v; got %s", status, told, wrong, errs)
				}
				if file.aside > 0 && !strings.Contains(errs, fmt.Sprintf("%d event", file.aside)) {
					t.Errorf("want %d events set aside in the messages, got %s", file.aside, errs)
				}
				if !verb.copies && (file.name == "near zero") != strings.Contains(errs, "relative") {
					t.Errorf("want relative times in the messages: %v; got %s", file.name == "near zero", errs)
				}
				if n := strings.Count(out, verb.events); verb.events != "" && file.aside >= 0 && (verb.copies && n < 50 || !verb.copies && n != 50) {
					t.Errorf("found %d events, want 50: %.600s", n, out)
				}
				if years := strings.Contains(out, "2255-0") || strings.Contains(out, "9000000000000000"); years != (verb.copies && strings.Contains(file.name, "2255")) {
					t.Errorf("want the year 2255 only in a copy of a file that has it, got %.600s", out)
				}
				if strings.HasPrefix(verb.args, "trace info") && file.aside >= 0 && !strings.Contains(out, "49.9 ms, from") {
					t.Errorf(`trace info: want "49.9 ms, from", got %.600s`, out)
				}
				folders, err := filepath.Glob(filepath.Join(dir, "out", "events", "*", "*", "hour=*"))
				if err != nil || strings.Contains(verb.args, "parquet") != (len(folders) > 0) || len(folders) > 1 {
					t.Errorf("Parquet folders %q, %v; want one of parquet, else none", folders, err)
				}
			})
		}
	}
}

// TestWindowOfImpossibleTimes checks that a window shows records that are
// dropped without a window, and that a window relative to the start does not
// begin at a clock that was not set.
func TestWindowOfImpossibleTimes(t *testing.T) {
	text := "[\n" + `{"id":1,"name":"early","cat":"c","pid":7,"tid":1,"ts":5,"dur":5,"ph":"X","args":{}}` + "\n"
	for i := range int64(50) {
		text += fmt.Sprintf(`{"id":%d,"name":"forward","cat":"c","pid":7,"tid":1,"ts":%d,"dur":5,"ph":"X","args":{}}`+"\n", i+2, 1_700_000_000_000_000+i*1000)
	}
	path := filepath.Join(t.TempDir(), "a.pfw")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		window []string
		name   string
		n      int
	}{
		{[]string{"--to", "1999-01-01"}, `"name":"early"`, 1},
		{[]string{"--from", "+0s", "--to", "+10ms"}, `"name":"forward"`, 10},
	} {
		if _, out, errs := cli(t, append([]string{"trace", "events", "--json", path}, test.window...)...); strings.Count(out, test.name) != test.n || strings.Count(out, "\n") != test.n {
			t.Errorf("trace events in %q: want %d events %s, got %s%s", test.window, test.n, test.name, errs, out)
		}
	}
}
