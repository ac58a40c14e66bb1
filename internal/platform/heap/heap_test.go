package heap

import (
	"os"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/trainspan/trainspan/internal/testkit/until"
)

func TestBound(t *testing.T) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Setenv(name, "")
		os.Unsetenv(name) //nolint:errcheck // Setenv brings it back
	}
	limit, percent := debug.SetMemoryLimit(-1), debug.SetGCPercent(100)
	defer debug.SetMemoryLimit(limit)
	defer debug.SetGCPercent(percent)
	const least = 64 << 20
	Bound(least)
	if got := debug.SetMemoryLimit(-1); got != least {
		t.Errorf("%d at first, want %d", got, least)
	}
	held := make([]byte, 80<<20)
	until.True(t, "the limit follows what is in use", func() bool {
		runtime.GC()
		return debug.SetMemoryLimit(-1) >= int64(len(held))/4*5
	})
	runtime.KeepAlive(held)
	held = nil
	until.True(t, "and falls to the least", func() bool {
		runtime.GC()
		return debug.SetMemoryLimit(-1) == least
	})
}

func TestBoundLeavesWhatIsSet(t *testing.T) {
	t.Setenv("GOGC", "50")
	before := debug.SetMemoryLimit(-1)
	if Bound(1 << 20); debug.SetMemoryLimit(-1) != before {
		t.Error("the memory limit changed, want the same")
	}
}
