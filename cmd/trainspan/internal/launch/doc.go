// Package launch runs a command in the place of this process: with its
// terminal, streams and environment, with the signals that it gets, and with its
// exit status. What watches the command is a process of its own, so that
// nothing that goes wrong there can reach the command or its status.
//
//	trainspan run ── starts ──> the telemetry process: files, receiver, report
//	      │                          (Helper; the same program, same process group)
//	      └──────── starts ──> the command
//
// The two talk in JSON lines over two pipes, see [Message].
package launch
