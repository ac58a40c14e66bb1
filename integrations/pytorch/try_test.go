package pytorch_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/integrations/pytorch"
)

type countSink map[string]int

func (c countSink) Write(e *dftracer.Event) {
	if e.Cat != "PP" && e.Cat != "dftracer" {
		c[e.Cat+"/"+e.Name]++
	}
}

func TestTry(t *testing.T) {
	ents, _ := os.ReadDir("../../../shared/data/kineto")
	for _, e := range ents {
		if e.IsDir() || e.Name() == "manifest.json" {
			continue
		}
		srcs, err := pytorch.Files("../../../shared/data/kineto/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		c := countSink{}
		t0 := time.Now()
		rep, err := pytorch.Import(context.Background(), c, srcs, nil)
		fmt.Println(time.Since(t0), err)
		fmt.Print(rep)
		n := 0
		for k, v := range c {
			if n < 30 {
				fmt.Println("    ", k, v)
			}
			n++
		}
	}
}
