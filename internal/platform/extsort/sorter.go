// Package extsort sorts more rows than fit in memory: it keeps a bounded number
// of rows, writes sorted runs to a temporary file if there are more, and merges
// the runs when they are read.
package extsort

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"reflect"
	"slices"
	"unsafe"
)

// Codec defines how a Sorter orders and stores rows.
type Codec[T any] struct {
	// Key returns the position of a row in the order. Rows with equal keys keep the
	// order in which they were added.
	Key    func(row *T) Key
	Append func(dst []byte, row *T) []byte
	Decode func(src []byte, row *T) error
}

// Plain returns the codec of rows without pointers (no strings and no slices):
// they are stored as they are in memory, and read by the process that stored
// them. It panics for other rows, because the garbage collector does not see
// the pointers in stored copies.
func Plain[T any](key func(row *T) Key) Codec[T] {
	if t := reflect.TypeFor[T](); !plain(t) {
		panic(fmt.Sprintf("extsort: rows of %v contain pointers", t))
	}
	bytesOf := func(row *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(row)), unsafe.Sizeof(*row)) }
	return Codec[T]{
		Key:    key,
		Append: func(dst []byte, row *T) []byte { return append(dst, bytesOf(row)...) },
		Decode: func(src []byte, row *T) error {
			if copy(bytesOf(row), src) < len(bytesOf(row)) {
				return errShort
			}
			return nil
		},
	}
}

func plain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return plain(t.Elem())
	case reflect.Struct:
		for f := range t.NumField() {
			if !plain(t.Field(f).Type) {
				return false
			}
		}
		return true
	}
	return t.Kind() <= reflect.Complex128 && t.Kind() != reflect.Uintptr
}

var errShort = errors.New("a stored row is truncated")

// Key orders rows: by group, then by the two numbers. Groups should be numbered
// from 0 without gaps.
type Key struct {
	First, Second int64
	Group         uint32
}

// Sorter collects rows and returns them in order, any number of times. It keeps
// them encoded, without pointers, so that a large sort costs the garbage
// collector nothing. It is not safe for concurrent use. Close removes its file.
type Sorter[T any] struct {
	codec Codec[T]
	store *Store
	own   bool // Close closes the store
	limit int
	memory
	size  int64 // bytes written to the store
	runs  []run
	count int64
	buf   []byte
}

type run struct {
	off, end int64
	groups   []start // in order
}

// start is where the rows of a group begin in a run.
type start struct {
	group uint32
	off   int64
}

// part returns where the rows of a group are.
func (r *run) part(group uint32) (off, end int64) {
	i, found := slices.BinarySearchFunc(r.groups, group, func(s start, g uint32) int { return cmp.Compare(s.group, g) })
	if !found {
		return 0, 0
	}
	if end = r.end; i+1 < len(r.groups) {
		end = r.groups[i+1].off
	}
	return r.groups[i].off, end
}

// New returns a sorter that keeps at most about limit bytes in memory and puts
// its file into dir, by default the system's temporary directory. The file is
// created only when it is needed.
func New[T any](codec Codec[T], limit int, dir string) *Sorter[T] {
	s := NewIn(codec, limit, NewStore(dir))
	s.own = true
	return s
}

// NewIn is New with a store that other sorters may share. The caller closes it
// after all of them.
func NewIn[T any](codec Codec[T], limit int, store *Store) *Sorter[T] {
	return &Sorter[T]{codec: codec, store: store, limit: max(limit, 1024)}
}

// Len returns the number of rows added.
func (s *Sorter[T]) Len() int64 { return s.count }

// Spilled returns the number of bytes written to disk.
func (s *Sorter[T]) Spilled() int64 { return s.size }

// Add stores a copy of row.
func (s *Sorter[T]) Add(row *T) error {
	if s.used+s.held*keyBytes >= s.limit || s.next == maxChunks {
		if err := s.write(); err != nil {
			return err
		}
	}
	s.buf = s.codec.Append(s.buf[:0], row)
	if s.held>>blockBits == len(s.added) {
		s.added = append(s.added, make([]entry, 1<<blockBits))
	}
	e := &s.added[s.held>>blockBits][s.held&(1<<blockBits-1)]
	k := s.codec.Key(row)
	*e = entry{first: k.First, second: k.Second, group: k.Group, at: s.put(s.buf)}
	s.held++
	s.count++
	s.dirty = true
	return nil
}

// Flush writes the rows in memory to disk and releases the memory.
func (s *Sorter[T]) Flush() error {
	err := s.write()
	s.memory = memory{}
	return err
}

// write writes the rows in memory as a run.
func (s *Sorter[T]) write() error {
	if s.held == 0 {
		return nil
	}
	w, begin, err := s.store.next()
	if err != nil {
		return err
	}
	s.sort()
	end := begin
	var groups []start
	for _, i := range s.order {
		e := s.entry(i)
		if len(groups) == 0 || groups[len(groups)-1].group != e.group {
			groups = append(groups, start{e.group, end})
		}
		stored := s.stored(e.at)
		_, _ = w.Write(stored) // it keeps its first error
		end += int64(len(stored))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("extsort: %w", err)
	}
	s.runs = append(s.runs, run{begin, end, groups})
	s.store.size = end
	s.size += end - begin
	s.order, s.held = s.order[:0], 0
	s.reset()
	return nil
}

// Close releases the rows, and the file unless it is shared. It may be called
// more than once.
func (s *Sorter[T]) Close() error {
	s.memory, s.runs = memory{}, nil
	if !s.own {
		return nil
	}
	return s.store.Close()
}

