package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/fsread"
	"github.com/trainspan/trainspan/internal/testkit/growth"
	"github.com/trainspan/trainspan/internal/testkit/gziptest"
	"go.uber.org/goleak"
)

// TestInfoDescribesMembers checks that every member of a trace can be read
// independently, and together they are the file.
func TestInfoDescribesMembers(t *testing.T) {
	defer goleak.VerifyNone(t)
	path := filepath.Join(t.TempDir(), "job.pfw.gz")
	writeJob(t, path, 50_000)
	info := lines[[]read.FileInfo](t, "trace", "info", "--json", path)[0][0]
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(info.Members) < 5 {
		t.Fatalf("%d members, want at least 5", len(info.Members))
	}
	var at, lines, events, total int64
	for i, m := range info.Members {
		if m.Offset != at {
			t.Errorf("member %d is at %d, want %d", i, m.Offset, at)
		}
		at += m.Size
		text := gziptest.Text(t, data[m.Offset:m.Offset+m.Size])
		if int64(len(text)) != m.Text || int64(bytes.Count(text, []byte("\n"))) != m.Lines {
			t.Errorf("member %d: %d bytes, want %d; lines %d", i, len(text), m.Text, m.Lines)
		}
		r, err := dftracer.NewReader(bytes.NewReader(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		var n int64
		for ev, err := range r.All() {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Phase != dftracer.PhaseComplete || ev.Cat == dftracer.CatDFTracer {
				continue
			}
			n++
			if ev.TS < m.Start || ev.End() > m.End {
				t.Fatalf("member %d: event [%d, %d], want inside [%d, %d]", i, ev.TS, ev.End(), m.Start, m.End)
			}
		}
		if n != m.Events {
			t.Errorf("member %d has %d events, want %d as in info", i, n, m.Events)
		}
		lines, events, total = lines+m.Lines, events+m.Events, total+m.Text
	}
	if at != int64(len(data)) || lines != info.Lines || events != info.Events || total != info.Text {
		t.Errorf("members sum to %d bytes, %d lines, %d events, %d bytes of text; want those of %+v", at, lines, events, total, info)
	}
}

// TestInfoIndependentOfLayout checks that the counts do not depend on how
// lines, chunks and members overlap.
func TestInfoIndependentOfLayout(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "job.pfw")
	writeJob(t, plain, 20_000)
	text, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	inspect := func(path string) *read.FileInfo {
		t.Helper()
		info, err := read.Inspect(context.Background(), nil, path, nil)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	first := inspect(plain)
	if first.BadLines != 0 || first.Damaged != "" || first.Events < 20_000 || first.Text != int64(len(text)) {
		t.Fatalf("Info of the first layout = %+v, want 20,000 events or more, all %d bytes, no damage", first, len(text))
	}
	for _, size := range []int{9_999, 70_001, 1 << 20, len(text)} {
		zipped := gziptest.Pack(slices.Collect(slices.Chunk(text, size))...)
		path := filepath.Join(t.TempDir(), "job.pfw.gz")
		if err := os.WriteFile(path, zipped, 0o600); err != nil {
			t.Fatal(err)
		}
		got := inspect(path)
		if len(got.Members) != (len(text)+size-1)/size {
			t.Errorf("member size %d: %d members, want %d", size, len(got.Members), (len(text)+size-1)/size)
		}
		if got.Lines != first.Lines || got.Events != first.Events || got.Metadata != first.Metadata || got.BadLines != 0 || got.Damaged != "" ||
			got.Start != first.Start || got.End != first.End || got.Text != first.Text || !reflect.DeepEqual(got.Categories, first.Categories) {
			t.Errorf("member size %d: %+v, want %+v as with the first size", size, got, first)
		}
		aligned := true
		for at := size; at < len(text); at += size {
			aligned = aligned && text[at-1] == '\n'
		}
		if got.Aligned != aligned {
			t.Errorf("size %d: lines cross members: %v, Info reports %v", size, !aligned, !got.Aligned)
		}
	}
}

// TestInfoBehindDamage checks that the counts of info after a damaged member
// equal those of the other commands.
func TestInfoBehindDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "job.pfw.gz")
	writeJob(t, path, 50_000)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	clear(data[len(data)/2:][:100])
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	want := int64(0)
	st, err := dftracer.Scan(path, nil, func(ev *dftracer.Event) error {
		if ev.Phase == dftracer.PhaseComplete && ev.Cat != dftracer.CatDFTracer {
			want++
		}
		return nil
	})
	if err != nil || !st.Torn {
		t.Fatalf("reading the damaged trace: %+v, %v; want it torn", st, err)
	}
	info, err := read.Inspect(context.Background(), nil, path, nil)
	if err != nil || info.Events != want || want < 25_000 || info.DamagedAt != st.DamagedAt || info.BadLines > 0 && info.FirstBad != st.First[0].Error() {
		t.Errorf("info counts %d events, want %d: %v %+v", info.Events, want, err, info)
	}
}

// TestSummaryOfAStretchOfTime checks that the summary of an interval covers
// exactly the events of that interval.
func TestSummaryOfAStretchOfTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "job.pfw.gz")
	writeJob(t, path, 60_000)
	plain := want(t, "trace", "summary", "--json", path, "--from", "2023-11-14 22:13:25", "--to", "2023-11-14T22:13:26.5Z")
	var sum struct{ Events int64 }
	var whole struct{ Events int64 }
	for text, to := range map[string]any{plain: &sum, want(t, "trace", "summary", "--json", path): &whole} {
		if err := json.Unmarshal([]byte(text), to); err != nil {
			t.Fatal(err)
		}
	}
	if sum.Events == 0 || sum.Events*5 > whole.Events {
		t.Errorf("summary of a part of the time has %d events of %d, want some, at most a fifth", sum.Events, whole.Events)
	}
	for _, bad := range [][]string{{"--from", "yesterday"}, {"--from", "2024-01-01", "--to", "2023-01-01"}} {
		if status, _, _ := cli(t, append([]string{"trace", "summary", path}, bad...)...); status != ui.StatusUse {
			t.Errorf("%v: status %d, want %d", bad, status, ui.StatusUse)
		}
	}
}

// TestLongLine checks that a line that is too long is skipped and the lines
// around it are read, with a few times the memory of the longest accepted line.
func TestLongLine(t *testing.T) {
	line := func(id int) string {
		return `{"id":` + strconv.Itoa(id) + `,"name":"forward","cat":"compute","pid":7,"tid":1,"ts":1700000000000000,"dur":5,"ph":"X","args":{"hhash":"h","level":1}}` + "\n"
	}
	path := filepath.Join(t.TempDir(), "a.pfw")
	text := "[\n" + line(1) + strings.Repeat("x", 70<<20) + "\n" + line(2) + strings.Repeat("y", fsread.MaxLine+1) + "\n" + line(3)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	growth.Work(t, len(text), 6, func() { // several readers read the file
		status, out, errs := cli(t, "trace", "info", "--json", path)
		if status != 1 || !strings.Contains(out, `"events": 3,`) || !strings.Contains(errs, "2 lines not a record") {
			t.Errorf("status %d, want 1, 3 events and 2 bad lines: %s\n%s", status, errs, out)
		}
	})
}
