// Package profile says how the time of training steps was spent that a profiler
// recorded: a window of some steps, with what the host and the devices did in them.
//
// Each moment of a step counts once. Where devices were recorded it is, in this
// order, computing (a kernel runs that is no collective), communication that no
// computing covers, a copy that nothing of these covers, waiting for input, and
// otherwise idle: the host had not asked for anything. Several streams and devices of
// one process count as one. Without a device the order is waiting for input,
// computing (an operator runs), communication, and what is left is the host outside
// of operators. Communication that runs beside computing is hidden; how much of it is
// that shows in [Use.Hidden].
package profile
