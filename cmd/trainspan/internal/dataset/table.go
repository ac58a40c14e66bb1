package dataset

import (
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/parquet-go/parquet-go"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/parquetfile"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
)

// groupRows is the number of rows of a row group. A row group has statistics,
// and an engine processes it in one thread.
const groupRows = 1 << 17

// output holds the files of a Job.
type output struct {
	dir string
	job *Job

	mu      sync.Mutex
	written Written
	drafts  []*fswrite.Draft // complete files without their names, if the Job is a part

	events sync.Pool // files of events, whose memory is reused for the next one
}

// options returns the options of parquet-go for a table.
func (o *output) options() []parquet.WriterOption {
	return []parquet.WriterOption{
		parquet.KeyValueMetadata("trainspan.schema", Version),
		parquet.KeyValueMetadata("trainspan.run", o.job.Name),
		parquet.CreatedBy("trainspan", "", ""),
	}
}

// schemaOf returns the schema of a table whose rows are sorted by some columns.
func schemaOf[T any](o *output, sorted ...string) (*parquetfile.Schema, error) {
	return parquetfile.SchemaOf[T](sorted, o.options()...)
}

// tableFile is a Parquet file that is being written.
type tableFile struct {
	to    *output
	draft *fswrite.Draft
	size  int64
}

// create begins a file.
func (o *output) create(name string) (*tableFile, error) {
	path := filepath.Join(o.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // data to be read by others
		return nil, err
	}
	draft, err := fswrite.Begin(path, 0o644)
	if err != nil {
		return nil, err
	}
	return &tableFile{to: o, draft: draft}, nil
}

// Write implements io.Writer and counts the bytes.
func (t *tableFile) Write(p []byte) (int, error) {
	n, err := t.draft.Write(p)
	t.size += int64(n)
	return n, err
}

// close gives the file its name and counts its n rows, or discards it if err is
// not nil, which means that it is incomplete.
func (t *tableFile) close(rows *int64, n int64, err error) error {
	if err != nil {
		t.draft.Discard()
		return err
	}
	part := t.to.job.Part
	if part {
		err = t.draft.End()
	} else {
		err = t.draft.Publish(nil)
	}
	t.to.mu.Lock()
	defer t.to.mu.Unlock()
	*rows += n
	t.to.written.Bytes += t.size
	if part {
		t.to.drafts = append(t.to.drafts, t.draft)
	}
	return err
}

// publish gives the files of a part their names, or discards them if err is not
// nil. It replaces existing files, which are from an earlier conversion of the
// same ranks.
func (o *output) publish(err error) error {
	for _, d := range o.drafts {
		if err == nil {
			err = d.Publish(isParquet)
		} else {
			d.Discard()
		}
	}
	return err
}

var errNoParquet = errors.New("the existing file is not a Parquet file")

func isParquet(f *os.File) error {
	magic := make([]byte, 4)
	if _, err := f.ReadAt(magic, 0); err != nil || string(magic) != "PAR1" {
		return errNoParquet
	}
	return nil
}

// table numbers values that many rows share, from 1. Its Builder's lock guards
// it.
type table[K comparable] struct {
	ids  map[K]uint32
	list []K
}

func (t *table[K]) idOf(k K) uint32 {
	id, ok := t.ids[k]
	if !ok {
		if t.ids == nil {
			t.ids = make(map[K]uint32)
		}
		t.list = append(t.list, k)
		id = uint32(len(t.list))
		t.ids[k] = id
	}
	return id
}

// value returns the value of a number.
func (t *table[K]) value(id uint32) *K { return &t.list[id-1] }

// spanName holds the values that spans of one kind share.
type spanName struct {
	cat, name string
	phase     dftracer.Phase
}
