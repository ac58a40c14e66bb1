package kineto_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/trainspan/trainspan/internal/ingest/torch/kineto"
	"github.com/trainspan/trainspan/internal/testkit/gziptest"
)

const sharedTraces = "../../../../../shared/data/kineto/"

func drain(tb testing.TB, r io.Reader) *kineto.Info {
	tb.Helper()
	kr := kineto.NewReader(r)
	var ev kineto.Event
	for {
		if err := kr.Next(&ev); err == io.EOF {
			return kr.Info()
		} else if err != nil {
			var refused *kineto.RefusedError
			if !errors.As(err, &refused) {
				tb.Fatal(err)
			}
			return kr.Info()
		}
	}
}

// BenchmarkReader scans decompressed bytes: a generated trace, and a real one
// if it exists, from memory and through gzip.
func BenchmarkReader(b *testing.B) {
	b.Run("generated", func(b *testing.B) { benchPlain(b, generate(20_000)) })
	packed, err := os.ReadFile(sharedTraces + "ddp_v100_2gpu_compiled_eager_memory_torch2.0dev.json.gz")
	if err != nil {
		b.Log("no real traces here: ", err)
		return
	}
	plain := gziptest.Text(b, packed)
	b.Run("real", func(b *testing.B) { benchPlain(b, plain) })
	b.Run("real-gzip", func(b *testing.B) {
		b.SetBytes(int64(len(plain)))
		for b.Loop() {
			err := kineto.Walk(bytes.NewReader(packed), "x", func(m kineto.Member) error {
				drain(b, m.Body)
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

func benchPlain(b *testing.B, plain []byte) {
	b.SetBytes(int64(len(plain)))
	b.ReportAllocs()
	for b.Loop() {
		drain(b, bytes.NewReader(plain))
	}
}

// generate writes n events in the format of current PyTorch.
func generate(n int) []byte {
	var buf bytes.Buffer
	writeGenerated(&buf, n)
	return buf.Bytes()
}
