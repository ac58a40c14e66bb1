// Package parquetfile writes Parquet files from values that are in columns.
//
// Schemas, encodings, compression and the structures of the format are those of
// parquet-go. Its writer takes rows: it visits each value by reflection and
// looks it up in a hash table. A [Writer] takes a page of a column at a time,
// and the caller numbers the values that many rows share.
package parquetfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Schema is what all files of a table have in common.
type Schema struct {
	footer format.FileMetaData // of a file without rows
	leaves []leaf
	sorted []format.SortingColumn
}

// leaf is a column of a schema.
type leaf struct {
	name       string
	path       []string
	kind       parquet.Kind
	encoding   format.Encoding
	repetition int // highest level
	definition int
}

// SchemaOf returns the schema that parquet-go derives from a struct, for files
// whose rows are in the order of some columns. The options give the metadata of
// the files. Columns have integers or texts, which may be optional or in a list,
// not both.
func SchemaOf[T any](sorted []string, options ...parquet.WriterOption) (*Schema, error) {
	empty := parquet.NewGenericWriter[T](io.Discard, options...)
	if err := empty.Close(); err != nil {
		return nil, err
	}
	s := &Schema{footer: *empty.File().Metadata()}
	for _, path := range empty.Schema().Columns() {
		column, _ := empty.Schema().Lookup(path...)
		l := leaf{
			name: strings.Join(path, "."), path: path, kind: column.Node.Type().Kind(),
			repetition: column.MaxRepetitionLevel, definition: column.MaxDefinitionLevel,
		}
		switch encoding := column.Node.Encoding(); {
		case encoding != nil:
			l.encoding = encoding.Encoding()
		case l.kind == parquet.ByteArray:
			l.encoding = format.DeltaLengthByteArray
		}
		if !l.writable() {
			return nil, fmt.Errorf("parquetfile: cannot write column %s of %v with encoding %v and levels up to %d and %d", l.name, l.kind, l.encoding, l.repetition, l.definition)
		}
		s.leaves = append(s.leaves, l)
	}
	for _, name := range sorted {
		at := slices.IndexFunc(s.leaves, func(l leaf) bool { return l.name == name })
		if at < 0 {
			return nil, fmt.Errorf("parquetfile: no column %s", name)
		}
		s.sorted = append(s.sorted, format.SortingColumn{ColumnIdx: int32(at)})
	}
	return s, nil
}

// writable reports whether a Column can write it.
func (l *leaf) writable() bool {
	if l.repetition > 1 || l.definition > 1 {
		return false
	}
	switch l.kind {
	case parquet.Int32:
		return l.encoding == format.Plain || l.encoding == format.RLEDictionary
	case parquet.Int64:
		return l.encoding == format.Plain || l.encoding == format.RLEDictionary || l.encoding == format.DeltaBinaryPacked
	case parquet.ByteArray:
		return l.encoding == format.DeltaLengthByteArray || l.encoding == format.RLEDictionary
	}
	return false
}

// Writer writes a file. For each page the caller passes the values of all
// columns and calls EndPage. It is not safe for concurrent use, and neither are
// its columns.
type Writer struct {
	to      io.Writer
	size    int64
	schema  *Schema
	columns []Column
	limit   int64 // rows of a row group
	rows    int64 // in the row group
	groups  []format.RowGroup
	indexes [][]pageIndex // of the columns of each row group
	encoder *zstd.Encoder
	err     error // the first one

	// Buffers of the page that is being encoded.
	indices []int32
	levels  []byte
	body    []byte
	packed  []byte // compressed
	header  bytes.Buffer
	thrift  *thrift.Encoder
}

// pageIndex holds where the pages of a column in a row group are, and their
// bounds.
type pageIndex struct {
	offsets format.OffsetIndex
	bounds  format.ColumnIndex
}

// New returns a Writer for files with row groups of about limit rows.
func New(schema *Schema, limit int) *Writer {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderCRC(false), zstd.WithZeroFrames(true))
	if err != nil {
		panic(err) // the options are wrong
	}
	w := &Writer{schema: schema, columns: make([]Column, len(schema.leaves)), limit: int64(limit), encoder: encoder}
	for i := range w.columns {
		l := &schema.leaves[i]
		w.columns[i] = Column{w: w, leaf: l, dictionary: dictionary{isText: l.kind == parquet.ByteArray}}
	}
	w.thrift = thrift.NewEncoder(new(thrift.CompactProtocol).NewWriter(&w.header))
	return w
}

