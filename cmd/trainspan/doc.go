// Command trainspan reads, checks and converts the traces of training jobs.
//
//	trainspan summary trace.pfw.gz            where the time went
//	trainspan validate out/*.pfw.gz           is every trace in order
//	trainspan import profiler/ -o run.pfw.gz  PyTorch profiler files to a trace
//
// It ends with status 0 when all is well, 1 when the data has problems and 2
// when it was used wrongly or could not read or write. docs/cli.md describes
// every command.
package main
