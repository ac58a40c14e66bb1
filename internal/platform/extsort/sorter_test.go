package extsort_test

import (
	"cmp"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/platform/extsort"
)

type pair struct{ key, seq uint64 }

func codec() extsort.Codec[pair] {
	return extsort.Plain(func(p *pair) extsort.Key {
		return extsort.Key{Group: uint32(p.key >> 3), First: int64(p.key & 7), Second: -int64(p.seq & 1)}
	})
}

func TestSorterOrder(t *testing.T) {
	for _, tc := range []struct {
		name         string
		rows, limit  int
		spills       bool
		flushAtEnd   bool
		iterateTwice bool
	}{
		{"empty", 0, 1 << 20, false, false, false},
		{"in memory", 1000, 1 << 20, false, false, true},
		{"many runs", 10_000, 6 << 10, true, false, true},
		{"flushed", 100, 1 << 20, true, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			s := extsort.New(codec(), tc.limit, dir)
			rng := rand.New(rand.NewPCG(1, 2))
			var want []pair
			for i := range tc.rows {
				p := pair{rng.Uint64N(50), uint64(i)}
				want = append(want, p)
				if err := s.Add(&p); err != nil {
					t.Fatal(err)
				}
			}
			slices.SortFunc(want, func(a, b pair) int {
				return cmp.Or(cmp.Compare(a.key, b.key), -cmp.Compare(a.seq&1, b.seq&1), cmp.Compare(a.seq, b.seq))
			})
			if tc.flushAtEnd {
				if err := s.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				var got []pair
				it := s.Iter()
				for p := it.Next(); p != nil; p = it.Next() {
					got = append(got, *p)
				}
				if it.Err() != nil || !slices.Equal(got, want) {
					t.Fatalf("err %v, %d rows, want %d in order", it.Err(), len(got), len(want))
				}
			}
			if (s.Spilled() > 0) != tc.spills || s.Len() != int64(tc.rows) {
				t.Fatalf("spilled %d bytes of %d rows, want some: %v, %d rows", s.Spilled(), s.Len(), tc.spills, tc.rows)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if left, _ := os.ReadDir(dir); len(left) != 0 {
				t.Fatalf("left behind: %v, want none", left)
			}
		})
	}
}

func TestSorterReportsABadDirectory(t *testing.T) {
	s := extsort.New(codec(), 16, t.TempDir()+"/absent")
	var err error
	for i := range 100 {
		if err = s.Add(&pair{key: uint64(i)}); err != nil {
			break
		}
	}
	if err == nil {
		t.Fatal("no error for a directory that does not exist")
	}
}

// Sorters that share a store need one file, and closing one keeps the rows of
// the others.
func TestSortersShareAStore(t *testing.T) {
	dir := t.TempDir()
	store := extsort.NewStore(dir)
	codec := extsort.Codec[int64]{
		Key:    func(v *int64) extsort.Key { return extsort.Key{First: *v} },
		Append: func(dst []byte, v *int64) []byte { return binary.AppendVarint(dst, *v) },
		Decode: func(src []byte, v *int64) error { *v, _ = binary.Varint(src); return nil },
	}
	var sorters []*extsort.Sorter[int64]
	for range 5 {
		sorters = append(sorters, extsort.NewIn(codec, 2048, store))
	}
	for i := range int64(2000) {
		for k, s := range sorters {
			v := (i*7919+int64(k))%2000*10 + int64(k)
			if err := s.Add(&v); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := sorters[0].Close(); err != nil {
		t.Fatal(err)
	}
	for k, s := range sorters[1:] {
		if s.Spilled() == 0 {
			t.Fatal("nothing was spilled")
		}
		it, n, last := s.Iter(), 0, int64(-1)
		for v := it.Next(); v != nil; v = it.Next() {
			if *v < last || *v%10 != int64(k+1) {
				t.Fatalf("sorter %d gives %d after %d, want rising values of its own", k+1, *v, last)
			}
			n, last = n+1, *v
		}
		if n != 2000 || it.Err() != nil {
			t.Errorf("sorter %d: %d rows, %v; want 2000", k+1, n, it.Err())
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v, want none", left)
	}
}

// A chunk that was made for a long row takes no further rows after a spill: their
// places would not fit in their bits.
func TestSorterLongRow(t *testing.T) {
	for _, long := range []int{200_000, 262_139, 262_144, 300_000, 524_283, 600_000} {
		s := extsort.New(extsort.Codec[[]byte]{
			Key:    func(row *[]byte) extsort.Key { return extsort.Key{First: int64(binary.BigEndian.Uint64(*row))} },
			Append: func(dst []byte, row *[]byte) []byte { return append(dst, *row...) },
			Decode: func(src []byte, row *[]byte) error { *row = append((*row)[:0], src...); return nil },
		}, 1<<20, t.TempDir())
		const rows = 50_000
		for i := range uint64(rows) {
			row := make([]byte, 100)
			if i == 0 {
				row = make([]byte, long)
			}
			binary.BigEndian.PutUint64(row, rows-i)
			if err := s.Add(&row); err != nil {
				t.Fatal(err)
			}
		}
		it, want := s.Iter(), uint64(0)
		for row := it.Next(); row != nil; row = it.Next() {
			want++
			size := 100
			if want == rows {
				size = long
			}
			if got := binary.BigEndian.Uint64(*row); got != want || len(*row) != size {
				t.Fatalf("first row of %d bytes: row %d of %d bytes, want row %d of %d bytes", long, got, len(*row), want, size)
			}
		}
		if it.Err() != nil || want != rows {
			t.Errorf("first row of %d bytes: %d rows, %v; want %d, nil", long, want, it.Err(), rows)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Merge returns only the rows of its groups, in memory and on disk, in the
// order of their numbers.
func TestSorterMergesGroups(t *testing.T) {
	for name, limit := range map[string]int{"in memory": 1 << 20, "many runs": 6 << 10} {
		t.Run(name, func(t *testing.T) {
			s := extsort.New(codec(), limit, t.TempDir())
			defer func() { _ = s.Close() }() // it was only read
			rng := rand.New(rand.NewPCG(3, 4))
			var want []pair
			for i := range uint64(5000) {
				p := pair{rng.Uint64N(64), i}
				if err := s.Add(&p); err != nil {
					t.Fatal(err)
				}
				if g := p.key >> 3; g == 2 || g == 5 {
					want = append(want, p)
				}
			}
			it, n := s.Merge(5, 2, 99), 0
			var before *pair
			for p := it.Next(); p != nil; p = it.Next() {
				if g := p.key >> 3; g != 2 && g != 5 {
					t.Fatalf("a row of group %d, want 2 or 5", g)
				}
				if before != nil && (p.key&7 < before.key&7 || p.key&7 == before.key&7 && p.seq&1 > before.seq&1) {
					t.Fatalf("%v after %v, want rising order", *p, *before)
				}
				n++
				before = &pair{p.key, p.seq}
			}
			if err := it.Err(); err != nil || n != len(want) {
				t.Errorf("%d rows, want %d: %v", n, len(want), err)
			}
			if it := s.Merge(99); it.Next() != nil {
				t.Error("an unknown group has a row")
			}
		})
	}
}

func TestPlainRefusesPointers(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("got no error for rows with a string, want one")
		}
	}()
	extsort.Plain(func(*struct {
		at   int64
		name [1]string
	}) extsort.Key {
		return extsort.Key{}
	})
}
