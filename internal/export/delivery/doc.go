// Package delivery feeds finished spans and log records to a backend without
// ever harming the program that makes them: a bounded queue, one goroutine that
// sends, and an exact account of what became of every item. [Queue] is for any
// kind of item, [Processor] is one of spans.
//
// It takes the place of the SDK's batch processors, which drop in silence and
// leave retries to the exporter. Here
//
//   - putting an item never waits: the queue is bounded by number and by bytes,
//     and what does not fit is counted as dropped;
//   - a batch that the backend cannot take now is tried again, with growing
//     pauses, for a bounded time; a batch that is too large is halved;
//   - a pause that the backend asks for holds for all that goes there;
//   - what cannot be delivered goes to a [Spill], if there is one;
//   - Shutdown keeps to its deadline even if the backend never answers, and
//     does not wait for one that has long been away;
//   - [Stats] adds up at every moment: items put are items exported, spilled,
//     dropped for some cause, or pending.
package delivery
