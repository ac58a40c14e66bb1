// Package launch runs a command in place of this process: with its terminal,
// streams and environment, with the signals that it gets, and with its exit
// status. The command is observed by a separate process, so that no error there
// can affect the command or its status.
//
//	trainspan run ── starts ──> the telemetry process: files, receiver, report
//	      │                          (Helper; the same program, same process group)
//	      └──────── starts ──> the command
//
// The two communicate in JSON lines over two pipes, see [Message].
package launch
