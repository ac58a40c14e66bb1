package job_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"reflect"
	"testing"

	"github.com/trainspan/trainspan/internal/job"
)

// TestFileUse checks that file calls add up by what they do with the content,
// whether an event stands for one call or for several.
func TestFileUse(t *testing.T) {
	const name = `{"id":%d,"name":"FH","cat":"dftracer","pid":PID,"tid":1,"ph":"M","args":{"hhash":"h","name":"/data/%s","value":"%[2]s"}}`
	n := 100
	call := func(cat, name, hash string, dur int, args string) string {
		n++
		return fmt.Sprintf(`{"id":%d,"name":%q,"cat":%q,"pid":PID,"tid":1,"ts":FROM,"dur":%d,"ph":"X","args":{"hhash":"h","level":1,"p_idx":-1,"fhash":%q,%s}}`, n, name, cat, dur, hash, args)
	}
	r := readAll(t, files(t, map[string]string{"a.pfw": process(4, 0, 1000, "", app,
		fmt.Sprintf(name, 90, "a"), fmt.Sprintf(name, 91, "b"),
		call("POSIX", "open64", "a", 5, `"ret":17`), // a file number
		call("POSIX", "read", "a", 20, `"ret":300`), call("POSIX", "read", "a", 10, `"ret":100`), call("POSIX", "read", "a", 15, `"ret":200`), call("POSIX", "pread", "a", 1, `"ret":-1`),
		call("STDIO", "fread", "a", 90, `"ret":600`), // the same bytes again
		call("POSIX", "read", "b", 1, `"dft_cnt":8,"dur_sum":70,"dur_max":30,"size_sum":4000,"size_min":10,"size_max":900,"failed":2`),
		call("STDIO", "fwrite", "c", 7, `"ret":50`),
		call("POSIX", "stat", "d", 2, `"ret":0`),
		call("STDIO", "fread", "d", 90, `"size":6,"count":100,"ret":100`),
	)}))
	want := []job.FileUse{
		{Path: "/data/a", Failed: 1, Other: job.Transfer{Calls: 1, Time: 5000, Longest: 5000},
			Read: job.Transfer{Calls: 4, Bytes: 600, Time: 46_000, Least: 0, Most: 300, Longest: 20_000}},
		{Path: "/data/b", Failed: 2, Read: job.Transfer{Calls: 8, Bytes: 4000, Time: 70_000, Least: 10, Most: 900, Longest: 30_000}},
		{Path: "c", Written: job.Transfer{Calls: 1, Bytes: 50, Time: 7000, Least: 50, Most: 50, Longest: 7000}},
		{Path: "d", Other: job.Transfer{Calls: 1, Time: 2000, Longest: 2000},
			Read: job.Transfer{Calls: 1, Bytes: 600, Time: 90_000, Least: 600, Most: 600, Longest: 90_000}},
	}
	if got := r.jobs[0].Processes[0].Files; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

// TestByteOrderMark checks that a byte order mark at the start of a file changes nothing.
func TestByteOrderMark(t *testing.T) {
	const ms = base / 1000
	line := func(kind, more string) string {
		return fmt.Sprintf(`{"type":%q,"id":"1","name":"application",%s,"count":1,"pid":4}`+"\n", kind, more)
	}
	for name, text := range map[string]string{
		"a.pfw": process(4, 0, 1000, "", app),
		"a.jsonl": line("start", fmt.Sprintf(`"start_event":{"name":"span_start","attributes":{"timestamp_msec":%d}}`, ms)) +
			line("stop", fmt.Sprintf(`"attributes":{},"stop_event":{"name":"span_stop","attributes":{"timestamp_msec":%d}}`, ms+100)),
	} {
		want := readAll(t, files(t, map[string]string{name: text})).jobs[0].Processes[0]
		got := readAll(t, files(t, map[string]string{name: "\xEF\xBB\xBF" + text})).jobs[0].Processes[0]
		if got.Bad != want.Bad || got.Spans != want.Spans || got.Start != want.Start || got.End != want.End || got.Cut != want.Cut {
			t.Errorf("%s: %d bad lines, %d spans from %d to %d, cut %v; want %d, %d, %d to %d, %v",
				name, got.Bad, got.Spans, got.Start, got.End, got.Cut, want.Bad, want.Spans, want.Start, want.End, want.Cut)
		}
	}
}

// TestRecordsThatComeAgain checks that a copy of a record counts once, that an
// id that is reused later is another span, and that a record without a time is
// ignored.
func TestRecordsThatComeAgain(t *testing.T) {
	const ms = base / 1000
	start := func(id, name string, at int64) string {
		return fmt.Sprintf(`{"type":"start","id":%q,"name":%q,"start_event":{"name":"span_start","attributes":{"timestamp_msec":%d}},"count":1,"pid":4}`+"\n", id, name, at)
	}
	stop := func(id, name string, at int64) string {
		return fmt.Sprintf(`{"type":"stop","id":%q,"name":%q,"attributes":{},"stop_event":{"name":"span_stop","attributes":{"timestamp_msec":%d}},"count":2,"pid":4}`+"\n", id, name, at)
	}
	text := start("1", "application", ms) +
		start("2", "model_forward", ms+10) + stop("2", "model_forward", ms+20) +
		start("2", "model_forward", ms+10) + stop("2", "model_forward", ms+20) + // the same again
		start("2", "model_forward", ms+30) + stop("2", "model_forward", ms+45) +
		start("3", "model_backward", 0) + stop("3", "model_backward", ms+50) +
		start("4", "optimizer_update", 0) +
		stop("1", "application", ms+100)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(text)) // bytes.Buffer does not fail
	_ = z.Close()
	for name, text := range map[string]string{"a.jsonl": text, "a.jsonl.gz": packed.String()} {
		r := readAll(t, files(t, map[string]string{name: text}))
		p := r.jobs[0].Processes[0]
		if p.Start != ms*1e6 || p.End != (ms+100)*1e6 || p.LastSeen != p.End {
			t.Errorf("%s: process from %d to %d, want %d to %d", name, p.Start, p.End, int64(ms*1e6), int64((ms+100)*1e6))
		}
		var got []string
		for _, s := range r.sinks[p].spans {
			got = append(got, fmt.Sprintf("%s %d-%d", s.Name, s.Start/1e6-ms, s.End/1e6-ms))
		}
		if want := []string{"application 0-100", "model_forward 10-20", "model_forward 30-45", "model_backward 50-50"}; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
