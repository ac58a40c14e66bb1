package attributes_test

import (
	"fmt"

	"github.com/trainspan/trainspan/attributes"
	"go.opentelemetry.io/otel/attribute"
)

// OpenTelemetry attributes are converted. An optional value is a value, or a
// function that is called at each read.
func Example() {
	attrs := attributes.From(attribute.String(attributes.DFTracerCategory, "device"), attribute.Int64("bytes", 4096))
	fmt.Println(attrs[0].Key, attrs[1].Value.AsInt64())

	batch := 32
	var size attributes.Opt[int]
	fmt.Println(size.IsSet(), size.Or(1))
	size = attributes.SomeFunc(func() int { return batch })
	batch = 64
	fmt.Println(size.Get(), attributes.Some(8).Get())
	// Output:
	// dftracer.cat 4096
	// false 1
	// 64 8
}
