// Package launch runs a command in place of this process: the command has this
// process's terminal, streams and environment, receives its signals, and
// determines its exit status. A separate process observes the command, so that
// errors there cannot affect the command or its status.
//
//	trainspan run ── starts ──> the telemetry process: files, receiver, report
//	      │                          (Helper; the same program, same process group)
//	      └──────── starts ──> the command
//
// The two communicate in JSON lines over two pipes, see [Message].
package launch
