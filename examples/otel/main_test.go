package main

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Spans of the OpenTelemetry API are children of those of telemetry, on both sides
// of an HTTP request.
func Example() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// application
	//   training_loop
	//     training_single_iteration
	//       fetch /batch
	//         serve /batch
	//     training_single_iteration
	//       fetch /batch
	//         serve /batch
}
