package iofs_test

import (
	"bufio"
	"bytes"
	"context"
	"embed"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/integrations/iofs"
	"github.com/trainspan/trainspan/internal/record/setup"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

//go:embed doc.go
var embedded embed.FS

// job is a provider that writes a trace.
type job struct {
	t    testing.TB
	tel  *telemetry.Provider
	path string
}

func newJob(t testing.TB, o pfw.FileOptions) *job {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.pfw")
	tel, err := telemetry.NewTrainingTelemetryBuilder().
		WithBaseConfig(config.Base{ApplicationName: "x", SessionTag: config.Value("x"), WorldSize: config.Value(1)}).
		WithExporter(pfw.New(path, &pfw.Options{Files: o, NoBegin: true})).ConfigureProvider(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	j := &job{t: t, tel: tel, path: path}
	t.Cleanup(func() { _ = tel.Shutdown(context.Background()) })
	return j
}

// events ends the job and returns the events of files.
func (j *job) events() (list []dftracer.Event) {
	j.t.Helper()
	if err := j.tel.Shutdown(context.Background()); err != nil {
		j.t.Fatal(err)
	}
	dftest.Check(j.t, j.path)
	for _, e := range dftest.Events(j.t, j.path) {
		if e.Cat == "POSIX" || e.Cat == "STDIO" {
			list = append(list, e)
		}
	}
	return list
}

// calls returns the events as text: name, file, arguments.
func (j *job) calls() (list []string) {
	j.t.Helper()
	events := j.events()
	paths := map[string]string{}
	for _, e := range dftest.Events(j.t, j.path) {
		if e.Name == tracefile.NameFileHash {
			name, hash := e.Meta()
			paths[hash] = name
		}
	}
	slices.SortFunc(events, func(a, b dftracer.Event) int { return int(a.ID) - int(b.ID) })
	for _, e := range events {
		var b strings.Builder
		b.WriteString(e.Cat[:1] + " " + e.Name)
		for _, a := range e.Args {
			if a.Key == "fhash" {
				if paths[a.Text()] == "" {
					j.t.Errorf("no name for %s", a.Text())
				}
				b.WriteString(" " + filepath.Base(paths[a.Text()]))
				continue
			}
			b.WriteString(" " + a.Key + "=" + a.Text())
		}
		list = append(list, b.String())
	}
	return list
}

func (j *job) want(lines ...string) {
	j.t.Helper()
	if got := j.calls(); !slices.Equal(got, lines) {
		j.t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(lines, "\n"))
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestOSFile(t *testing.T) {
	j := newJob(t, pfw.FileOptions{})
	files := iofs.New(j.tel)
	path := filepath.Join(t.TempDir(), "shard.bin")
	f, err := files.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
	check(t, err)
	_, err = f.Write(make([]byte, 100))
	check(t, err)
	_, err = f.WriteString("12345")
	check(t, err)
	_, err = f.WriteAt([]byte("ab"), 50)
	check(t, err)
	check(t, f.Sync())
	at, err := f.Seek(-5, io.SeekEnd)
	if err != nil || at != 100 {
		t.Fatalf("Seek() = %d, %v; want 100", at, err)
	}
	buf := make([]byte, 8)
	n, err := f.Read(buf)
	if n != 5 || err != nil {
		t.Fatalf("Read() = %d, %v; want 5", n, err)
	}
	if _, err = f.Read(buf); err != io.EOF {
		t.Fatal(err)
	}
	if n, err = f.ReadAt(buf, 48); n != 8 || err != nil || string(buf[2:4]) != "ab" {
		t.Fatalf("ReadAt() = %d, %v, %q; want 8 and ab as bytes 2 and 3", n, err, buf)
	}
	check(t, f.Truncate(10))
	info, err := f.Stat()
	if err != nil || info.Size() != 10 {
		t.Fatal(err)
	}
	check(t, f.Close())
	if _, err := f.Read(buf); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
	if _, err := files.Open(path + ".none"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	j.want(
		"P open64 shard.bin ret=0", "P write shard.bin ret=100 size=100", "P write shard.bin ret=5 size=5",
		"P pwrite shard.bin ret=2 size=2 offset=50", "P fsync shard.bin ret=0", "P lseek64 shard.bin ret=100 offset=-5 whence=2",
		"P read shard.bin ret=5 size=8", "P read shard.bin ret=0 size=8", "P pread shard.bin ret=8 size=8 offset=48",
		"P ftruncate shard.bin ret=0", "P stat shard.bin ret=0", "P close shard.bin ret=0", "P read shard.bin ret=-1 size=8",
		"P open64 shard.bin.none ret=-1",
	)
}

func TestReadFile(t *testing.T) {
	j := newJob(t, pfw.FileOptions{})
	files := iofs.New(j.tel)
	path := filepath.Join(t.TempDir(), "a")
	for _, size := range []int{0, 1, 511, 512, 513, 100_000} {
		want := bytes.Repeat([]byte("x"), size)
		check(t, os.WriteFile(path, want, 0o600))
		if got, err := files.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("ReadFile of %d bytes: %d, %v; want the same bytes", size, len(got), err)
		}
	}
	for _, path := range []string{path + "none", filepath.Dir(path)} {
		if _, err := files.ReadFile(path); err == nil {
			t.Errorf("ReadFile(%s): no error, want one", path)
		}
	}
}

// TestCopy checks that copies from file to file have a record on both sides.
func TestCopy(t *testing.T) {
	for name, limit := range map[string]int64{"whole": -1, "part": 40} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t, pfw.FileOptions{})
			files := iofs.New(j.tel)
			dir := t.TempDir()
			check(t, os.WriteFile(filepath.Join(dir, "from"), make([]byte, 64), 0o600))
			from, err := files.Open(filepath.Join(dir, "from"))
			check(t, err)
			defer from.Close()
			to, err := files.OpenFile(filepath.Join(dir, "to"), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
			check(t, err)
			defer to.Close()
			var n int64
			if limit < 0 {
				n, err = io.Copy(to, from)
			} else {
				n, err = io.CopyN(to, from, limit)
			}
			want := map[bool]int64{true: 64, false: limit}[limit < 0]
			if err != nil || n != want {
				t.Fatalf("copied %d bytes, %v; want %d", n, err, want)
			}
			got := strings.Join(j.calls(), "\n")
			size := map[int64]string{64: "ret=64", 40: "ret=40"}[want]
			if !strings.Contains(got, "P sendfile from "+size) || !strings.Contains(got, "P copy_file_range to "+size) {
				t.Errorf("records are %s, want sendfile and copy_file_range with %s", got, size)
			}
		})
	}
}

