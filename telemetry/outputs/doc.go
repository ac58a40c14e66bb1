// Package outputs defines the contract between telemetry and its destinations:
// trace files, JSON lines, backends. There is one interface, [Output], and one
// unit, the [Record]. This output counts the spans of each name:
//
//	type counter struct {
//		ended map[string]int
//	}
//
//	func (c *counter) Open(context.Context, *outputs.Telemetry) (outputs.Traits, error) {
//		c.ended = map[string]int{}
//		return outputs.Traits{Ordered: true, Inline: true}, nil
//	}
//
//	func (c *counter) Write(records []outputs.Record) error {
//		for _, r := range records {
//			if r.Kind == outputs.KindStop {
//				c.ended[r.Span.Name]++
//			}
//		}
//		return nil
//	}
//
//	func (c *counter) ForceFlush(context.Context) error { return nil }
//	func (c *counter) Shutdown(context.Context) error   { return nil }
//	func (c *counter) Stats() outputs.Stats             { return outputs.Stats{} }
//
//	var _ outputs.Output = (*counter)(nil)
//
// A program gives it to the builder with WithExporter. Embed [None] for methods
// that do nothing.
//
// A decorator embeds an Output and overrides what it changes; everything else
// passes through, because everything that an output can do is in the interface.
package outputs
