package dftracer_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile/validate"
)

// brokenTrace returns a trace of n spans on a few lanes, with many broken
// rules.
func brokenTrace(n int) string {
	var text strings.Builder
	text.WriteString("[\n")
	r := rand.New(rand.NewPCG(3, 4))
	for range n {
		parent := r.IntN(n) - 1
		fmt.Fprintf(&text, `{"id":%d,"name":"op","cat":"c","pid":1,"tid":%d,"ts":%d,"dur":%d,"ph":"X","args":{"hhash":"a","level":%d,"p_idx":%d}}`+"\n",
			1+r.IntN(n), r.IntN(5), 1_700_000_000_000_000+r.IntN(1000*n), r.IntN(5000), 1+r.IntN(3), parent)
	}
	text.WriteString("]")
	return text.String()
}

// Sorting in files does not change the result.
func TestValidateFindsTheSameWithLittleMemory(t *testing.T) {
	for _, opts := range []dftracer.ValidateOptions{{}, {AllowForeign: true}, {AllowMissingParents: true, AllowOutliving: true}} {
		for _, n := range []int{20, 3000} {
			text := brokenTrace(n)
			much, err := validate.Stream(strings.NewReader(text), &opts)
			if err != nil {
				t.Fatal(err)
			}
			little := opts
			little.Memory, little.TempDir = 4<<10, t.TempDir()
			got, err := validate.Stream(strings.NewReader(text), &little)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, much) {
				t.Errorf("%d spans, %+v: %d problems with little memory, want %d as with much\n%v\n%v", n, opts, got.Count, much.Count, got.Err(), much.Err())
			}
			if much.Count == 0 && !opts.AllowMissingParents && !opts.AllowForeign || much.Orphans == 0 {
				t.Errorf("%+v: %d problems, %d orphans; want both above 0", opts, much.Count, much.Orphans)
			}
		}
	}
}

func TestValidateSaysThatItCannotSort(t *testing.T) {
	_, err := validate.Stream(strings.NewReader(brokenTrace(3000)), &dftracer.ValidateOptions{Memory: 1, TempDir: t.TempDir() + "/absent"})
	if err == nil || !strings.Contains(err.Error(), "absent") {
		t.Errorf("error %v, want one about the absent directory", err)
	}
}

// lines is a reader of a valid trace of any length that samples the heap
// meanwhile.
type lines struct {
	n, at int
	buf   bytes.Buffer
	peak  uint64
}

func (l *lines) Read(p []byte) (int, error) {
	for l.buf.Len() < len(p) && l.at < l.n {
		if l.at%10_000 == 0 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			l.peak = max(l.peak, m.HeapInuse)
		}
		parent := l.at/20*20 + 1
		fmt.Fprintf(&l.buf, `{"id":%d,"name":"op","cat":"c","pid":1,"tid":1,"ts":%d,"dur":%d,"ph":"X","args":{"hhash":"a","p_idx":%d}}`+"\n",
			l.at+1, 1_700_000_000_000_000+int64(l.at)*10, map[bool]int{true: 200, false: 8}[l.at%20 == 0], map[bool]int{true: -1, false: parent}[l.at%20 == 0])
		l.at++
	}
	if l.buf.Len() == 0 {
		return 0, io.EOF
	}
	return l.buf.Read(p)
}

func TestValidateMemoryDoesNotGrowWithTheTrace(t *testing.T) {
	if testing.Short() {
		t.Skip("a long stream")
	}
	peak := func(n int) uint64 {
		runtime.GC()
		l := &lines{n: n}
		r, err := validate.Stream(l, &dftracer.ValidateOptions{Memory: 1 << 20, TempDir: t.TempDir(), AllowUnfinished: true, AllowForeign: true})
		if err != nil || r.Events != n || r.Orphans != 0 || !r.OK() {
			t.Fatalf("%d events, %d orphans, %v, %v; want %d, 0 and a valid trace", r.Events, r.Orphans, err, r.Err(), n)
		}
		return l.peak
	}
	small := peak(20_000)
	large := peak(160_000)
	t.Logf("peak heap %d KiB for 20,000 spans, %d KiB for 160,000", small>>10, large>>10)
	if large > small+8<<20 {
		t.Errorf("peak heap %d bytes, want at most 8 MiB above the %d with an eighth of the trace", large, small)
	}
}

// Neither spans of the same time nor deep nesting take memory per span.
func TestValidateMemoryOfSpansInsideEachOther(t *testing.T) {
	if testing.Short() {
		t.Skip("a long trace")
	}
	for _, test := range []struct {
		name    string
		shorter int
		rule    string
	}{{"the same time", 0, ""}, {"each inside the one before", 1, "spans nest too deep"}} {
		t.Run(test.name, func(t *testing.T) {
			peak := func(n int) (most uint64) {
				var text strings.Builder
				for i := range n {
					fmt.Fprintf(&text, `{"id":7,"name":"op","cat":"c","pid":1,"tid":1,"ts":%d,"dur":%d,"ph":"X","args":{"hhash":"a"}}`+"\n",
						1_700_000_000_000_000+i*test.shorter, 1_000_000_000-2*i*test.shorter)
				}
				opts := &dftracer.ValidateOptions{Memory: 1 << 20, TempDir: t.TempDir(), AllowUnfinished: true, Stop: func() error {
					var m runtime.MemStats
					runtime.GC()
					runtime.ReadMemStats(&m)
					most = max(most, m.HeapAlloc)
					return nil
				}}
				r, err := validate.Stream(strings.NewReader(text.String()), opts)
				if err != nil || r.Spans != n || strings.Contains(fmt.Sprint(r.Groups), "overlap") || test.rule != "" && n > 100_000 != strings.Contains(fmt.Sprint(r.Groups), test.rule) {
					t.Fatalf("%d spans, %v, %+v; want %d and only the rule %q", r.Spans, err, r.Groups, n, test.rule)
				}
				return most - uint64(text.Len())
			}
			small, large := peak(60_000), peak(500_000)
			if t.Logf("%d KiB for 60,000 spans, %d KiB for 500,000", small>>10, large>>10); large > small+9<<20 {
				t.Errorf("%d KiB for 60,000 spans, %d KiB for 500,000; want at most 9 MiB more", small>>10, large>>10)
			}
		})
	}
}