// TestDataDirs checks that files below the folders are recorded, and others are
// not wrapped.
func TestDataDirs(t *testing.T) {
	dir := t.TempDir()
	data, other := filepath.Join(dir, "data"), filepath.Join(dir, "database")
	for _, d := range []string{data, other} {
		check(t, os.Mkdir(d, 0o700))
		check(t, os.WriteFile(filepath.Join(d, "f"), []byte("text"), 0o600))
	}
	j := newJob(t, pfw.FileOptions{Dirs: []string{data + "/", "s3://bucket/"}})
	files := iofs.New(j.tel)
	r := strings.NewReader("x")
	for path, want := range map[string]bool{
		filepath.Join(data, "f"): true, data: true, filepath.Join(data, "..", "data", "g"): true, "s3://bucket/k": true,
		filepath.Join(other, "f"): false, filepath.Join(data, "..", "f"): false, "s3://bucket2/k": false, "relative": false,
	} {
		if wrapped := files.Reader(r, path) != io.Reader(r); wrapped != want {
			t.Errorf("%s: wrapped %v, want %v", path, wrapped, want)
		}
	}
	fsys := files.FS(os.DirFS(dir), dir)
	for _, name := range []string{"data/f", "database/f"} {
		if text, err := fs.ReadFile(fsys, name); err != nil || string(text) != "text" {
			t.Errorf(`ReadFile() = %q, %v; want "text"`, string(text), err)
		}
	}
	plain, err := fsys.Open("database/f")
	check(t, err)
	if _, ok := plain.(*os.File); !ok {
		t.Errorf("file outside the directories is a %T, want an *os.File", plain)
	}
	check(t, plain.Close())
	j.want("P read f ret=4 size=4")
}

func TestSwitchedOff(t *testing.T) {
	r := bufio.NewReader(strings.NewReader("x"))
	for name, files := range map[string]*iofs.Files{
		"nil": nil, "zero": {}, "no provider": iofs.New(nil), "off": iofs.New(newJob(t, pfw.FileOptions{Off: true}).tel),
		"both": iofs.New(newJob(t, pfw.FileOptions{NoPOSIX: true, NoSTDIO: true}).tel),
	} {
		files = files.With(t.Context())
		if files.Reader(r, "/x") != io.Reader(r) {
			t.Errorf("%s: reader is wrapped, want it as it is", name)
		}
		if _, ok := files.FS(embedded, "embed://x").(embed.FS); !ok {
			t.Errorf("%s: file system is wrapped, want it as it is", name)
		}
		if _, ok := files.HTTP(http.Dir("/"), "/").(http.Dir); !ok {
			t.Errorf("%s: http.FileSystem is wrapped, want it as it is", name)
		}
		f, err := files.Open("doc.go")
		check(t, err)
		if _, err := io.Copy(io.Discard, f); err != nil {
			t.Error(err)
		}
		check(t, f.Close())
	}
	for name, o := range map[string]pfw.FileOptions{"STDIO": {NoPOSIX: true}, "POSIX": {NoSTDIO: true}} {
		j := newJob(t, o)
		files := iofs.New(j.tel)
		for _, r := range []io.Reader{r, strings.NewReader("x")} {
			_, _ = files.Reader(r, "/x").Read(make([]byte, 1))
		}
		list := j.events()
		if len(list) != 1 || list[0].Cat != name {
			t.Errorf("with %s alone there are events %v, want one of this category", name, list)
		}
	}
}

