package job_test

import (
	"path/filepath"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job"
)

// A process may write several files. One that begins after the process with its
// id was last seen belongs to another process; events that are not the
// program's are not heartbeats.
func TestTracker(t *testing.T) {
	late := `{"id":ID,"name":"end","cat":"dftracer","pid":PID,"tid":1,"ts":1704067200900000,"dur":0,"ph":"X","args":{"hhash":"h"}}`
	for name, c := range map[string]struct {
		second string
		other  bool // another process
		seen   int64
	}{
		"at the same time":      {process(7, 100, 600, "", app), false, 600},
		"later":                 {process(7, 501, 600, "", app), true, 500},
		"when the first ended":  {process(7, 500, 600, "", app), true, 500},
		"before the first":      {process(7, -50, 200, "", app), false, 500},
		"another number":        {process(8, 100, 600, "", app), true, 500},
		"an end long after":     {process(7, 100, 600, "", app, late), false, 600},
		"one that says nothing": {process(7, 100, 600, ""), false, 500},
	} {
		dir := files(t, map[string]string{"a.pfw": process(7, 0, 500, "", app), "b.pfw": c.second})
		paths := []string{filepath.Join(dir, "a.pfw"), filepath.Join(dir, "b.pfw")}
		in := job.NewTracker(paths...)
		var owners []*job.Process
		for _, path := range paths {
			r, err := dftracer.OpenReader(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			of := in.File(path)
			for ev, err := range r.All() {
				if err != nil {
					t.Fatal(err)
				}
				if p := of.Of(ev); p != of.Owner() {
					t.Errorf("%s: event of %+v in the file of %+v, want its owner", name, p, of.Owner())
				}
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			owners = append(owners, of.Owner())
		}
		if other := owners[0] != owners[1]; other != c.other || owners[0].LastSeen != (base+c.seen)*1000 {
			t.Errorf("%s: another process %v, the first seen at %d; want %v, %d", name, other, owners[0].LastSeen/1000-base, c.other, c.seen)
		}
	}
}