// Iter returns an iterator over all rows added so far, in order. No rows may be
// added while it is in use; several iterators may be used at once.
func (s *Sorter[T]) Iter() *Iter[T] {
	s.sort()
	it := &Iter[T]{s: s}
	for i, r := range s.runs {
		it.read(i, r.off, r.end)
	}
	it.unwritten(s.order)
	return it
}

// Merge returns an iterator over the rows of some groups, ordered by the two
// numbers only.
func (s *Sorter[T]) Merge(groups ...uint32) *Iter[T] {
	s.sort()
	it := &Iter[T]{s: s, flat: true}
	for i := range s.runs {
		for _, g := range groups {
			off, end := s.runs[i].part(g)
			it.read(i, off, end)
		}
	}
	for _, g := range groups {
		place := func(i, group uint32) int { return cmp.Compare(s.entry(i).group, group) }
		from, found := slices.BinarySearchFunc(s.order, g, place)
		if !found {
			continue
		}
		n, _ := slices.BinarySearchFunc(s.order[from:], g+1, place)
		it.unwritten(s.order[from : from+n])
	}
	return it
}

// read adds the rows between two offsets of the store.
func (it *Iter[T]) read(age int, off, end int64) {
	if off == end {
		return
	}
	part := io.NewSectionReader(it.s.store.file, off, end-off)
	it.push(&cursor[T]{codec: &it.s.codec, age: age, left: uint64(end - off), r: bufio.NewReaderSize(part, int(min(end-off, 32<<10)))})
}

// unwritten adds rows that are still in memory.
func (it *Iter[T]) unwritten(order []uint32) {
	if len(order) > 0 {
		it.push(&cursor[T]{codec: &it.s.codec, age: len(it.s.runs), mem: it.s, order: order})
	}
}

// Iter walks the rows of a Sorter in order.
type Iter[T any] struct {
	s    *Sorter[T]
	heap []*cursor[T]
	err  error
	last *cursor[T]
	flat bool // groups are ignored
}

// Next returns the next row, or nil at the end or on an error. The row is
// valid until the next call.
func (it *Iter[T]) Next() *T {
	if c := it.last; c != nil {
		it.last = nil
		if len(it.heap) > 0 && it.heap[0] == c {
			if c.advance() {
				it.siftDown(0)
			} else {
				it.fail(c.err)
				it.pop()
			}
		}
	}
	if it.err != nil || len(it.heap) == 0 {
		return nil
	}
	it.last = it.heap[0]
	return &it.last.row
}

// Err returns the error that ended the iteration early, or nil.
func (it *Iter[T]) Err() error { return it.err }

func (it *Iter[T]) fail(err error) {
	if err != nil && it.err == nil {
		it.err = fmt.Errorf("extsort: %w", err)
	}
}

func (it *Iter[T]) push(c *cursor[T]) {
	if !c.advance() {
		it.fail(c.err)
		return
	}
	it.heap = append(it.heap, c)
	i := len(it.heap) - 1
	for i > 0 && it.less(i, (i-1)/2) {
		it.heap[i], it.heap[(i-1)/2] = it.heap[(i-1)/2], it.heap[i]
		i = (i - 1) / 2
	}
}

func (it *Iter[T]) pop() {
	n := len(it.heap) - 1
	it.heap[0] = it.heap[n]
	it.heap[n] = nil
	it.heap = it.heap[:n]
	it.siftDown(0)
}

func (it *Iter[T]) siftDown(i int) {
	for {
		k := 2*i + 1
		if k >= len(it.heap) {
			return
		}
		if k+1 < len(it.heap) && it.less(k+1, k) {
			k++
		}
		if !it.less(k, i) {
			return
		}
		it.heap[i], it.heap[k] = it.heap[k], it.heap[i]
		i = k
	}
}

func (it *Iter[T]) less(i, j int) bool {
	a, b := it.heap[i], it.heap[j]
	if !it.flat && a.key.Group != b.key.Group {
		return a.key.Group < b.key.Group
	}
	return cmp.Or(cmp.Compare(a.key.First, b.key.First), cmp.Compare(a.key.Second, b.key.Second), cmp.Compare(a.age, b.age)) < 0
}

// cursor reads one run.
type cursor[T any] struct {
	codec *Codec[T]
	age   int // the number of the run, in the order of writing
	mem   *Sorter[T]
	order []uint32
	r     *bufio.Reader
	left  uint64 // bytes that r must have
	row   T
	key   Key
	buf   []byte
	err   error
}

func (c *cursor[T]) advance() bool {
	if c.r == nil {
		if len(c.order) == 0 {
			return false
		}
		k := c.mem.entry(c.order[0])
		c.key = Key{First: k.first, Second: k.second, Group: k.group}
		c.err = c.codec.Decode(c.mem.row(k.at), &c.row)
		c.order = c.order[1:]
		return c.err == nil
	}
	if c.left == 0 {
		return false
	}
	if c.err = c.read(); c.err == nil {
		c.err = c.codec.Decode(c.buf, &c.row)
	}
	c.key = c.codec.Key(&c.row)
	return c.err == nil
}

// read reads a stored row. A file without all of its bytes, such as on a file system that
// was full, is an error.
func (c *cursor[T]) read() error {
	n, err := binary.ReadUvarint(c.r)
	if size := uint64(bits.Len64(n|1)+6) / 7; err == nil && n <= c.left && size <= c.left-n {
		c.left -= size + n
		c.buf = slices.Grow(c.buf[:0], int(n))[:n]
		_, err = io.ReadFull(c.r, c.buf)
	} else if err == nil {
		err = errShort
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}
