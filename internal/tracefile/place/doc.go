// Package place writes spans that arrive when they have ended, in any order,
// into the trace file of their process: children before their parents, batches
// that overtake each other, parents that never come.
//
// An [Assembler] keeps spans for as long as its caller likes, puts whole
// subtrees on one lane, gives out the id of a parent that has not come when its
// first child is written, and remembers a bounded number of both. It knows
// nothing of where spans come from.
//
// A [Store] has the files of many processes for a receiver: few are open at a
// time, and what waits and is remembered of all of them has one budget.
package place
