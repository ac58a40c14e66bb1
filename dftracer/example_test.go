package dftracer_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/trainspan/trainspan/dftracer"
)

func Example() {
	dir, err := os.MkdirTemp("", "trace")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // temporary

	w, err := dftracer.Create(filepath.Join(dir, "trace-{rank}.pfw.gz"), nil)
	if err != nil {
		panic(err)
	}
	forward := dftracer.NewKey("compute", "forward")
	w.WriteComplete(&forward, dftracer.Span{ID: w.NextID(), TID: 1, TS: 1744611912990000, Dur: 250, Level: 1},
		dftracer.Int("epoch", 1), dftracer.Int("step", 12))
	if err := w.Close(); err != nil {
		panic(err)
	}

	r, err := dftracer.OpenReader(w.Path(), nil)
	if err != nil {
		panic(err)
	}
	defer r.Close() //nolint:errcheck // only read
	for ev, err := range r.All() {
		if err != nil {
			panic(err)
		}
		if ev.Cat == "compute" {
			step, _ := ev.Arg("step")
			fmt.Println(filepath.Base(w.Path()), ev.Name, ev.Dur, "µs, step", step.Int64())
		}
	}
	// Output: trace-0.pfw.gz forward 250 µs, step 12
}

func ExampleLanes() {
	lanes := dftracer.NewLanes(100)
	epoch, tid := lanes.Begin(dftracer.Lane{}, 0)
	fmt.Println("epoch on", tid)
	load, tid := lanes.Begin(epoch, 10)
	fmt.Println("load on", tid)
	step, tid := lanes.Begin(epoch, 20) // at the same time as load
	fmt.Println("step on", tid)
	fmt.Println("load ends on", lanes.End(load, 30))
	fmt.Println("step ends on", lanes.End(step, 40))
	fmt.Println("epoch ends on", lanes.End(epoch, 50))
	// Output:
	// epoch on 100
	// load on 100
	// step on 101
	// load ends on 100
	// step ends on 101
	// epoch ends on 100
}

func ExampleRecover() {
	dir, err := os.MkdirTemp("", "trace")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // temporary

	w, err := dftracer.Create(filepath.Join(dir, "trace.pfw.gz"), &dftracer.Options{
		Process: dftracer.Process{Command: dftracer.CommandLine()},
	})
	if err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	if err := os.Truncate(w.Path(), 300); err != nil { // what a killed process leaves
		panic(err)
	}
	report, err := dftracer.Recover(w.Path(), nil)
	if err != nil {
		panic(err)
	}
	whole, err := dftracer.ValidateFile(w.Path(), nil)
	fmt.Println(report.Clean, whole.OK(), err)
	// Output: false true <nil>
}