// Reset begins a file.
func (w *Writer) Reset(to io.Writer) {
	w.to, w.size, w.err = to, 0, nil
	w.groups, w.indexes = w.groups[:0], w.indexes[:0]
	w.beginGroup()
	w.write([]byte("PAR1"))
}

// Column returns the column with a name, whose parts are separated by dots. It
// panics if there is none.
func (w *Writer) Column(name string) *Column {
	for i := range w.columns {
		if w.columns[i].name == name {
			return &w.columns[i]
		}
	}
	panic("parquetfile: no column " + name)
}

// Size returns the number of bytes written.
func (w *Writer) Size() int64 { return w.size }

func (w *Writer) fail(err error) {
	if w.err == nil && err != nil {
		w.err = fmt.Errorf("parquetfile: %w", err)
	}
}

func (w *Writer) write(p []byte) {
	if w.err != nil {
		return
	}
	n, err := w.to.Write(p)
	w.size += int64(n)
	if err != nil {
		w.err = err
	}
}

// encodeLevels returns the bytes of levels up to a greatest one.
func (w *Writer) encodeLevels(levels []byte, most int) []byte {
	encoded, err := (&rle.Encoding{BitWidth: bits.Len(uint(most))}).EncodeLevels(nil, levels)
	w.fail(err)
	return encoded
}

// encode returns the bytes of a structure of the format, which are valid until
// the next call.
func (w *Writer) encode(v any) []byte {
	w.header.Reset()
	w.fail(w.thrift.Encode(v))
	return w.header.Bytes()
}

// EndPage ends the page of all columns, which has a number of rows. It returns
// the first error so far.
func (w *Writer) EndPage(rows int) error {
	w.rows += int64(rows)
	for i := range w.columns {
		if c := &w.columns[i]; c.rows != w.rows {
			w.fail(fmt.Errorf("column %s has %d rows, want %d", c.name, c.rows, w.rows))
		}
	}
	if w.rows >= w.limit {
		w.endGroup()
	}
	return w.err
}

// beginGroup begins a row group.
func (w *Writer) beginGroup() {
	w.rows = 0
	for i := range w.columns {
		c := &w.columns[i]
		c.chunk = chunk{pages: c.pages[:0], bounds: noBounds, last: noBounds}
		c.dictionary.reset()
	}
}

// endGroup writes the row group, unless it is empty.
func (w *Writer) endGroup() {
	if w.rows == 0 || w.err != nil {
		return
	}
	group := format.RowGroup{
		NumRows: w.rows, SortingColumns: w.schema.sorted, FileOffset: w.size, Ordinal: int16(len(w.groups)),
		Columns: make([]format.ColumnChunk, len(w.columns)),
	}
	indexes := make([]pageIndex, len(w.columns))
	for i := range w.columns {
		group.Columns[i].MetaData, indexes[i] = w.columns[i].end()
		group.TotalByteSize += group.Columns[i].MetaData.TotalUncompressedSize
		group.TotalCompressedSize += group.Columns[i].MetaData.TotalCompressedSize
	}
	w.groups, w.indexes = append(w.groups, group), append(w.indexes, indexes)
	w.beginGroup()
}

// Close ends the file.
func (w *Writer) Close() error {
	w.endGroup()
	for g := range w.groups {
		for i := range w.groups[g].Columns {
			if bounds := &w.indexes[g][i].bounds; len(bounds.NullPages) > 0 {
				chunk := &w.groups[g].Columns[i]
				chunk.ColumnIndexOffset = w.size
				w.write(w.encode(bounds))
				chunk.ColumnIndexLength = int32(w.size - chunk.ColumnIndexOffset)
			}
		}
	}
	footer := w.schema.footer
	for g := range w.groups {
		footer.NumRows += w.groups[g].NumRows
		for i := range w.groups[g].Columns {
			chunk := &w.groups[g].Columns[i]
			chunk.OffsetIndexOffset = w.size
			w.write(w.encode(&w.indexes[g][i].offsets))
			chunk.OffsetIndexLength = int32(w.size - chunk.OffsetIndexOffset)
		}
	}
	footer.RowGroups = w.groups
	text := w.encode(&footer)
	w.write(text)
	w.write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), "PAR1"...))
	return w.err
}
