// Package pickle reads Python pickles that contain only data: dictionaries,
// lists, tuples, text, numbers, booleans and None. A pickle is a program; Read
// refuses every instruction that could name, create or call anything else, so
// that nothing in a file is executed.
package pickle

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// Limits limits the bytes that Read reads and the values that it creates. Zero
// means 64 MiB and four million.
type Limits struct {
	Bytes  int64
	Values int
}

const (
	defaultBytes  = 64 << 20
	defaultValues = 4 << 20
)

// Read returns the value of a pickle of protocol 2 to 5: map[string]any, *List,
// string, int64, float64, bool or nil. Keys are text. Shared parts of the
// pickle are shared in the value, which may even contain itself. It reads to
// the end of the pickle, plus its buffer.
func Read(r io.Reader, l Limits) (any, error) {
	if l.Bytes == 0 {
		l.Bytes = defaultBytes
	}
	if l.Values == 0 {
		l.Values = defaultValues
	}
	limited := &io.LimitedReader{R: r, N: l.Bytes}
	m := &machine{in: bufio.NewReader(limited), left: l.Values, memo: make(map[uint32]any)}
	for {
		done, err := m.step()
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			if limited.N <= 0 {
				return nil, fmt.Errorf("pickle: larger than %d bytes", l.Bytes)
			}
			return nil, fmt.Errorf("pickle: truncated at byte %d", m.at)
		case err != nil:
			return nil, fmt.Errorf("pickle: at byte %d: %w", m.at, err)
		case done:
			return m.stack[0], nil
		}
	}
}

// maxText limits one text, in bytes.
const maxText = 1 << 20

// machine executes the allowed instructions of a pickle.
type machine struct {
	in    *bufio.Reader
	at    int64
	left  int // values that may still be created
	stack []any
	marks []int
	memo  map[uint32]any
	buf   [8]byte
}

// List is a list or a tuple.
type List struct{ Items []any }

var errShape = errors.New("wrong number or type of values on the stack")

func (m *machine) bytes(n int) ([]byte, error) {
	b := m.buf[:n]
	_, err := io.ReadFull(m.in, b)
	m.at += int64(n)
	return b, err
}

// number reads an unsigned number of n bytes.
func (m *machine) number(n int) (uint64, error) {
	_, err := m.bytes(n)
	clear(m.buf[n:])
	return binary.LittleEndian.Uint64(m.buf[:]), err
}

func (m *machine) push(v any) error {
	if m.left--; m.left < 0 {
		return errors.New("too many values")
	}
	m.stack = append(m.stack, v)
	return nil
}

// pop removes and returns the last n values.
func (m *machine) pop(n int) ([]any, error) {
	floor := 0
	if k := len(m.marks); k > 0 {
		floor = m.marks[k-1]
	}
	at := len(m.stack) - n
	if at < floor {
		return nil, errShape
	}
	out := m.stack[at:]
	m.stack = m.stack[:at]
	return out, nil
}

// marked removes and returns the values since the last mark.
func (m *machine) marked() ([]any, error) {
	k := len(m.marks) - 1
	if k < 0 {
		return nil, errShape
	}
	at := m.marks[k]
	m.marks = m.marks[:k]
	out := m.stack[at:]
	m.stack = m.stack[:at]
	return out, nil
}

// top returns the last value; err is the error of the operands.
func (m *machine) top(err error) (any, error) {
	if err == nil && len(m.stack) == 0 {
		err = errShape
	}
	if err != nil {
		return nil, err
	}
	return m.stack[len(m.stack)-1], nil
}

func (m *machine) text(size int) error {
	n, err := m.number(size)
	if err != nil {
		return err
	}
	if n > maxText {
		return fmt.Errorf("a string of %d bytes is too long", n)
	}
	b := make([]byte, n)
	k, err := io.ReadFull(m.in, b)
	if m.at += int64(k); err != nil {
		return io.ErrUnexpectedEOF
	}
	return m.push(string(b))
}

func (m *machine) append(values []any, err error) error {
	to, err := m.top(err)
	if err != nil {
		return err
	}
	l, ok := to.(*List)
	if !ok {
		return errShape
	}
	l.Items = append(l.Items, values...)
	return nil
}

func (m *machine) set(pairs []any, err error) error {
	to, err := m.top(err)
	if err != nil {
		return err
	}
	d, ok := to.(map[string]any)
	if !ok || len(pairs)%2 != 0 {
		return errShape
	}
	for i := 0; i < len(pairs); i += 2 {
		key, ok := pairs[i].(string)
		if !ok {
			return errors.New("a key is not a string")
		}
		d[key] = pairs[i+1]
	}
	return nil
}

