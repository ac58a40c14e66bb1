// Package attributes is the vocabulary of attribute keys and of the attribute
// sets that training telemetry records carry.
//
// Each set is a plain struct whose Append method gives its attributes in the
// fixed order of the one-logger record grammar:
//
//	loop := attributes.TrainingLoop{TrainIterationsStart: 0}
//	span.SetAttributes(attributes.KeyValues(loop)...)
//
// An attribute is an [Attr]: an OpenTelemetry key and value, plus what
// OpenTelemetry cannot hold (integers beyond int64, null, lists of mixed
// types) and the mark that tells our extensions from the reference grammar.
package attributes
