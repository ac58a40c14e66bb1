package replay_test

import (
	"fmt"
	"os"
	"testing"
)

func TestDbg(t *testing.T) {
	id := os.Getenv("DBG")
	c := corpus{"python3", "/work/shared/data/straggler/gen.py", "/work/shared/data/straggler/cases.json"}
	v, err := c.judge(id)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%+v\n%+v\n", v.Finding, v.Coverage)
	fmt.Println(v.StepTime, v.Evidence)
	for _, o := range v.Others {
		fmt.Printf("other %+v\n", o)
	}
	for _, r := range v.Ranking {
		fmt.Printf("%+v\n", r)
	}
}
