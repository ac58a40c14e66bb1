package dataset

import (
	"encoding/binary"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/columns"
	"github.com/trainspan/trainspan/internal/nest"
	"github.com/trainspan/trainspan/internal/spill"
)

// row is an event while it waits for those before it. Numbers stand for what
// many rows share.
type row struct {
	place   uint32 // process and hour
	ts, dur int64
	tid     int64
	id      uint64
	parent  int64 // 0 is none
	level   int64
	epoch   number
	step    number
	name    uint64 // category, name and phase
	group   uint64 // 0 is none
	file    uint64 // hash; 0 is none
	args    []byte // JSON, empty for none
}

// number is a whole number that may be missing.
type number struct {
	value int64
	known bool
}

// key orders the rows of one place, the outer ones first.
func (r *row) key() spill.Key {
	k := nest.KeyOf(r.ts, r.ts+r.dur, r.level)
	return spill.Key{Group: r.place, First: k.First, Second: k.Second}
}

const (
	hasEpoch = 1 << iota
	hasStep
)

func appendRow(dst []byte, r *row) []byte {
	flags := byte(0)
	if r.epoch.known {
		flags |= hasEpoch
	}
	if r.step.known {
		flags |= hasStep
	}
	dst = append(dst, flags)
	for _, n := range [...]uint64{uint64(r.place), r.id, uint64(r.level), r.name, r.group, r.file} {
		dst = binary.AppendUvarint(dst, n)
	}
	for _, n := range [...]int64{r.ts, r.dur, r.tid, r.parent} {
		dst = binary.AppendVarint(dst, n)
	}
	if r.epoch.known {
		dst = binary.AppendVarint(dst, r.epoch.value)
	}
	if r.step.known {
		dst = binary.AppendVarint(dst, r.step.value)
	}
	return append(dst, r.args...)
}

func decodeRow(src []byte, r *row) error {
	in := columns.NewReader(src)
	flags := in.Uint()
	r.place, r.id, r.level, r.name, r.group, r.file = uint32(in.Uint()), in.Uint(), int64(in.Uint()), in.Uint(), in.Uint(), in.Uint()
	r.ts, r.dur, r.tid, r.parent = in.Int(), in.Int(), in.Int(), in.Int()
	r.epoch, r.step = number{}, number{}
	if flags&hasEpoch != 0 {
		r.epoch = number{in.Int(), true}
	}
	if flags&hasStep != 0 {
		r.step = number{in.Int(), true}
	}
	r.args = in.Rest()
	return in.Err()
}

// table numbers what many rows share, from 1. Its Builder's lock guards it.
type table[K comparable] struct {
	ids  map[K]uint64
	list []K
}

func (t *table[K]) of(k K) uint64 {
	id, ok := t.ids[k]
	if !ok {
		if t.ids == nil {
			t.ids = make(map[K]uint64)
		}
		t.list = append(t.list, k)
		id = uint64(len(t.list))
		t.ids[k] = id
	}
	return id
}

// at returns what a number stands for.
func (t *table[K]) at(id uint64) *K { return &t.list[id-1] }

// spanName is what spans of one kind share.
type spanName struct {
	cat, name string
	phase     dftracer.Phase
}
