package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// asked is a context that calls a function at each call of Err.
type asked struct {
	context.Context
	call func()
}

func (a asked) Err() error {
	a.call()
	return a.Context.Err()
}

// largeTrace writes a trace whose reading checks its context often.
func largeTrace(t *testing.T, path string) {
	t.Helper()
	w, err := dftracer.Create(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	key := dftracer.NewKey("compute", "forward")
	for i := range int64(40_000) {
		w.WriteComplete(&key, dftracer.Span{TID: 1, TS: 1_700_000_000_000_000 + 100*i, Dur: 50})
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestOutputThatAppears checks that no command changes a file that appears
// under the name of its output during the writing, and that the command fails.
func TestOutputThatAppears(t *testing.T) {
	in := t.TempDir()
	largeTrace(t, filepath.Join(in, "a.pfw"))
	job := makeJob(t, filepath.Join(in, "job"), simjob.Attempt{Ranks: 2, Steps: 30})
	profile := filepath.Join(in, "profile.pt.trace.json")
	var text bytes.Buffer
	text.WriteString(`{"schemaVersion":1,"traceEvents":[`)
	for range 50_000 {
		text.WriteString(`{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":1700000000000000,"dur":5},` + "\n")
	}
	text.WriteString(`{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":1700000000000000,"dur":5}]}`)
	if err := os.WriteFile(profile, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(in, "damaged.pfw")
	whole, err := os.ReadFile(filepath.Join(in, "a.pfw"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(damaged, whole[:len(whole)-99], 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args  []string
		out   string
		early bool // the context is not checked while the file is being written
	}{
		"merge":   {args: []string{"trace", "merge", filepath.Join(in, "a.pfw"), "-o", "OUT"}, out: "x.pfw.gz"},
		"convert": {args: []string{"trace", "convert", filepath.Join(in, "a.pfw"), "--to", "v1", "-o", "OUT"}, out: "x.pfw.gz"},
		"chrome":  {args: []string{"trace", "convert", filepath.Join(in, "a.pfw"), "--to", "chrome", "-o", "OUT"}, out: "x.json"},
		"import":  {args: []string{"trace", "import", profile, "-o", "OUT"}, out: "x.pfw.gz"},
		"recover": {args: []string{"trace", "recover", damaged, "-o", "OUT"}, out: "x.pfw"},
		"split":   {args: []string{"trace", "split", filepath.Join(in, "a.pfw"), "--by", "category", "-o", "DIR"}, out: "a-cat-compute.pfw.gz"},
		"report":  {args: []string{"report", job, "--html", "OUT"}, out: "x.html", early: true},
		"digest":  {args: []string{"trace", "digest", job, "-o", "OUT"}, out: "x.digest", early: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, c.out)
			var there atomic.Bool
			ctx := asked{context.Background(), func() {
				draft, _ := filepath.Glob(filepath.Join(dir, ".*.tmp"))
				if (c.early || len(draft) > 0) && there.CompareAndSwap(false, true) {
					if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
						t.Error(err)
					}
				}
			}}
			for i := range c.args {
				c.args[i] = strings.NewReplacer("OUT", path, "DIR", dir).Replace(c.args[i])
			}
			var o, e bytes.Buffer
			status := run(ctx, c.args, ui.Streams{In: strings.NewReader(""), Out: &o, Err: &e})
			if !there.Load() {
				t.Fatalf("the file never appeared while the command ran: status %d, %s%s", status, o.String(), e.String())
			}
			if text, err := os.ReadFile(path); err != nil || string(text) != "precious" {
				t.Errorf(`the file that appeared contains %.20q, %v; want "precious" as before`, text, err)
			}
			if status != ui.StatusUse || !strings.Contains(e.String(), path) {
				t.Errorf("status %d, stderr %q; want %d and the path of the file", status, e.String(), ui.StatusUse)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
				t.Errorf("left are %q, want none", left)
			}
		})
	}
}

// TestForce checks that --force replaces regular files only.
func TestForce(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need rights there")
	}
	in := t.TempDir()
	trace := filepath.Join(in, "a.pfw")
	largeTrace(t, trace)
	victim := filepath.Join(in, "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"merge": {"trace", "merge", trace, "--force", "-o"}, "chrome": {"trace", "convert", trace, "--to", "chrome", "--force", "-o"},
		"recover": {"trace", "recover", trace, "--force", "-o"}, "digest": {"trace", "digest", trace, "--force", "-o"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file, link, dangling := filepath.Join(dir, "file.pfw"), filepath.Join(dir, "link.pfw"), filepath.Join(dir, "dangling.pfw")
			if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			for path, to := range map[string]string{link: victim, dangling: filepath.Join(dir, "nowhere")} {
				if err := os.Symlink(to, path); err != nil {
					t.Fatal(err)
				}
			}
			if status, _, problems := call(append(args, file)...); status != ui.StatusOK {
				t.Errorf("file: status %d, want %d: %s", status, ui.StatusOK, problems)
			}
			if text, err := os.ReadFile(file); err != nil || string(text) == "old" {
				t.Errorf("file after --force contains %q, %v; want the new content", text, err)
			}
			for _, path := range []string{link, dangling} {
				if status, _, problems := call(append(args, path)...); status != ui.StatusUse || !strings.Contains(problems, "symbolic link") {
					t.Errorf(`--force on %s: status %d, stderr %q; want %d and "symbolic link"`, path, status, problems, ui.StatusUse)
				}
				if info, err := os.Lstat(path); err != nil || info.Mode().IsRegular() {
					t.Errorf("the link was replaced, want it left: %v", err)
				}
			}
			if _, err := os.Lstat(filepath.Join(dir, "nowhere")); err == nil {
				t.Error("a file was created through the symbolic link, want none")
			}
		})
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
		t.Errorf(`the file behind the link contains %.20q, %v; want "precious" as before`, text, err)
	}
}

// TestForeignIndexes checks that folders with the indexes of other programs,
// such as dftracer-utils, are read as without them.
func TestForeignIndexes(t *testing.T) {
	dir := t.TempDir()
	trace := filepath.Join(dir, "a.pfw.gz")
	largeTrace(t, trace)
	commands := []string{"trace info", "trace summary", "trace steps", "trace events", "report", "runs"}
	type answer struct {
		status        int
		out, problems string
	}
	ask := func(command string) (a answer) {
		a.status, a.out, a.problems = call(append(strings.Fields(command), dir, "--json")...)
		// The report counts the files that it leaves out.
		a.out = regexp.MustCompile(`"foreign_files": \d+`).ReplaceAllString(a.out, `"foreign_files": N`)
		return a
	}
	alone := map[string]answer{}
	for _, command := range commands {
		if alone[command] = ask(command); alone[command].status != ui.StatusOK {
			t.Fatalf("%s: %+v, want status 0", command, alone[command])
		}
	}
	for name, text := range map[string]string{
		"a.pfw.gz.zindex": "SQLite format 3\x00\x10\x00\x01\x01\x00", "a.pfw.gz.zindex-wal": "\x37\x7f\x06\x82", "a.pfw.gz.idx": "SQLite format 3\x00",
		".dftindex/CURRENT": "MANIFEST-000005\n", ".dftindex/LOCK": "", ".dftindex/000004.sst": "\x00\x01\x02\xff", ".dftindex/MANIFEST-000005": "\x56\xf9\xb8\xf8",
		"a.pfw.gz.idx.json": `{"version":2,"file_size":1,"file_mtime_ns":1,"members":[]}`,
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range commands {
		if got := ask(command); got != alone[command] {
			t.Errorf("%s: got %.400v, want as without the indexes: %.400v", command, got, alone[command])
		}
	}
}
