package dftracer_test

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestMain(m *testing.M) {
	if path := os.Getenv(childVariable); path != "" {
		childMain(path)
		return
	}
	flag.Parse()
	goleak.VerifyTestMain(m)
}
