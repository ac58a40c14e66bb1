// Package attributes has the attributes of spans and events, and the optional
// values of configurations.
//
// An attribute is an [Attr]: an OpenTelemetry key and value, plus what
// OpenTelemetry cannot hold (integers beyond int64, null, lists of mixed
// types) and the mark that tells our extensions from the reference grammar:
//
//	tel.StartSpanWith(ctx, "copy", telemetry.SpanStart{Attributes: []attributes.Attr{
//		attributes.String(attributes.DFTracerCategory, "device"),
//		attributes.CountOf("bytes", attributes.CountOfUint(size)),
//	}})
//
// Plain OpenTelemetry attributes become attributes by [From].
package attributes
