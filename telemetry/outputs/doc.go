// Package outputs is the contract between telemetry and the places that it
// writes to: trace files, JSON lines, backends. There is one
// interface, [Output], and one unit, the [Record]. A type that embeds [None] and overrides what it needs is
// an output:
//
//	type printer struct{ outputs.None }
//
//	func (printer) Open(context.Context, *outputs.Telemetry) (outputs.Traits, error) {
//		return outputs.Traits{Ordered: true}, nil
//	}
//
//	func (printer) Write(records []outputs.Record) error {
//		for _, r := range records {
//			fmt.Println(r.Kind, r.Event.Name)
//		}
//		return nil
//	}
//
// A decorator embeds an Output and overrides what it changes; everything else
// passes through, because everything that an output can do is in the interface.
package outputs
