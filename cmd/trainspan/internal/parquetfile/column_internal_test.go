package parquetfile

import (
	"io"
	"math"
	"testing"
)

// TestPageThatIsTooLarge checks that a page whose size has more than 31 bits is an error,
// such as that of a large dictionary.
func TestPageThatIsTooLarge(t *testing.T) {
	if math.MaxInt == math.MaxInt32 {
		t.Skip("no slice is that large")
	}
	schema, err := SchemaOf[struct{ A int64 }](nil)
	if err != nil {
		t.Fatal(err)
	}
	w := New(schema, 1)
	w.Reset(io.Discard)
	size := int64(math.MaxInt32) + 1
	w.body = make([]byte, size) // takes no memory until it is read
	w.Column("A").page(0, Levels{}, noBounds, w.body, nil)
	if w.err == nil {
		t.Error("got no error, want one")
	}
}
