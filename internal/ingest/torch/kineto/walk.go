package kineto

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/trainspan/trainspan/internal/platform/fsread"
)

// Member is one trace inside a file: the file itself, or one entry of a tar
// archive.
type Member struct {
	// Name is the file name given to Walk, or that name and the entry's, separated
	// by a colon.
	Name string
	// Body is the decompressed text, valid during the call.
	Body io.Reader
}

// Walk calls fn with every trace in src, which may be plain, gzip (with one or
// many members), tar, or tar of gzip: the first bytes decide, never the name.
// Directories and tar entries that do not end in .json, .json.gz or .gz are
// skipped. fn need not read a body to its end; Walk reads the rest of a
// compressed one for its checksum. The first error ends the walk; a file that
// expands to more than 1,100 times its size is an error.
func Walk(src io.Reader, name string, fn func(Member) error) error {
	w := &walker{fn: fn, src: &fsread.Counter{R: src}}
	return w.walk(w.src, name, 0)
}

const (
	// maxInflation is more than one layer of gzip can reach. Nested gzip, and the
	// holes of a tar, could reach any factor.
	maxInflation   = 1100
	inflationLeast = 64 << 20
)

var errInflation = errors.New("it expands to more than 1,100 times its size")

// walker holds one Walk.
type walker struct {
	fn  func(Member) error
	src *fsread.Counter
	// seen is the error that a body returned to fn, which therefore knows it.
	seen error
}

// bounded reads the contents of a layer of a file.
type bounded struct {
	w *walker
	r io.Reader
	n int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.n += int64(n); b.n > maxInflation*b.w.src.N+inflationLeast {
		return 0, errInflation
	}
	return n, err
}

// witness remembers the error of a body.
type witness struct {
	w *walker
	r io.Reader
}

func (b *witness) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err != nil && err != io.EOF {
		b.w.seen = err
	}
	return n, err
}

func (w *walker) walk(src io.Reader, name string, depth int) error {
	br := bufio.NewReaderSize(src, 64<<10)
	head, err := br.Peek(512)
	if err != nil && err != io.EOF && !fsread.Torn(err) {
		return fmt.Errorf("kineto: read %s: %w", name, err)
	}
	switch {
	case fsread.IsGzip(head) && depth < 3:
		zr, err := gzip.NewReader(br)
		if err != nil {
			return fmt.Errorf("kineto: %s: %w", name, err)
		}
		defer zr.Close()
		body := &bounded{w: w, r: zr}
		if err := w.walk(body, name, depth+1); err != nil {
			return err
		}
		return w.drainGzip(body, name)
	case fsread.IsTar(head) && depth < 3:
		return w.walkTar(br, name, depth)
	}
	return w.fn(Member{Name: name, Body: &witness{w, br}})
}

// drainGzip reads the rest of a gzip stream for its checksum, because a trace
// ends before it. Errors that fn has seen are not returned again.
func (w *walker) drainGzip(zr io.Reader, name string) error {
	switch _, err := io.Copy(io.Discard, zr); {
	case err == nil, errors.Is(err, gzip.ErrHeader): // something else after the last member
		return nil
	case errors.Is(err, gzip.ErrChecksum):
		return fmt.Errorf("kineto: %s: wrong checksum, the data may be damaged: %w", name, err)
	case w.seen != nil && fsread.Torn(err):
		return nil
	case fsread.Torn(err):
		return fmt.Errorf("kineto: %s: the compressed file is truncated or damaged: %w", name, err)
	default:
		return fmt.Errorf("kineto: %s: %w", name, err)
	}
}

func (w *walker) walkTar(src io.Reader, name string, depth int) error {
	at := &fsread.Counter{R: src}
	tr := tar.NewReader(at)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("kineto: %s: the archive is truncated or damaged at byte %d: %w", name, at.N, err)
		}
		if h.Typeflag != tar.TypeReg || !traceEntry(h.Name) {
			continue
		}
		if err := w.walk(&bounded{w: w, r: tr}, name+":"+h.Name, depth+1); err != nil {
			return err
		}
	}
}

func traceEntry(name string) bool {
	base := name[strings.LastIndexByte(name, '/')+1:]
	return !strings.HasPrefix(base, "._") && (strings.HasSuffix(base, ".json") || strings.HasSuffix(base, ".gz"))
}

// foreignMagic names the kinds of files that are common in profiler directories
// and are not Chrome traces. It returns nil for anything that may be one.
func foreignMagic(b []byte) error {
	if fsread.IsLog(b) {
		return &RefusedError{What: "a TORCH_TRACE log", Hint: "pass it as a compile log"}
	}
	if what, hint := fsread.Foreign(b); what != "" {
		return &RefusedError{What: what, Hint: hint}
	}
	return nil
}
