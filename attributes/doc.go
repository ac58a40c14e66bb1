// Package attributes has the attributes of spans and events, and the optional
// values of configurations.
//
// An attribute is an [Attr], which [From] makes of OpenTelemetry's. An optional value
// is an [Opt]: a value ([Some]), or a function that returns it ([SomeFunc]).
package attributes
