package report

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/trainspan/trainspan/internal/outfile"
)

// pageMark is in the head of every page that HTML writes.
var pageMark = []byte(`<meta name="generator" content="trainspan">`)

// WritePage writes a report as the page of a path, in one step. It replaces an
// earlier page of this package and an empty file; for anything else that is there
// the error matches fs.ErrExist.
func WritePage(path string, r *Report) error {
	d, err := outfile.Begin(path, 0o644)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := HTML(d, r); err != nil {
		d.Discard()
		return err
	}
	if err := d.Publish(IsPage); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// IsPage returns nil for a page that [HTML] wrote and for an empty file, and else
// an error that matches fs.ErrExist.
func IsPage(f *os.File) error {
	head := make([]byte, 512)
	n, err := io.ReadFull(f, head)
	if n > 0 && !bytes.Contains(head[:n], pageMark) {
		return &fs.PathError{Op: "replace", Path: f.Name(), Err: errNoPage}
	}
	if n == 0 && err != io.EOF {
		return err
	}
	return nil
}

var errNoPage = fmt.Errorf("it is no report of trainspan: %w", fs.ErrExist)
