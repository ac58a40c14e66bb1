package torch_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/trainspan/trainspan/internal/ingest/torch"
	"github.com/trainspan/trainspan/internal/testkit/gziptest"
)

func small(rank int) []byte {
	return profileOf(hostRow("cpu_op", "aten::add", 100+rank, 0, 90, ""), hostRow("cpu_op", "aten::mul", 100+rank, 100, 90, ""))
}

func tarOf(t *testing.T, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := range n {
		body := small(i)
		if err := w.WriteHeader(&tar.Header{Name: string(rune('a'+i)) + ".json", Size: int64(len(body)), Mode: 0o600, Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestCutTarKeepsTheRanksBefore(t *testing.T) {
	whole := tarOf(t, 4)
	// In the header of the third member.
	cut := whole[:2*(len(whole)-1024)/4+100]
	for name, data := range map[string][]byte{"x.tar": cut, "x.tar.gz": gziptest.Pack(cut)} {
		c := &capture{}
		rep, err := importBytes(t.Context(), c, nil, name, data)
		if err != nil || len(rep.Files) != 2 || len(rep.Failed) != 1 || !strings.Contains(rep.Failed[0].Err.Error(), "at byte") {
			t.Errorf("%s: error %v, %d files, failed %v; want 2 files, 1 failed at a byte", name, err, len(rep.Files), rep.Failed)
		}
		if n := len(c.pick("PP", "")); n != 4 {
			t.Errorf("%s: %d rows, want 4", name, n)
		}
	}
}

func TestBrokenSourceLeavesTheOthers(t *testing.T) {
	boom := errors.New("no such device")
	c := &capture{}
	rep, err := torch.Import(t.Context(), c, []torch.Source{
		{Name: "closed", Open: func() (io.ReadCloser, error) { return nil, boom }},
		fromBytes("good.json", small(0)),
		{Name: "nothing"},
		{Name: "torn", Open: func() (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(bytes.NewReader(small(0)[:150]), failing{boom})), nil
		}},
	}, nil)
	if err != nil || len(rep.Files) != 1 || len(rep.Failed) != 3 || len(c.pick("PP", "")) != 2 {
		t.Errorf("error %v, want 1 file, 3 failed, 2 rows: %s", err, rep)
	}
	if !errors.Is(rep.Failed[0].Err, boom) || !errors.Is(rep.Failed[2].Err, boom) {
		t.Errorf("failed %v", rep.Failed)
	}
	if _, err := torch.Import(t.Context(), c, []torch.Source{{Name: "closed", Open: func() (io.ReadCloser, error) { return nil, boom }}}, nil); !errors.Is(err, boom) {
		t.Errorf("nothing else was there: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestGzipChecksumIsChecked(t *testing.T) {
	data := gziptest.Pack(small(0))
	for name, at := range map[string]int{"checksum": len(data) - 6, "length": len(data) - 2} {
		bad := bytes.Clone(data)
		bad[at] ^= 0x55
		rep, err := importBytes(t.Context(), nil, nil, "x.json.gz", bad)
		if err != nil || len(rep.Files) != 1 || len(rep.Failed) != 1 || !errors.Is(rep.Failed[0].Err, gzip.ErrChecksum) {
			t.Errorf("%s: error %v, failed %v; want one file, one with a wrong checksum", name, err, rep.Failed)
		}
	}
	rep, err := importBytes(t.Context(), nil, nil, "x.json.gz", data[:len(data)-4])
	if err != nil || len(rep.Failed) != 1 {
		t.Errorf("cut trailer: error %v, failed %v; want one failed", err, rep.Failed)
	}
	// What follows after the last member is ignored.
	rep, err = importBytes(t.Context(), nil, nil, "x.json.gz", append(bytes.Clone(data), make([]byte, 512)...))
	if err != nil || len(rep.Failed) != 0 {
		t.Errorf("padding: error %v, failed %v; want none", err, rep.Failed)
	}
}

func TestOneFileUnderManyNamesIsReadOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.json")
	if err := os.WriteFile(path, small(0), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a.json", filepath.Join(dir, "b.json")); err != nil {
		t.Skip(err)
	}
	if err := os.Link(path, filepath.Join(dir, "c.json")); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "d.json")); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	if err := os.Symlink(path, filepath.Join(other, "only.json")); err != nil {
		t.Fatal(err)
	}
	for _, paths := range [][]string{{dir}, {dir, path}, {path, dir, filepath.Join(dir, "b.json")}, {other, dir}, {other}} {
		srcs, err := torch.Files(paths...)
		if err != nil || len(srcs) != 1 {
			t.Errorf("%v: %d sources, %v; want 1", paths, len(srcs), err)
		}
	}
}

// All ranks of an import share one temporary file.
func TestManyRanksNeedFewFiles(t *testing.T) {
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip(err)
		}
		return len(entries)
	}
	before := count()
	var srcs []torch.Source
	for rank := range 90 {
		srcs = append(srcs, rankTrace(rank, 90, hostRow("cpu_op", "aten::add", 100, 0, 90, "")))
	}
	most := 0
	opts := &torch.Options{Begin: func(time.Time) (torch.Sink, error) {
		most = count()
		return &nullSink{}, nil
	}}
	if _, err := torch.Import(t.Context(), nil, srcs, opts); err != nil {
		t.Fatal(err)
	}
	if most-before > 4 {
		t.Errorf("%d files are open for 90 ranks, want at most 4", most-before)
	}
}
