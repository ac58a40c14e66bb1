package parquetfile

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Column is a column of a file. One call passes a page, with the values that
// are not null. It keeps no slice that it is passed, but the texts of values until
// the row group ends.
type Column struct {
	*leaf
	w          *Writer
	dictionary dictionary
	chunk
}

// chunk holds the pages of a column in a row group.
type chunk struct {
	rows, values, nulls int64
	pages               []byte // encoded
	unpacked            int64  // size before compression
	bounds              bounds
	offsets             []format.PageLocation
	index               format.ColumnIndex // of a column of integers
	unordered           bool
	last                bounds // of the last page with values
}

// bounds are the least and the greatest of some integers.
type bounds struct{ least, most int64 }

var noBounds = bounds{math.MaxInt64, math.MinInt64}

func boundsOf(values []int64) bounds {
	b := noBounds
	for _, v := range values {
		b.least, b.most = min(b.least, v), max(b.most, v)
	}
	return b
}

// Levels tell where the values of a page belong. Definition has an entry for
// each value (1) and each null or empty list (0) of an optional or repeated
// column, and Repetition whether it begins a row (0) or continues a list (1).
type Levels struct {
	Repetition, Definition []byte
}

// Ints writes a page of integers.
func (c *Column) Ints(values []int64, levels Levels) {
	body := c.w.body[:0]
	var err error
	switch c.encoding {
	case format.RLEDictionary:
		c.w.indices = c.dictionary.indicesOf(c.w.indices[:0], values)
		body, err = c.dictionary.encode(body, c.w.indices)
	case format.DeltaBinaryPacked:
		body, err = new(delta.BinaryPackedEncoding).EncodeInt64(body, values)
	default:
		for _, v := range values {
			body = c.plain(body, v)
		}
	}
	c.page(len(values), levels, boundsOf(values), body, err)
}

// Texts writes a page of texts: text i is data[offsets[i]:offsets[i+1]].
func (c *Column) Texts(data []byte, offsets []uint32, levels Levels) {
	body, err := new(delta.LengthByteArrayEncoding).EncodeByteArray(c.w.body[:0], data, offsets)
	c.page(len(offsets)-1, levels, noBounds, body, err)
}

// Numbered writes a page of values that the caller has numbered; value returns
// the value of a number, which is the same in the whole file. Without levels
// value also tells which values are null; otherwise, and in a column that is not
// optional, none may be.
func (c *Column) Numbered(numbers []uint32, levels Levels, value func(number uint32) Value) {
	d, indices := &c.dictionary, c.w.indices[:0]
	if levels.Definition == nil && c.definition > 0 {
		defined := slices.Grow(c.w.levels[:0], len(numbers))[:len(numbers)]
		for i, n := range numbers {
			slot := d.slotOf(n, value)
			if defined[i] = 1; slot == nullSlot {
				defined[i] = 0
				continue
			}
			indices = append(indices, slot-1)
		}
		levels.Definition, c.w.levels = defined, defined
	} else {
		for _, n := range numbers {
			slot := d.slotOf(n, value)
			if slot == nullSlot {
				c.w.fail(fmt.Errorf("column %s has a null, want none", c.name))
				continue
			}
			indices = append(indices, slot-1)
		}
	}
	c.w.indices = indices
	body, err := d.encode(c.w.body[:0], indices)
	c.page(len(indices), levels, d.boundsOf(indices), body, err)
}

// page adds a page of n values, which are encoded in body.
func (c *Column) page(n int, levels Levels, b bounds, body []byte, err error) {
	w := c.w
	w.fail(err)
	w.body = body
	values, rows := n, n
	var repetition, definition []byte
	if c.definition > 0 {
		values, rows = len(levels.Definition), len(levels.Definition)
		definition = w.encodeLevels(levels.Definition, c.definition)
	}
	if c.repetition > 0 {
		rows = count(levels.Repetition, 0)
		repetition = w.encodeLevels(levels.Repetition, c.repetition)
	}
	c.offsets = append(c.offsets, format.PageLocation{Offset: int64(len(c.pages)), FirstRowIndex: c.rows})
	c.pages = c.add(c.pages, append(repetition, definition...), format.PageHeader{
		Type: format.DataPageV2,
		DataPageHeaderV2: thrift.New(format.DataPageHeaderV2{
			NumValues: int32(values), NumNulls: int32(values - n), NumRows: int32(rows), Encoding: c.encoding,
			DefinitionLevelsByteLength: int32(len(definition)), RepetitionLevelsByteLength: int32(len(repetition)),
			IsCompressed: thrift.New(true),
		}),
	})
	location := &c.offsets[len(c.offsets)-1]
	location.CompressedPageSize = int32(int64(len(c.pages)) - location.Offset)
	c.rows, c.values, c.nulls = c.rows+int64(rows), c.values+int64(values), c.nulls+int64(values-n)
	if c.kind != parquet.ByteArray {
		c.addBounds(n, values-n, b)
	}
}

