package dftracer_test

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/growth"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// badKeys returns n arguments whose keys have to be repaired; with equal the
// repaired keys are all the same.
func badKeys(n int, equal bool) []dftracer.Arg {
	args := make([]dftracer.Arg, n)
	for i := range args {
		key := "\xff"
		if !equal {
			key = fmt.Sprintf("\xff%d", i)
		}
		args[i] = dftracer.Int(key, int64(i))
	}
	return args
}

func ownedKeys(n int) []dftracer.Arg {
	args := make([]dftracer.Arg, n)
	for i := range args {
		args[i] = dftracer.Int([...]string{"level", "p_idx", "hhash", "name", "begin_id"}[i%5], int64(i))
	}
	return args
}

// writeArgs are the ways in which a Writer gets arguments.
var writeArgs = map[string]func(w *dftracer.Writer, args []dftracer.Arg){
	"complete": func(w *dftracer.Writer, args []dftracer.Arg) {
		key := dftracer.NewKey("c", "n")
		w.WriteComplete(&key, dftracer.Span{}, args...)
	},
	"event": func(w *dftracer.Writer, args []dftracer.Arg) {
		w.Write(&dftracer.Event{Name: "n", Cat: "c", Args: args})
	},
	"begin": func(w *dftracer.Writer, args []dftracer.Arg) {
		tracefile.WriteBegin(w, &dftracer.Event{ID: 7, Name: "n", Cat: "c", Args: args})
	},
	"counter": func(w *dftracer.Writer, args []dftracer.Arg) {
		w.Write(&dftracer.Event{Phase: dftracer.PhaseCounter, Cat: "c", Name: "n", TID: 1, TS: 1, Args: args})
	},
}

func discard(t testing.TB) *dftracer.Writer {
	t.Helper()
	w, err := dftracer.NewWriter(io.Discard, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func TestGrowthOfArguments(t *testing.T) {
	kinds := map[string]func(n int) []dftracer.Arg{
		"repaired": func(n int) []dftracer.Arg { return badKeys(n, false) },
		"equal":    func(n int) []dftracer.Arg { return badKeys(n, true) },
		"ours":     ownedKeys,
	}
	for kind, make := range kinds {
		for way, write := range writeArgs {
			t.Run(kind+"/"+way, func(t *testing.T) {
				w := discard(t)
				growth.Allocated(t, 500, func(n int) { write(w, make(n)) })
			})
		}
	}
}

func BenchmarkGrowthRepairedKeys(b *testing.B) {
	w := discard(b)
	growth.Bench(b, 2000, func(n int) { writeArgs["complete"](w, badKeys(n, false)) })
}

func BenchmarkGrowthEqualKeys(b *testing.B) {
	w := discard(b)
	growth.Bench(b, 2000, func(n int) { writeArgs["begin"](w, badKeys(n, true)) })
}

func BenchmarkGrowthOwnedKeys(b *testing.B) {
	w := discard(b)
	growth.Bench(b, 2000, func(n int) { writeArgs["begin"](w, ownedKeys(n)) })
}

// overlapping returns spans that begin one after the other and end together.
func overlapping(n int) []dftracer.Event {
	events := make([]dftracer.Event, n)
	for i := range events {
		events[i] = dftracer.Event{ID: uint64(i + 1), PID: 1, TS: int64(i), Dur: int64(2*n - i)}
	}
	return events
}

func BenchmarkGrowthOverlapping(b *testing.B) {
	growth.Bench(b, 2000, func(n int) { tracefile.AssignLanes(overlapping(n), 0) })
}

// Keys that are equal after their repair are written once, and the line does
// not get too long.
func TestEqualKeysAreWrittenOnce(t *testing.T) {
	for _, n := range []int{2, 10, 100, 350, 5000} {
		for way, write := range writeArgs {
			var out bytes.Buffer
			w, err := dftracer.NewWriter(&out, &dftracer.Options{Compression: dftracer.CompressNone, Heartbeat: -1})
			if err != nil {
				t.Fatal(err)
			}
			write(w, append(append(badKeys(n, true), ownedKeys(n)...), dftracer.Int("user_\uFFFD", 1), dftracer.Int("user_level", 1)))
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			for line := range bytes.Lines(out.Bytes()) {
				if len(line) > 16<<10 {
					t.Errorf("%s with %d keys: a line of %d bytes, want at most 16 KiB", way, n, len(line))
				}
				if !bytes.Contains(line, []byte("\uFFFD")) {
					continue
				}
				seen := map[string]bool{}
				for _, m := range regexp.MustCompile(`"([^"]*)":`).FindAllSubmatch(line[bytes.Index(line, []byte(`"args":`))+7:], -1) {
					if key := string(m[1]); seen[key] && key != "name" && key != "begin_id" { // the input has these twice
						t.Errorf("%s with %d keys: %s is twice in %.200s, want once", way, n, key, line)
					} else {
						seen[key] = true
					}
				}
				if want := "user_2_\uFFFD"; !seen[want] && n < 5000 {
					t.Errorf("%s with %d keys: want %s in %.300s", way, n, want, line)
				}
				if n == 5000 && !seen["args_dropped"] {
					t.Errorf("%s: the line has no args_dropped", way)
				}
			}
		}
	}
}
