package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
)

// reducer sums a buffer over all ranks: rank 0 receives all buffers, adds them
// in rank order and sends the sum back.
type reducer struct {
	peers []*bufio.ReadWriter // of rank 0: all others by rank; of others: rank 0
	conns []net.Conn
	rank  int
	bytes []byte
}

// join connects a rank. Rank 0 accepts all others.
func join(rank, world int, listener net.Listener, address string) (*reducer, error) {
	r := &reducer{rank: rank}
	if rank > 0 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return nil, err
		}
		r.add(c)
		_, err = c.Write([]byte{byte(rank)})
		return r, err
	}
	r.peers, r.conns = make([]*bufio.ReadWriter, world-1), make([]net.Conn, world-1)
	for range world - 1 {
		c, err := listener.Accept()
		if err != nil {
			return nil, err
		}
		var who [1]byte
		if _, err := io.ReadFull(c, who[:]); err != nil {
			return nil, err
		}
		i := int(who[0]) - 1
		if i < 0 || i >= world-1 || r.conns[i] != nil {
			return nil, fmt.Errorf("rank %d joined twice, or is none of %d", who[0], world)
		}
		r.conns[i], r.peers[i] = c, buffered(c)
	}
	return r, nil
}

func buffered(c net.Conn) *bufio.ReadWriter {
	return bufio.NewReadWriter(bufio.NewReaderSize(c, 64<<10), bufio.NewWriterSize(c, 64<<10))
}

func (r *reducer) add(c net.Conn) {
	r.conns, r.peers = append(r.conns, c), append(r.peers, buffered(c))
}

func (r *reducer) close() error {
	var err error
	for _, c := range r.conns {
		err = errors.Join(err, c.Close())
	}
	return err
}

// sum replaces x by the sum over all ranks.
func (r *reducer) sum(x []float32) error {
	if r.rank > 0 {
		if err := r.send(r.peers[0], x); err != nil {
			return err
		}
		return r.receive(r.peers[0], func(i int, v float32) { x[i] = v }, len(x))
	}
	for _, p := range r.peers {
		if err := r.receive(p, func(i int, v float32) { x[i] += v }, len(x)); err != nil {
			return err
		}
	}
	for _, p := range r.peers {
		if err := r.send(p, x); err != nil {
			return err
		}
	}
	return nil
}

func (r *reducer) send(p *bufio.ReadWriter, x []float32) error {
	r.bytes = r.bytes[:0]
	for _, v := range x {
		r.bytes = binary.LittleEndian.AppendUint32(r.bytes, math.Float32bits(v))
	}
	if _, err := p.Write(r.bytes); err != nil {
		return err
	}
	return p.Flush()
}

func (r *reducer) receive(p *bufio.ReadWriter, take func(int, float32), n int) error {
	if cap(r.bytes) < 4*n {
		r.bytes = make([]byte, 4*n)
	}
	r.bytes = r.bytes[:4*n]
	if _, err := io.ReadFull(p, r.bytes); err != nil {
		return err
	}
	for i := range n {
		take(i, math.Float32frombits(binary.LittleEndian.Uint32(r.bytes[4*i:])))
	}
	return nil
}