func count(levels []byte, of byte) (n int) {
	for _, level := range levels {
		if level == of {
			n++
		}
	}
	return n
}

// addBounds adds a page to the index.
func (c *Column) addBounds(n, nulls int, b bounds) {
	c.index.NullPages = append(c.index.NullPages, n == 0)
	c.index.NullCounts = append(c.index.NullCounts, int64(nulls))
	if n == 0 {
		c.index.MinValues, c.index.MaxValues = append(c.index.MinValues, nil), append(c.index.MaxValues, nil)
		return
	}
	c.index.MinValues, c.index.MaxValues = append(c.index.MinValues, c.plain(nil, b.least)), append(c.index.MaxValues, c.plain(nil, b.most))
	c.unordered = c.unordered || c.last != noBounds && (b.least < c.last.least || b.most < c.last.most)
	c.last = b
	c.bounds = bounds{min(c.bounds.least, b.least), max(c.bounds.most, b.most)}
}

// plain appends an integer as the format stores it.
func (c *Column) plain(dst []byte, v int64) []byte {
	if c.kind == parquet.Int32 {
		return binary.LittleEndian.AppendUint32(dst, uint32(v))
	}
	return binary.LittleEndian.AppendUint64(dst, uint64(v))
}

// maxPage bounds a page before compression. The sizes of the format have 31 bits, and
// compression can add a little.
const maxPage = math.MaxInt32 - 32<<20

// add appends a page to dst: its header, its levels and the compressed body.
func (c *Column) add(dst, levels []byte, header format.PageHeader) []byte {
	w := c.w
	if size := len(levels) + len(w.body); size > maxPage {
		w.fail(fmt.Errorf("column %s has a page of %d bytes, want at most %d", c.name, size, maxPage))
		return dst
	}
	w.packed = w.encoder.EncodeAll(w.body, append(w.packed[:0], levels...))
	header.UncompressedPageSize, header.CompressedPageSize = int32(len(levels)+len(w.body)), int32(len(w.packed))
	header.CRC = int32(crc32.ChecksumIEEE(w.packed))
	head := w.encode(&header)
	c.unpacked += int64(len(head)) + int64(header.UncompressedPageSize)
	return append(append(dst, head...), w.packed...)
}

// end writes the column of a row group.
func (c *Column) end() (format.ColumnMetaData, pageIndex) {
	w := c.w
	meta := format.ColumnMetaData{
		Type: format.Type(c.kind), Encoding: []format.Encoding{c.encoding}, PathInSchema: c.path, Codec: format.Zstd, NumValues: c.values,
		EncodingStats: []format.PageEncodingStats{{PageType: format.DataPageV2, Encoding: c.encoding, Count: int32(len(c.offsets))}},
	}
	if c.definition > 0 {
		meta.Encoding = append(meta.Encoding, format.RLE)
	}
	begin := w.size
	if c.encoding == format.RLEDictionary {
		meta.Encoding = append(meta.Encoding, format.Plain)
		meta.EncodingStats = append(meta.EncodingStats, format.PageEncodingStats{PageType: format.DictionaryPage, Encoding: format.Plain, Count: 1})
		meta.DictionaryPageOffset = begin
		w.body = c.dictionary.plain(w.body[:0], c)
		w.write(c.add(nil, nil, format.PageHeader{
			Type:                 format.DictionaryPage,
			DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: int32(c.dictionary.len()), Encoding: format.Plain}),
		}))
	}
	meta.DataPageOffset = w.size
	w.write(c.pages)
	meta.TotalCompressedSize, meta.TotalUncompressedSize = w.size-begin, c.unpacked
	meta.Statistics = c.statistics()
	for i := range c.offsets {
		c.offsets[i].Offset += meta.DataPageOffset
	}
	if !c.unordered {
		c.index.BoundaryOrder = format.Ascending
	}
	return meta, pageIndex{format.OffsetIndex{PageLocations: c.offsets}, c.index}
}

