// Package delivery feeds finished spans to an exporter without ever harming
// the program that makes them: a bounded queue, one goroutine that sends, and
// an exact account of what became of every span.
//
// It takes the place of the SDK's batch processor, which drops in silence and
// leaves retries to the exporter. Here
//
//   - OnEnd never waits: it puts the span into a queue that is bounded by
//     number and by bytes, or counts it as dropped;
//   - a batch that the backend cannot take now is tried again, with growing
//     pauses, for a bounded time; a batch that is too large is halved;
//   - what cannot be delivered goes to a [Spill], if there is one;
//   - Shutdown keeps to its deadline even if the backend never answers, and
//     does not wait for one that has long been away;
//   - [Stats] adds up at every moment: spans ended are spans exported, spilled,
//     dropped for some cause, or pending.
package delivery
