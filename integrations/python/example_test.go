package python_test

import (
	"context"
	"fmt"
	"os"

	"github.com/trainspan/trainspan/integrations/python"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // temporary

	ctx := context.Background()
	if err := python.Unpack(dir + "/client"); err != nil { // for PYTHONPATH
		panic(err)
	}
	rings, out := dir+"/rings", dir+"/out"
	for _, d := range []string{rings, out} {
		if err := os.Mkdir(d, 0o755); err != nil {
			panic(err)
		}
	}
	drain, err := python.NewDrain(python.Options{Dir: rings, Out: out})
	if err != nil {
		panic(err)
	}
	// The job runs here, with PYTHONPATH and the folder of its rings.
	fmt.Println(python.Differs(dir+"/client") == "", drain.Close(ctx))
	// Output:
	// true <nil>
}
