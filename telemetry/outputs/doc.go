// Package outputs is the contract between telemetry and the places that it
// writes to: trace files, JSON lines, backends. There is one
// interface, [Output]. A type that embeds [None] and overrides what it needs is
// an output:
//
//	type printer struct{ outputs.None }
//
//	func (printer) Attach(context.Context, *outputs.Telemetry) (outputs.Wants, error) {
//		return outputs.Wants{Records: true}, nil
//	}
//
//	func (printer) Export(r *outputs.Record) error {
//		fmt.Println(r.Kind, r.Event.Name)
//		return nil
//	}
//
// A decorator embeds an Output and overrides what it changes; everything else
// passes through, because everything that an output can do is in the interface.
package outputs
