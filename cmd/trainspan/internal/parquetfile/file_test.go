package parquetfile_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/parquetfile"
)

// record has a column of each kind.
type record struct {
	Rank   *int32  `parquet:"rank,dict"`
	Thread int64   `parquet:"tid,dict"`
	Name   string  `parquet:"name,dict"`
	Outer  *string `parquet:"outer,dict"`
	TS     int64   `parquet:"ts,delta"`
	Dur    int64   `parquet:"dur"`
	Step   *int64  `parquet:"step,dict"`
	Parts  []part  `parquet:"parts,list"`
	Args   *string `parquet:"args"`
}

type part struct {
	Name string `parquet:"name,dict"`
	Us   int64  `parquet:"us"`
}

const groupRows = 1000

func newWriter(t *testing.T) *parquetfile.Writer {
	t.Helper()
	schema, err := parquetfile.SchemaOf[record]([]string{"ts"}, parquet.KeyValueMetadata("key", "value"))
	if err != nil {
		t.Fatal(err)
	}
	return parquetfile.New(schema, groupRows)
}

// names are the texts of the numbers of a file; number 0 is null where that is
// possible.
var names = []string{"", "forward", "backward", "", "a longer name " + strings.Repeat("x", 300), "é"}

func textOf(n uint32) parquetfile.Value {
	return parquetfile.Value{Text: names[n], Null: n == 0}
}

// draw returns records in the order of their times.
func draw(rng *rand.Rand, n int) []record {
	records := make([]record, n)
	at := int64(1_700_000_000_000_000)
	for i := range records {
		at += rng.Int64N(1000)
		r := record{Parts: []part{}, Thread: rng.Int64N(200) - 100, Name: names[1+rng.IntN(len(names)-1)], TS: at, Dur: rng.Int64() - rng.Int64()}
		if rng.IntN(3) > 0 {
			rank := int32(i/100) - 1
			r.Rank = &rank
		}
		if rng.IntN(2) > 0 {
			r.Outer = &names[1+rng.IntN(len(names)-1)]
		}
		if i/groupRows != 1 { // the second row group has no step
			step := int64(i / 10)
			r.Step = &step
		}
		for range max(rng.IntN(6)-2, 0) {
			r.Parts = append(r.Parts, part{names[1+rng.IntN(len(names)-1)], rng.Int64N(99)})
		}
		if rng.IntN(2) > 0 {
			args := fmt.Sprintf(`{"n":%d}`, rng.Int())
			r.Args = &args
		}
		records[i] = r
	}
	return records
}

// write writes a page of records.
func write(w *parquetfile.Writer, records []record) error {
	var ranks, texts, outer, parts []uint32
	var tid, ts, dur, step, us []int64
	var hasStep, hasArgs, args []byte
	var in parquetfile.Levels
	ends := []uint32{0}
	number := func(text string) uint32 {
		for n := 1; ; n++ {
			if names[n] == text {
				return uint32(n)
			}
		}
	}
	for _, r := range records {
		rank, out, known, given := uint32(0), uint32(0), byte(0), byte(0)
		if r.Rank != nil {
			rank = uint32(*r.Rank + 2)
		}
		if r.Outer != nil {
			out = number(*r.Outer)
		}
		if r.Step != nil {
			step, known = append(step, *r.Step), 1
		}
		if r.Args != nil {
			args, given = append(args, *r.Args...), 1
			ends = append(ends, uint32(len(args)))
		}
		if len(r.Parts) == 0 {
			in.Repetition, in.Definition = append(in.Repetition, 0), append(in.Definition, 0)
		}
		for i, p := range r.Parts {
			in.Repetition, in.Definition = append(in.Repetition, byte(min(i, 1))), append(in.Definition, 1)
			parts, us = append(parts, number(p.Name)), append(us, p.Us)
		}
		ranks, texts, outer = append(ranks, rank), append(texts, number(r.Name)), append(outer, out)
		tid, ts, dur = append(tid, r.Thread), append(ts, r.TS), append(dur, r.Dur)
		hasStep, hasArgs = append(hasStep, known), append(hasArgs, given)
	}
	none := parquetfile.Levels{}
	w.Column("rank").Numbered(ranks, none, func(n uint32) parquetfile.Value { return parquetfile.Value{Int: int64(n) - 2, Null: n == 0} })
	w.Column("tid").Ints(tid, none)
	w.Column("name").Numbered(texts, none, textOf)
	w.Column("outer").Numbered(outer, none, textOf)
	w.Column("ts").Ints(ts, none)
	w.Column("dur").Ints(dur, none)
	w.Column("step").Ints(step, parquetfile.Levels{Definition: hasStep})
	w.Column("parts.list.element.name").Numbered(parts, in, textOf)
	w.Column("parts.list.element.us").Ints(us, in)
	w.Column("args").Texts(args, ends, parquetfile.Levels{Definition: hasArgs})
	return w.EndPage(len(records))
}

