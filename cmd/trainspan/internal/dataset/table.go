package dataset

import (
	"os"
	"path/filepath"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/trainspan/trainspan/internal/outfile"
)

// groupRows is how many rows a row group has: what statistics are kept of, and
// what an engine gives to one of its threads.
const groupRows = 1 << 17

// tableFile is a Parquet file that is being written.
type tableFile[T any] struct {
	file *os.File
	*parquet.GenericWriter[T]
}

// createTable begins a file, sorted by the given columns.
func createTable[T any](path, job string, sorted ...string) (*tableFile[T], error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // data to be read by others
		return nil, err
	}
	f, err := outfile.Create(path, 0o644)
	if err != nil {
		return nil, err
	}
	var columns []parquet.SortingColumn
	for _, name := range sorted {
		columns = append(columns, parquet.Ascending(name))
	}
	return &tableFile[T]{f, parquet.NewGenericWriter[T](f,
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}),
		parquet.MaxRowsPerRowGroup(groupRows),
		// Nobody looks for a range of these, and strings are dear to compare.
		parquet.SkipPageBounds("args"), parquet.SkipPageBounds("outer_cat"), parquet.SkipPageBounds("outer_name"), parquet.SkipPageBounds("host"),
		parquet.SortingWriterConfig(parquet.SortingColumns(columns...)),
		parquet.KeyValueMetadata("trainspan.schema", Version),
		parquet.KeyValueMetadata("trainspan.run", job),
		parquet.CreatedBy("trainspan", "", ""),
	)}, nil
}

// close ends the file and returns its size; err is why it is not complete, if it
// is not.
func (t *tableFile[T]) close(err error) (size int64, _ error) {
	if err == nil {
		err = t.Close()
	}
	if err == nil {
		var info os.FileInfo
		if info, err = t.file.Stat(); err == nil {
			size = info.Size()
		}
	}
	if closeErr := t.file.Close(); err == nil {
		err = closeErr
	}
	return size, err
}
