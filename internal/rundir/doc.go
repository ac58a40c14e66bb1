// Package rundir knows where the files of a start of a job lie, and what is
// written about the start itself: run.json.
//
//	trainspan-runs/NAME/attempt-N/HOST-PID/
//	                    │         └ one trainspan run, with its run.json
//	                    └ one start of the job on all nodes
//
// [Wanted.Make] claims the number of the attempt, for the library, for the command
// and for what launchers start; no two starts get the same.
package rundir
