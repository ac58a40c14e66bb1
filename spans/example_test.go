package spans_test

import (
	"fmt"

	"github.com/trainspan/trainspan/spans"
)

// A standard span has another name in a trace file, and a place in the run;
// some last for a large part of it.
func Example() {
	info, _ := spans.Lookup(spans.ModelForward)
	fmt.Println(info.Category, info.Event, "in", info.Parent)
	for _, info := range spans.All() {
		if info.Long {
			fmt.Println(info.Name)
		}
	}
	// Output:
	// compute forward in training_single_iteration
	// application
	// training_loop
	// epoch
	// validation_loop
	// testing_loop
}

// Some events mean that something needs attention.
func Example_events() {
	for _, event := range []string{spans.EventSpanStop, spans.EventSaveCheckpointFailure, spans.EventTelemetryDataError} {
		switch event {
		case spans.EventError, spans.EventSaveCheckpointFailure, spans.EventTelemetryDataError:
			fmt.Println(event)
		}
	}
	// Output:
	// save_checkpoint_failure
	// telemetry_data_error
}
