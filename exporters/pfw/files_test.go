package pfw_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// TestFilesInEveryDialect checks that single and aggregated calls refer to their file in
// every dialect.
func TestFilesInEveryDialect(t *testing.T) {
	for _, d := range []dftracer.Dialect{dftracer.V1, dftracer.V2, dftracer.V22} {
		for _, aggregate := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v aggregate=%v", d, aggregate), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "trace.pfw")
				p, err := pfw.Create(path, &pfw.Options{NoBegin: true, Trace: &dftracer.Options{Dialect: d}, Files: pfw.FileOptions{Aggregate: aggregate}})
				if err != nil {
					t.Fatal(err)
				}
				log := p.FileLog()
				for op := range dispatch.FileOps {
					f := log.File(fmt.Sprintf("/data/%q %s", "quoted", op))
					for i := range int64(3) {
						f.Record(context.Background(), dispatch.FileCall{Op: op, Start: log.Now(), Ret: 10 + i, Size: 20, Offset: -1})
					}
				}
				log.File("/x").Record(context.Background(), dispatch.FileCall{Op: dispatch.FileOps}) // no such call
				if err := p.Shutdown(context.Background()); err != nil {
					t.Fatal(err)
				}
				dftest.Check(t, path)
				paths := map[string]string{}
				counts := map[string]int64{}
				events := dftest.Events(t, path)
				for _, e := range events {
					if e.Name == tracefile.NameFileHash {
						name, hash := e.Meta()
						paths[hash] = name
					}
				}
				for _, e := range events {
					if e.Cat != "POSIX" && e.Cat != "STDIO" {
						continue
					}
					file, _ := e.Arg("fhash")
					if want := fmt.Sprintf("/data/%q %s", "quoted", e.Name); paths[file.Text()] != want {
						t.Errorf("%s is of %q, want %q", e.Name, paths[file.Text()], want)
					}
					n := int64(1)
					if a, ok := e.Arg(tracefile.ArgCalls); ok {
						n = a.Int64()
					}
					counts[e.Cat+" "+e.Name] += n
				}
				if len(counts) != int(dispatch.FileOps) {
					t.Errorf("calls %v, want %d of them", counts, dispatch.FileOps)
				}
				for name, n := range counts {
					if n != 3 {
						t.Errorf("%d calls %s, want 3", n, name)
					}
				}
			})
		}
	}
}

// TestManyFiles checks that no calls are lost if there are more than maxFiles files.
func TestManyFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("closes more files than are told apart at once: make test-long")
	}
	p, path := newTrace(t, &pfw.Options{NoBegin: true, Files: pfw.FileOptions{Aggregate: true}})
	log := p.FileLog()
	open := log.File("/data/open") // is no longer remembered when it is closed
	const files = 70_000
	for i := range files {
		log.File(fmt.Sprint("/data/", i)).Record(context.Background(), dispatch.FileCall{Op: dispatch.FileClose, Start: log.Now(), Size: -1, Offset: -1})
	}
	open.Record(context.Background(), dispatch.FileCall{Op: dispatch.FileClose, Start: log.Now(), Size: -1, Offset: -1})
	if err := p.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range dftest.Events(t, path) {
		if e.Name == "close" {
			n++
		}
	}
	if n != files+1 {
		t.Errorf("%d files, want %d", n, files+1)
	}
}

// TestFolders checks that only files in the configured directories are recorded.
func TestFolders(t *testing.T) {
	for path, want := range map[string]bool{"/data": true, "/data/a": true, "/database/a": false, "/other": false, "s3://bucket/a": true, "s3://buckets/a": false} {
		p, _ := newTrace(t, &pfw.Options{NoBegin: true, Files: pfw.FileOptions{Dirs: []string{"/data/", "s3://bucket"}}})
		if got := p.FileLog().File(path) != nil; got != want {
			t.Errorf("%s is recorded: %v, want %v", path, got, want)
		}
		if err := p.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSeekArguments checks that seeks, and no other calls without an offset, have the
// arguments whence and offset.
func TestSeekArguments(t *testing.T) {
	p, path := newTrace(t, &pfw.Options{NoBegin: true})
	log := p.FileLog()
	for op := range dispatch.FileOps {
		log.File("/data/a").Record(context.Background(), dispatch.FileCall{Op: op, Start: log.Now(), Size: -1, Offset: -1, Whence: 2})
	}
	if err := p.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, e := range dftest.Events(t, path) {
		if e.Cat != "POSIX" && e.Cat != "STDIO" {
			continue
		}
		seeks := e.Name == dispatch.FileSeek.String() || e.Name == dispatch.FileStdSeek.String()
		whence, moves := e.Arg("whence")
		if _, offset := e.Arg("offset"); moves != seeks || offset != seeks || seeks && whence.Int64() != 2 {
			t.Errorf("%s %s: whence %v, offset %v; want both only for a seek, whence 2", e.Cat, e.Name, moves, offset)
		}
	}
}