func (m *machine) tuple(values []any, err error) error {
	if err != nil {
		return err
	}
	return m.push(&List{append([]any(nil), values...)})
}

func (m *machine) put(i uint64, err error) error {
	v, err := m.top(err)
	if err != nil {
		return err
	}
	if m.left--; m.left < 0 || i > math.MaxUint32 {
		return errShape
	}
	m.memo[uint32(i)] = v
	return nil
}

func (m *machine) get(i uint64, err error) error {
	if err != nil {
		return err
	}
	v, ok := m.memo[uint32(i)]
	if !ok {
		return errors.New("a reference to an unknown memo entry")
	}
	return m.push(v)
}

// ErrRefused is the error for a pickle that is more than data.
var ErrRefused = errors.New("an unsupported instruction")

// step executes one instruction; done is true for the last one.
func (m *machine) step() (done bool, err error) {
	op, err := m.in.ReadByte()
	if err != nil {
		return false, err
	}
	m.at++
	switch op {
	case 0x80: // PROTO
		version, err := m.number(1)
		if err == nil && (version < 2 || version > 5) {
			err = fmt.Errorf("unsupported protocol %d", version)
		}
		return false, err
	case 0x95: // FRAME: number of bytes that follow
		_, err := m.number(8)
		return false, err
	case '.': // STOP
		if len(m.stack) != 1 || len(m.marks) != 0 {
			return false, errShape
		}
		return true, nil
	case '(': // MARK
		m.marks = append(m.marks, len(m.stack))
		if m.left--; m.left < 0 {
			return false, errShape
		}
		return false, nil
	case '}': // EMPTY_DICT
		return false, m.push(make(map[string]any))
	case ']', ')': // EMPTY_LIST, EMPTY_TUPLE
		return false, m.push(&List{})
	case 'N': // NONE
		return false, m.push(nil)
	case 0x88, 0x89: // NEWTRUE, NEWFALSE
		return false, m.push(op == 0x88)
	case 'K', 'M', 'J': // BININT1, BININT2, BININT
		n, err := m.number(map[byte]int{'K': 1, 'M': 2, 'J': 4}[op])
		if err != nil {
			return false, err
		}
		if op == 'J' {
			return false, m.push(int64(int32(n))) //nolint:gosec // four bytes
		}
		return false, m.push(int64(n)) //nolint:gosec // two bytes at most
	case 0x8a: // LONG1
		return false, m.long()
	case 'G': // BINFLOAT, big-endian
		b, err := m.bytes(8)
		if err != nil {
			return false, err
		}
		var bits uint64
		for _, c := range b {
			bits = bits<<8 | uint64(c)
		}
		return false, m.push(math.Float64frombits(bits))
	case 0x8c, 'X', 0x8d: // SHORT_BINUNICODE, BINUNICODE, BINUNICODE8
		return false, m.text(map[byte]int{0x8c: 1, 'X': 4, 0x8d: 8}[op])
	case 0x94: // MEMOIZE
		return false, m.put(uint64(len(m.memo)), nil)
	case 'q', 'r': // BINPUT, LONG_BINPUT
		return false, m.put(m.number(map[byte]int{'q': 1, 'r': 4}[op]))
	case 'h', 'j': // BINGET, LONG_BINGET
		return false, m.get(m.number(map[byte]int{'h': 1, 'j': 4}[op]))
	}
	return false, m.gather(op)
}

// gather executes the instructions that build containers.
func (m *machine) gather(op byte) error {
	switch op {
	case 'a': // APPEND
		return m.append(m.pop(1))
	case 'e': // APPENDS
		return m.append(m.marked())
	case 's': // SETITEM
		return m.set(m.pop(2))
	case 'u': // SETITEMS
		return m.set(m.marked())
	case 't': // TUPLE
		return m.tuple(m.marked())
	case 0x85, 0x86, 0x87: // TUPLE1, TUPLE2, TUPLE3
		return m.tuple(m.pop(int(op) - 0x84))
	}
	return fmt.Errorf("%w: %#02x", ErrRefused, op)
}

// long reads a number of up to eight bytes.
func (m *machine) long() error {
	n, err := m.number(1)
	if err != nil {
		return err
	}
	if n > 8 {
		return fmt.Errorf("an integer of %d bytes is too long", n)
	}
	if n == 0 {
		return m.push(int64(0))
	}
	v, err := m.number(int(n)) //nolint:gosec // at most 8
	if err != nil {
		return io.ErrUnexpectedEOF
	}
	shift := 64 - 8*n
	return m.push(int64(v<<shift) >> shift) //nolint:gosec // with its sign
}