// TestWriter checks that parquet-go reads what was written, also with a Writer
// that is used again.
func TestWriter(t *testing.T) {
	w := newWriter(t)
	for seed, rows := range []int{0, 1, 7, 2999, 3001} {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		want := draw(rng, rows)
		var file bytes.Buffer
		w.Reset(&file)
		for left := want; len(left) > 0; {
			n := min(1+rng.IntN(groupRows/2), len(left))
			if err := write(w, left[:n]); err != nil {
				t.Fatal(err)
			}
			left = left[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		got, err := parquet.Read[record](bytes.NewReader(file.Bytes()), int64(file.Len()))
		if err != nil {
			t.Fatalf("%d rows: %v", rows, err)
		}
		if len(got) != len(want) {
			t.Fatalf("%d rows, want %d", len(got), len(want))
		}
		for i := range want {
			if !reflect.DeepEqual(got[i], want[i]) {
				t.Fatalf("row %d of %d is %+v, want %+v", i, rows, got[i], want[i])
			}
		}
		checkBounds(t, &file, want)
	}
}

// checkBounds checks the metadata of a file, and that the bounds of row groups
// and pages contain the values.
func checkBounds(t *testing.T, file *bytes.Buffer, want []record) {
	t.Helper()
	f, err := parquet.OpenFile(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if v, _ := f.Lookup("key"); v != "value" || f.NumRows() != int64(len(want)) {
		t.Errorf("metadata %q and %d rows, want value and %d", v, f.NumRows(), len(want))
	}
	const rank, name, ts, step = 0, 2, 4, 6 // columns
	at := 0
	for i, g := range f.Metadata().RowGroups {
		if len(g.SortingColumns) != 1 || g.SortingColumns[0].ColumnIdx != ts {
			t.Errorf("row group %d is sorted by %v, want column %d", i, g.SortingColumns, ts)
		}
		rows := want[at : at+int(g.NumRows)]
		at += len(rows)
		least, most, nulls := rows[0].Name, rows[0].Name, int64(0)
		for _, r := range rows {
			least, most = min(least, r.Name), max(most, r.Name)
			if r.Step == nil {
				nulls++
			}
		}
		s := g.Columns[name].MetaData.Statistics
		if string(s.MinValue) != least || string(s.MaxValue) != most {
			t.Errorf("names of row group %d are from %q to %q, want %q to %q", i, s.MinValue, s.MaxValue, least, most)
		}
		if s := g.Columns[step].MetaData.Statistics; s.NullCount != nulls || (s.MinValue == nil) != (nulls == g.NumRows) {
			t.Errorf("steps of row group %d have %d nulls and least value %x, want %d nulls", i, s.NullCount, s.MinValue, nulls)
		}
		for column, of := range map[int]func(r *record) (parquet.Value, bool){
			ts: func(r *record) (parquet.Value, bool) { return parquet.ValueOf(r.TS), true },
			rank: func(r *record) (parquet.Value, bool) {
				if r.Rank == nil {
					return parquet.Value{}, false
				}
				return parquet.ValueOf(*r.Rank), true
			},
		} {
			chunk := f.RowGroups()[i].ColumnChunks()[column]
			bounds, err := chunk.ColumnIndex()
			if err != nil {
				t.Fatal(err)
			}
			pages, err := chunk.OffsetIndex()
			if err != nil {
				t.Fatal(err)
			}
			for page := range pages.NumPages() {
				end := len(rows)
				if page+1 < pages.NumPages() {
					end = int(pages.FirstRowIndex(page + 1))
				}
				for k := int(pages.FirstRowIndex(page)); k < end; k++ {
					if v, ok := of(&rows[k]); ok && (chunk.Type().Compare(v, bounds.MinValue(page)) < 0 || chunk.Type().Compare(v, bounds.MaxValue(page)) > 0) {
						t.Fatalf("page %d of column %d is from %v to %v, and row %d has %v", page, column, bounds.MinValue(page), bounds.MaxValue(page), k, v)
					}
				}
			}
		}
	}
}

// TestLongTexts checks that texts of any length are written, and only short
// ones are bounds.
func TestLongTexts(t *testing.T) {
	type record struct {
		Text string `parquet:"text,dict"`
	}
	schema, err := parquetfile.SchemaOf[record](nil)
	if err != nil {
		t.Fatal(err)
	}
	w := parquetfile.New(schema, groupRows)
	for _, length := range []int{1024, 1025} {
		var file bytes.Buffer
		w.Reset(&file)
		text := strings.Repeat("y", length)
		w.Column("text").Numbered([]uint32{7, 7}, parquetfile.Levels{}, func(uint32) parquetfile.Value { return parquetfile.Value{Text: text} })
		if err := errors.Join(w.EndPage(2), w.Close()); err != nil {
			t.Fatal(err)
		}
		f, err := parquet.OpenFile(bytes.NewReader(file.Bytes()), int64(file.Len()))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := f.Metadata().RowGroups[0].Columns[0].MetaData.Statistics.MaxValue != nil, length <= 1024; got != want {
			t.Errorf("a text of %d bytes is a bound: %v, want %v", length, got, want)
		}
		if rows, err := parquet.Read[record](bytes.NewReader(file.Bytes()), int64(file.Len())); err != nil || len(rows) != 2 || rows[1].Text != text {
			t.Errorf("%d rows, want two with a text of %d bytes: %v", len(rows), length, err)
		}
	}
}

// full is a disk without space after some bytes.
type full struct{ left int }

var errFull = errors.New("no space")

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestErrors(t *testing.T) {
	w := newWriter(t)
	records := draw(rand.New(rand.NewPCG(1, 1)), 10)
	for _, space := range []int{0, 10, 500} {
		w.Reset(&full{space})
		_ = write(w, records) // Close returns its error too
		if err := w.Close(); !errors.Is(err, errFull) {
			t.Errorf("Close with space for %d bytes = %v, want %v", space, err, errFull)
		}
	}
	w.Reset(io.Discard)
	w.Column("ts").Ints([]int64{1, 2}, parquetfile.Levels{})
	if err := w.EndPage(2); err == nil {
		t.Error("EndPage returned nil, want an error for the columns without a page")
	}
	if err := w.Close(); err == nil {
		t.Error("Close returned nil, want the error of EndPage")
	}
	if _, err := parquetfile.SchemaOf[record]([]string{"none"}); err == nil {
		t.Error("SchemaOf with an unknown column returned nil, want an error")
	}
}

// BenchmarkWriter writes pages of records that are in columns.
// SchemaOf refuses columns that a Writer cannot write.
func TestSchemaThatCannotBeWritten(t *testing.T) {
	type nested struct {
		Parts []part `parquet:"parts,list"`
	}
	for name, of := range map[string]func() (*parquetfile.Schema, error){
		"float":         func() (*parquetfile.Schema, error) { return parquetfile.SchemaOf[struct{ A float64 }](nil) },
		"bool":          func() (*parquetfile.Schema, error) { return parquetfile.SchemaOf[struct{ A bool }](nil) },
		"fixed size":    func() (*parquetfile.Schema, error) { return parquetfile.SchemaOf[struct{ A [16]byte }](nil) },
		"list of lists": func() (*parquetfile.Schema, error) { return parquetfile.SchemaOf[struct{ A []nested }](nil) },
		"optional fields": func() (*parquetfile.Schema, error) {
			return parquetfile.SchemaOf[struct{ A []struct{ B *int64 } }](nil)
		},
		"delta of int32": func() (*parquetfile.Schema, error) {
			return parquetfile.SchemaOf[struct {
				A int32 `parquet:"a,delta"`
			}](nil)
		},
	} {
		if _, err := of(); err == nil || !strings.Contains(err.Error(), "column") {
			t.Errorf("SchemaOf() of a column of %s = %v, want an error that names it", name, err)
		}
	}
}

// Integers of 32 bits are written as such without a dictionary, too.
func TestShortIntegers(t *testing.T) {
	type row struct {
		A int32 `parquet:"a"`
	}
	schema, err := parquetfile.SchemaOf[row](nil)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	w := parquetfile.New(schema, groupRows)
	w.Reset(&file)
	w.Column("a").Ints([]int64{1, -2, 3}, parquetfile.Levels{})
	if err := errors.Join(w.EndPage(3), w.Close()); err != nil {
		t.Fatal(err)
	}
	got, err := parquet.Read[row](bytes.NewReader(file.Bytes()), int64(file.Len()))
	if want := []row{{1}, {-2}, {3}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %v, %v; want %v", got, err, want)
	}
}

// A null in a column that has none is an error.
func TestNullInARequiredColumn(t *testing.T) {
	type row struct {
		A int64 `parquet:"a,dict"`
	}
	schema, err := parquetfile.SchemaOf[row](nil)
	if err != nil {
		t.Fatal(err)
	}
	w := parquetfile.New(schema, groupRows)
	w.Reset(io.Discard)
	w.Column("a").Numbered([]uint32{0, 1}, parquetfile.Levels{}, func(n uint32) parquetfile.Value { return parquetfile.Value{Int: 7, Null: n == 1} })
	if err := w.EndPage(2); err == nil || !strings.Contains(err.Error(), "column a") {
		t.Errorf("EndPage() = %v, want an error that names the column", err)
	}
}

func BenchmarkWriter(b *testing.B) {
	schema, err := parquetfile.SchemaOf[struct {
		Name string `parquet:"name,dict"`
		TS   int64  `parquet:"ts,delta"`
		Dur  int64  `parquet:"dur"`
	}](nil)
	if err != nil {
		b.Fatal(err)
	}
	const rows = 1 << 15
	numbers, ts, dur := make([]uint32, rows), make([]int64, rows), make([]int64, rows)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range rows {
		numbers[i], ts[i], dur[i] = uint32(1+i%3), int64(i)*1000+rng.Int64N(100), 1000+rng.Int64N(50)
	}
	w := parquetfile.New(schema, 4*rows)
	w.Reset(io.Discard)
	for b.Loop() {
		w.Column("name").Numbered(numbers, parquetfile.Levels{}, textOf)
		w.Column("ts").Ints(ts, parquetfile.Levels{})
		w.Column("dur").Ints(dur, parquetfile.Levels{})
		if err := w.EndPage(rows); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
}
