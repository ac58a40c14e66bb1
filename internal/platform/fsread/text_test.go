package fsread_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/trainspan/trainspan/internal/platform/fsread"
)

// TestFileText compares the two readers of whole texts: on members of all sizes,
// with and without optional fields, at every kind of end, and on damage.
func TestFileText(t *testing.T) {
	member := func(lines int, name string) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Name = name
		for i := range lines {
			fmt.Fprintf(z, "%d %x\n", i, i*i*2654435761)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	few, named, many := member(100, ""), member(1000, "text"), member(200_000, "")
	damaged := bytes.Clone(few)
	damaged[len(damaged)/2] ^= 8
	for name, file := range map[string][]byte{
		"empty":     {},
		"one byte":  {0x1f},
		"plain":     []byte("a\nb\n"),
		"one":       few,
		"several":   bytes.Join([][]byte{few, named, member(0, ""), many, few, few}, nil),
		"garbage":   append(bytes.Clone(few), "garbage"...),
		"cut":       append(bytes.Clone(few), few[:len(few)-5]...),
		"cut early": append(bytes.Clone(few), few[:7]...),
		"no header": {0x1f, 0x8b, 1, 2},
		"damaged":   bytes.Join([][]byte{few, damaged, few}, nil),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(path, file, 0o600); err != nil {
				t.Fatal(err)
			}
			read := func(text io.Reader, err error) string {
				if err != nil {
					return "fails: " + err.Error()
				}
				all, err := io.ReadAll(text)
				return fmt.Sprintf("%x, %d bytes, %v", crc32.ChecksumIEEE(all), len(all), err)
			}
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close() //nolint:errcheck // only read
			text, err := fsread.FileText(f)
			got := read(text, err)
			if err == nil {
				if err := text.Close(); err != nil {
					t.Error(err)
				}
			}
			if want := read(fsread.Text(bufio.NewReader(bytes.NewReader(file)))); got != want {
				t.Errorf("FileText: %s\nwant as Text: %s", got, want)
			}
		})
	}
}
