package dataset

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/trainspan/trainspan/internal/outfile"
)

// groupRows is how many rows a row group has: what statistics are kept of, and
// what an engine gives to one of its threads.
const groupRows = 1 << 17

// output is the files that a Job becomes.
type output struct {
	dir string
	job *Job

	mu      sync.Mutex
	written Written
	drafts  []*outfile.Draft // complete, of a Job that is a part

	events sync.Pool // of writers of events, whose memory the next file takes
}

// tableFile is a Parquet file that is being written.
type tableFile[T any] struct {
	to    *output
	draft *outfile.Draft
	size  int64
	*parquet.GenericWriter[T]
}

// createTable begins a file, sorted by the given columns, with a writer of a former file
// where the pool, which may be nil, has one.
func createTable[T any](to *output, pool *sync.Pool, name string, sorted ...string) (*tableFile[T], error) {
	path := filepath.Join(to.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // data to be read by others
		return nil, err
	}
	draft, err := outfile.Begin(path, 0o644)
	if err != nil {
		return nil, err
	}
	t := &tableFile[T]{to: to, draft: draft}
	if pool != nil {
		if w, ok := pool.Get().(*parquet.GenericWriter[T]); ok {
			w.Reset(countedWriter{draft, &t.size})
			t.GenericWriter = w
			return t, nil
		}
	}
	var columns []parquet.SortingColumn
	for _, name := range sorted {
		columns = append(columns, parquet.Ascending(name))
	}
	t.GenericWriter = parquet.NewGenericWriter[T](countedWriter{draft, &t.size},
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}),
		parquet.MaxRowsPerRowGroup(groupRows),
		// Nobody looks for a range of these, and strings are dear to compare.
		parquet.SkipPageBounds("args"), parquet.SkipPageBounds("outer_cat"), parquet.SkipPageBounds("outer_name"), parquet.SkipPageBounds("host"),
		parquet.SortingWriterConfig(parquet.SortingColumns(columns...)),
		parquet.KeyValueMetadata("trainspan.schema", Version),
		parquet.KeyValueMetadata("trainspan.run", to.job.Name),
		parquet.CreatedBy("trainspan", "", ""),
	)
	return t, nil
}

// countedWriter adds up what is written.
type countedWriter struct {
	io.Writer
	size *int64
}

func (w countedWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	*w.size += int64(n)
	return n, err
}

// close ends the file, or gives it up where err says why it is not complete, and counts
// its rows.
func (t *tableFile[T]) close(rows *int64, n int64, err error) error {
	if err == nil {
		err = t.Close()
	}
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

// publish names the files of a part, or gives them up. A file of the same name is that
// of a former conversion of the same ranks.
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

var errNoParquet = errors.New("the file that is there is no Parquet file")

func isParquet(f *os.File) error {
	magic := make([]byte, 4)
	if _, err := f.ReadAt(magic, 0); err != nil || string(magic) != "PAR1" {
		return errNoParquet
	}
	return nil
}
