// Package compare says whether one run is slower than another, or than a set of
// runs.
//
//	r := compare.Runs(&before, &after, nil)
//	fmt.Println(r.Sentence) // and r.Markdown() for a pull request
//	os.Exit(r.ExitCode())
//
// Steps are not independent of each other, so that tests which assume it find
// differences between two runs of the same thing in every tenth pair or more. Here
// blocks of steps are drawn again (a circular block bootstrap), and a run is
// called slower only when the whole 99 % interval of the change lies beyond 1 %.
// How much runs of the same thing differ from each other cannot be seen in one
// run each; Against compares with a set of runs, which shows it.
//
// The exit codes are 0 for no difference and for a faster run, 3 for a slower
// one, 4 when the runs cannot be compared or do not say enough.
package compare
