package kineto

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// Member is one trace inside a file: the file itself, or one entry of a tar
// archive.
type Member struct {
	// Name is the file name given to Walk, or that name and the entry's
	// separated by a colon.
	Name string
	// Body is the decompressed text, valid during the call.
	Body io.Reader
}

// Walk calls fn with every trace in src, which may be plain, gzip (of one or
// many members), tar, or tar of gzip: the first bytes decide, never the name.
// Directories and entries of a tar that do not end in .json, .json.gz or .gz are
// passed over. fn need not read a body to its end; Walk reads the rest of a
// compressed one for its checksum. The first error ends the walk.
func Walk(src io.Reader, name string, fn func(Member) error) error {
	return (&walker{fn: fn}).walk(src, name, 0)
}

// walker holds one Walk.
type walker struct {
	fn func(Member) error
	// seen is the error that a body gave to fn, which knows of it then.
	seen error
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
	if err != nil && err != io.EOF && !damaged(err) {
		return fmt.Errorf("kineto: read %s: %w", name, err)
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}) && depth < 3:
		zr, err := gzip.NewReader(br)
		if err != nil {
			return fmt.Errorf("kineto: %s: %w", name, err)
		}
		defer zr.Close()
		if err := w.walk(zr, name, depth+1); err != nil {
			return err
		}
		return w.rest(zr, name)
	case len(head) >= 262 && string(head[257:262]) == "ustar" && depth < 3:
		return w.walkTar(br, name, depth)
	}
	return w.fn(Member{Name: name, Body: &witness{w, br}})
}

// rest reads what is left of a gzip stream, for the sake of its checksum: a
// trace ends before it. Damage that fn has met is left to it.
func (w *walker) rest(zr *gzip.Reader, name string) error {
	switch _, err := io.Copy(io.Discard, zr); {
	case err == nil, errors.Is(err, gzip.ErrHeader): // something else behind the last member
		return nil
	case errors.Is(err, gzip.ErrChecksum):
		return fmt.Errorf("kineto: %s: the checksum is wrong, so that what was read may be damaged: %w", name, err)
	case w.seen != nil && damaged(err):
		return nil
	case damaged(err):
		return fmt.Errorf("kineto: %s: the compressed file is cut off or damaged: %w", name, err)
	default:
		return fmt.Errorf("kineto: %s: %w", name, err)
	}
}

// counter counts the bytes that were read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

func (w *walker) walkTar(src io.Reader, name string, depth int) error {
	at := &counter{r: src}
	tr := tar.NewReader(at)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("kineto: %s: the archive ends early or is damaged at byte %d: %w", name, at.n, err)
		}
		if h.Typeflag != tar.TypeReg || !traceEntry(h.Name) {
			continue
		}
		if err := w.walk(tr, name+":"+h.Name, depth+1); err != nil {
			return err
		}
	}
}

func traceEntry(name string) bool {
	base := name[strings.LastIndexByte(name, '/')+1:]
	return !strings.HasPrefix(base, "._") && (strings.HasSuffix(base, ".json") || strings.HasSuffix(base, ".gz"))
}

// foreignMagic names the kinds of files that are met in profiler directories
// and are not Chrome traces. It returns nil for anything that may be one.
func foreignMagic(b []byte) error {
	const again = "export the profiler trace with export_chrome_trace"
	switch {
	case len(b) >= 2 && b[0] == 0x0a && !isSpace(b[1]) && b[1] != '{' && b[1] != '[':
		return &RefusedError{What: "a Perfetto protobuf (.pftrace)", Hint: "its format is not supported; " + again}
	case bytes.HasPrefix(b, []byte{0x80, 0x02}), bytes.HasPrefix(b, []byte{0x80, 0x03}), bytes.HasPrefix(b, []byte{0x80, 0x04}), bytes.HasPrefix(b, []byte{0x80, 0x05}):
		return &RefusedError{What: "a Python pickle (a CUDA memory snapshot)", Hint: again}
	case bytes.HasPrefix(b, []byte("PK\x03\x04")):
		return &RefusedError{What: "a zip archive", Hint: "unpack it first"}
	case bytes.HasPrefix(b, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return &RefusedError{What: "a zstd archive", Hint: "unpack it first"}
	case bytes.HasPrefix(b, []byte("<!DOC")), bytes.HasPrefix(b, []byte("<html")), bytes.HasPrefix(b, []byte("<!doc")):
		return &RefusedError{What: "an HTML page (a memory timeline or a compile report)", Hint: again}
	case len(b) >= 5 && (b[0] == 'V' || b[0] == 'I' || b[0] == 'W') && b[1] >= '0' && b[1] <= '1' && b[2] >= '0' && b[2] <= '9':
		return &RefusedError{What: "a TORCH_TRACE log", Hint: "give it as a compile log"}
	}
	return nil
}