// TestStdio checks that package bufio is recorded as C's streams are.
func TestStdio(t *testing.T) {
	j := newJob(t, pfw.FileOptions{})
	files := iofs.New(j.tel)
	var out bytes.Buffer
	w := bufio.NewWriter(&out)
	_, err := files.Writer(w, "/out").Write([]byte("12345"))
	check(t, err)
	_, err = io.ReadAll(files.Reader(bufio.NewReader(strings.NewReader("1234567")), "/in"))
	check(t, err)
	j.want("S fwrite out ret=5 size=5", "S fread in ret=7 size=512", "S fread in ret=0 size=505")
}

func TestFS(t *testing.T) {
	memory := fstest.MapFS{"a/b.txt": {Data: []byte("hello")}, "a/c.txt": {Data: []byte("you")}}
	for name, fsystem := range map[string]fs.FS{"memory": memory, "only Open": struct{ fs.FS }{memory}} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t, pfw.FileOptions{})
			wrapped := iofs.New(j.tel).FS(fsystem, "memory://x")
			check(t, fstest.TestFS(wrapped, "a/b.txt", "a/c.txt"))
			for _, of := range []func(fs.FS) (any, error){
				func(x fs.FS) (any, error) { return fs.Glob(x, "a/*.txt") },
				func(x fs.FS) (any, error) {
					sub, err := fs.Sub(x, "a")
					check(t, err)
					data, err := fs.ReadFile(sub, "b.txt")
					return string(data), err
				},
			} {
				got, err := of(wrapped)
				want, _ := of(fsystem)
				if err != nil || !equal(got, want) {
					t.Errorf("read %v, %v; want %v", got, err, want)
				}
			}
			all := strings.Join(j.calls(), "\n")
			for _, part := range []string{"P open64 b.txt ret=0", "P stat b.txt", "P getdents64 a ", "P read b.txt ret=5", "P close c.txt", "P open64"} {
				if !strings.Contains(all, part) {
					t.Errorf("want %q in\n%s", part, all)
				}
			}
		})
	}
}

func equal(a, b any) bool {
	x, ok := a.([]string)
	if !ok {
		return a == b
	}
	return slices.Equal(x, b.([]string))
}

func TestHTTP(t *testing.T) {
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "weights.bin"), bytes.Repeat([]byte("w"), 10_000), 0o600))
	for name, fsystem := range map[string]http.FileSystem{"folder": http.Dir(dir), "fs.FS": http.FS(os.DirFS(dir))} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t, pfw.FileOptions{})
			h := http.FileServer(iofs.New(j.tel).HTTP(fsystem, dir))
			for path, want := range map[string]int{"/weights.bin": 10_000, "/": -1, "/../../weights.bin": -1} {
				rec := httptest.NewRecorder()
				h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(t.Context()))
				rec = httptest.NewRecorder()
				req := httptest.NewRequest(http.MethodGet, "http://x"+path, nil)
				h.ServeHTTP(rec, req)
				if want >= 0 && rec.Body.Len() != want {
					t.Errorf("%s: %d bytes, want %d", path, rec.Body.Len(), want)
				}
			}
			all := strings.Join(j.calls(), "\n")
			for _, part := range []string{"open64 weights.bin ret=0", "stat weights.bin", "getdents64", "close weights.bin"} {
				if !strings.Contains(all, part) {
					t.Errorf("want %q in\n%s", part, all)
				}
			}
		})
	}
}

// TestParents checks that a call nests below the span of its context or else
// below that of a callback, and lies inside it in time.
func TestParents(t *testing.T) {
	j := newJob(t, pfw.FileOptions{})
	files := iofs.New(j.tel)
	read := func(f *iofs.Files, path string) {
		_, _ = f.ReaderAt(strings.NewReader("text"), path).ReadAt(make([]byte, 2), 1)
	}
	read(files, "/root")
	cb := callbacks.New(j.tel)
	ctx, err := cb.OnAppStart(context.Background())
	check(t, err)
	loading, load := j.tel.Start(ctx, spans.DataLoading)
	own := files.With(loading)
	read(own, "/loading")
	load.End()
	read(own, "/later")
	read(files, "/app")
	check(t, cb.OnAppEnd(ctx))
	names := map[int64]string{-1: "nothing"}
	parents := map[string]string{}
	events := append(j.events(), dftest.Events(t, j.path)...)
	paths := map[string]string{}
	for _, e := range events {
		if e.Phase == dftracer.PhaseComplete {
			names[int64(e.ID)] = e.Name
		}
		if e.Name == tracefile.NameFileHash {
			name, hash := e.Meta()
			paths[hash] = name
		}
	}
	for _, e := range events {
		if e.Name == "pread" {
			a, _ := e.Arg("fhash")
			parents[paths[a.Text()]] = names[e.Parent]
		}
	}
	for path, want := range map[string]string{"/root": "nothing", "/loading": "fetch.iter", "/later": "ai_root", "/app": "ai_root"} {
		if parents[path] != want {
			t.Errorf("the parent of %s is %s, want %s", path, parents[path], want)
		}
	}
}

