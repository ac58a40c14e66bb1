package pickle

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// maxText bounds one text, in bytes.
const maxText = 1 << 20

// machine is what runs the instructions of a pickle that are allowed.
type machine struct {
	in    *bufio.Reader
	at    int64
	left  int // values that may still be made
	stack []any
	marks []int
	memo  map[uint32]any
	buf   [8]byte
}

// List is a list or a tuple.
type List struct{ Items []any }

var errShape = errors.New("it takes more from the stack than is there, or another kind of value")

func (m *machine) bytes(n int) ([]byte, error) {
	b := m.buf[:n]
	_, err := io.ReadFull(m.in, b)
	m.at += int64(n)
	return b, err
}

// number reads an unsigned one of so many bytes.
func (m *machine) number(n int) (uint64, error) {
	_, err := m.bytes(n)
	clear(m.buf[n:])
	return binary.LittleEndian.Uint64(m.buf[:]), err
}

func (m *machine) push(v any) error {
	if m.left--; m.left < 0 {
		return errors.New("more values than are read")
	}
	m.stack = append(m.stack, v)
	return nil
}

// pop takes the last n values.
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

// marked takes the values since the last mark.
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

// top is what lies there after err, which is that of the values for it.
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
		return fmt.Errorf("a text of %d bytes", n)
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
			return errors.New("a key that is no text")
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
		return errors.New("what it refers to was not there before")
	}
	return m.push(v)
}
