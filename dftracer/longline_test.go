package dftracer_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/growth"
)

// TestScanLongLine checks that Scan, which reads plain text in pieces, skips a
// line that is too long as a Reader does, and does not hold it in memory.
func TestScanLongLine(t *testing.T) {
	if testing.Short() {
		t.Skip("reads half a gigabyte: make test-long")
	}
	const hole = 512 << 20
	event := `{"name":"a","cat":"c","pid":1,"tid":1,"ts":1,"dur":1,"ph":"X"}` + "\n"
	for name, c := range map[string]struct {
		end    string
		events int
	}{
		"in the middle": {"\n" + event, 2},
		"at the end":    {"", 1},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.pfw")
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.WriteString("[\n" + event)
			if err == nil {
				_, err = f.Seek(hole, io.SeekCurrent)
			}
			if err == nil && c.end != "" {
				_, err = f.WriteString(c.end)
			} else if err == nil {
				err = f.Truncate(hole)
			}
			if err != nil || f.Close() != nil {
				t.Fatal(err)
			}
			var st dftracer.ReadStats
			if n := growth.Bytes(func() { st, err = dftracer.Scan(path, nil, func(*dftracer.Event) error { return nil }) }); n > 2*hole { // each piece once
				t.Errorf("%d MiB allocated, want at most twice the line", n>>20)
			}
			if err != nil || st.Events != c.events || st.Bad != 1 || st.Lines != c.events+2 || st.Torn {
				t.Errorf("Scan() = %+v, %v; want %d events, one bad line, not torn", st, err, c.events)
			}
			rd, err := dftracer.OpenReader(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer rd.Close() //nolint:errcheck // only read
			for _, err := range rd.All() {
				if err != nil {
					t.Error(err)
				}
			}
			if got := rd.Stats(); got.Events != st.Events || got.Bad != st.Bad || got.Lines != st.Lines || got.Torn != st.Torn {
				t.Errorf("Reader: %+v, want as Scan %+v", got, st)
			}
		})
	}
}
