package proc_test

import (
	"os"
	"testing"

	"github.com/trainspan/trainspan/internal/platform/proc"
)

func TestParseStat(t *testing.T) {
	got, err := proc.Parse([]byte("12 (a) b (c)) R 3 0 0 0 0 0 7 8 9 10 100 50 0 0 20 0 4 0 999 0 5 0"))
	if err != nil || got.PID != 12 || got.Parent != 3 || got.Program != "a) b (c)" || got.State != 'R' ||
		got.Minor != 7 || got.Major != 9 || got.User != 100 || got.Sys != 50 || got.Threads != 4 || got.Started != 999 || got.RSS != 5*int64(os.Getpagesize()) {
		t.Errorf("Parse() = %+v, %v; want the numbers of the line", got, err)
	}
	for _, bad := range []string{"", "12", "12 (a", "12 (a) R", "x (a) R 3 0 0 0 0 0 7 8 9 10 100 50 0 0 20 0 4 0 999 0 5 0", "12 (a) R 3 0 0 0 0 0 7 8 9 10 x 50 0 0 20 0 4 0 999 0 5 0"} {
		if s, err := proc.Parse([]byte(bad)); err == nil {
			t.Errorf("Parse(%q) = %+v, want an error", bad, s)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("12 (a) b) R 3 0 0 0 0 0 7 8 9 10 100 50 0 0 20 0 4 0 999 0 5 0"))
	f.Fuzz(func(_ *testing.T, text []byte) { _, _ = proc.Parse(text) })
}
