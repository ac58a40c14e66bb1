package pickle

import (
	"errors"
	"fmt"
	"io"
	"math"
)

// ErrRefused is why a pickle is not read that is more than data.
var ErrRefused = errors.New("an instruction that data does not need")

// step runs one instruction; done says that it was the last.
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
			err = fmt.Errorf("protocol %d", version)
		}
		return false, err
	case 0x95: // FRAME: how many bytes follow
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
	case 'G': // BINFLOAT, the large end first
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

// gather runs the instructions that put values together.
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
		return fmt.Errorf("a number of %d bytes", n)
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