func TestAggregate(t *testing.T) {
	j := newJob(t, pfw.FileOptions{Aggregate: true})
	files := iofs.New(j.tel)
	const calls = 50
	r := files.Reader(strings.NewReader(strings.Repeat("x", 10*calls)), "/a")
	for i := range calls {
		_, err := r.Read(make([]byte, 5+10*(i%2)))
		check(t, err)
	}
	_, _ = files.Open("/none/such")
	var n, sum, least, most, failed int64
	value := func(e *dftracer.Event, key string) int64 {
		a, ok := e.Arg(key)
		if !ok {
			return 0
		}
		return a.Int64()
	}
	events := j.events()
	for i := range events {
		e := &events[i]
		if e.Phase != dftracer.PhaseCounter || e.TS%1e6 != 0 {
			t.Errorf("event %+v, want a counter at a full second", e)
		}
		failed += value(e, "failed")
		if e.Name == "read" {
			n, sum = n+value(e, tracefile.ArgCalls), sum+value(e, "size_sum")
			least, most = value(e, "size_min"), value(e, "size_max")
		}
	}
	if n != calls || sum != 10*calls || least != 5 || most != 15 || failed != 1 || len(events) > 6 {
		t.Errorf("%d calls, %d bytes, %d to %d, %d failed, %d events; want %d calls, 10 bytes each, 5 to 15, 1 failed, at most 6 events", n, sum, least, most, failed, len(events), calls)
	}
}

// TestEnvironment checks the variables of the configuration.
func TestEnvironment(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	check(t, os.Mkdir(data, 0o700))
	for _, path := range []string{filepath.Join(data, "a"), filepath.Join(dir, "b")} {
		check(t, os.WriteFile(path, []byte("text"), 0o600))
	}
	for name, c := range map[string]struct {
		environ []string
		want    string // the names of the events
	}{
		"all":       {nil, "close close fread open64 open64 read read read read stat stat"},
		"DATA_DIR":  {[]string{"DFTRACER_DATA_DIR=/nowhere:" + data}, "close fread open64 read read stat"},
		"IO":        {[]string{"DFTRACER_DISABLE_IO=1"}, ""},
		"POSIX":     {[]string{"DFTRACER_DISABLE_POSIX=1"}, "fread"},
		"STDIO":     {[]string{"DFTRACER_DISABLE_STDIO=1"}, "close close open64 open64 read read read read stat stat"},
		"aggregate": {[]string{"TRAINSPAN_TRACE_AGGREGATE_IO=1", "DFTRACER_DATA_DIR=" + data}, "close fread open64 read stat"},
	} {
		t.Run(name, func(t *testing.T) {
			trace := filepath.Join(t.TempDir(), "trace.pfw")
			cfg, err := config.Load(config.LoadOptions{LookupEnv: config.Environ(append(c.environ,
				"DFTRACER_LOG_FILE="+trace, "TRAINSPAN_SESSION_TAG=x", "TRAINSPAN_WORLD_SIZE=1", "TRAINSPAN_APPLICATION_NAME=x"))})
			check(t, err)
			b, _, err := setup.NewBuilder(context.Background(), cfg, nil)
			check(t, err)
			tel, err := b.ConfigureProvider(context.Background())
			check(t, err)
			files := iofs.New(tel)
			for _, path := range []string{filepath.Join(data, "a"), filepath.Join(dir, "b")} {
				if _, err := files.ReadFile(path); err != nil {
					t.Error(err)
				}
			}
			_, _ = files.Reader(bufio.NewReader(strings.NewReader("x")), filepath.Join(data, "a")).Read(make([]byte, 1))
			var names []string
			for _, e := range (&job{t: t, tel: tel, path: trace}).events() {
				names = append(names, e.Name)
			}
			slices.Sort(names)
			if got := strings.Join(slices.Compact(append([]string(nil), names...)), " "); name == "aggregate" && got == c.want {
				return // the next second may have begun
			}
			if got := strings.Join(names, " "); got != c.want {
				t.Errorf("calls on record: %s, want %s", got, c.want)
			}
		})
	}
}