// longestBound is the length of the longest text that is stored as a bound.
const longestBound = 1024

// statistics returns the bounds of the row group. A dictionary has no other
// values than those in it.
func (c *Column) statistics() format.Statistics {
	s := format.Statistics{NullCount: c.nulls}
	if texts := c.dictionary.texts; len(texts) > 0 {
		least, most := slices.Min(texts), slices.Max(texts)
		if max(len(least), len(most)) <= longestBound {
			s.MinValue, s.MaxValue = []byte(least), []byte(most)
		}
	} else if c.bounds != noBounds {
		s.MinValue, s.MaxValue = c.plain(nil, c.bounds.least), c.plain(nil, c.bounds.most)
	}
	return s
}

// Value is a value of a column with a dictionary.
type Value struct {
	Int  int64 // in a column of integers
	Text string
	Null bool
}

// dictionary numbers the values of a column in a row group.
type dictionary struct {
	isText bool
	ints   []int64
	texts  []string
	byInt  map[int64]int32
	byText map[string]int32
	recent [64]slotOfInt // by value
	slots  []int32       // by the caller's number: 0 if unknown, nullSlot, or the index + 1
}

type slotOfInt struct {
	value int64
	slot  int32
}

const nullSlot = -1

func (d *dictionary) reset() {
	clear(d.byInt)
	clear(d.byText)
	clear(d.recent[:])
	clear(d.slots)
	d.ints, d.texts = d.ints[:0], d.texts[:0]
}

func (d *dictionary) len() int { return len(d.ints) + len(d.texts) }

// indicesOf appends the indices of integers.
func (d *dictionary) indicesOf(dst []int32, values []int64) []int32 {
	for _, v := range values {
		e := &d.recent[uint64(v)%uint64(len(d.recent))]
		if e.value != v || e.slot == 0 {
			*e = slotOfInt{v, index(&d.byInt, &d.ints, v) + 1}
		}
		dst = append(dst, e.slot-1)
	}
	return dst
}

// slotOf returns the slot of a number.
func (d *dictionary) slotOf(number uint32, value func(number uint32) Value) int32 {
	if int(number) < len(d.slots) && d.slots[number] != 0 {
		return d.slots[number]
	}
	return d.newSlot(number, value(number))
}

func (d *dictionary) newSlot(number uint32, v Value) int32 {
	if more := int(number) + 1 - len(d.slots); more > 0 {
		d.slots = append(d.slots, make([]int32, more)...)
	}
	slot := int32(nullSlot)
	switch {
	case v.Null:
	case d.isText:
		slot = index(&d.byText, &d.texts, v.Text) + 1
	default:
		slot = index(&d.byInt, &d.ints, v.Int) + 1
	}
	d.slots[number] = slot
	return slot
}

// index returns the index of a value in a list.
func index[T comparable](by *map[T]int32, list *[]T, v T) int32 {
	i, ok := (*by)[v]
	if !ok {
		if *by == nil {
			*by = make(map[T]int32)
		}
		i = int32(len(*list))
		*list, (*by)[v] = append(*list, v), i
	}
	return i
}

// encode encodes a page of indices.
func (d *dictionary) encode(dst []byte, indices []int32) ([]byte, error) {
	width := bits.Len(uint(max(d.len(), 1) - 1))
	dst, err := (&rle.Encoding{BitWidth: width}).EncodeInt32(dst, indices)
	return slices.Insert(dst, 0, byte(width)), err
}

// boundsOf returns the bounds of the integers with some indices.
func (d *dictionary) boundsOf(indices []int32) bounds {
	b, last := noBounds, int32(-1)
	if d.isText {
		return b
	}
	for _, i := range indices {
		if i != last {
			b.least, b.most, last = min(b.least, d.ints[i]), max(b.most, d.ints[i]), i
		}
	}
	return b
}

// plain appends the values of the dictionary of a column.
func (d *dictionary) plain(dst []byte, c *Column) []byte {
	for _, v := range d.ints {
		dst = c.plain(dst, v)
	}
	for _, text := range d.texts {
		dst = append(binary.LittleEndian.AppendUint32(dst, uint32(len(text))), text...)
	}
	return dst
}
