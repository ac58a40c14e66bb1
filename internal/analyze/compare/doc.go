// Package compare says whether one run is slower than another, or some runs than
// others, and what the difference is made of.
//
//	r := compare.Sides([]*compare.Run{&before}, []*compare.Run{&after}, nil)
//	fmt.Println(r.Sentence) // and r.Markdown() for a pull request
//	os.Exit(r.ExitCode())
//
// Steps are not independent of each other, so that tests which assume it find
// differences between two runs of the same thing in every tenth pair or more. Here
// the error of a median or a mean follows from the slowest waves in the steps, and a
// run is called slower when the whole 98 % interval of the change lies on one side of
// 0 and the nearer half of it beyond 1 %. How much runs of the same thing differ from
// each other cannot be seen in one run each; Sides compares several of each, which
// show it.
//
// Result.Parts divide the difference: by how long the start took and how much work was
// lost, by the number of steps, and within steps by phase, rank and group, from replays
// in which the values of one run take the place of those of the other.
//
// The exit codes are 0 for no difference and for a faster run, 3 for a slower
// one, 4 when the runs cannot be compared or do not say enough.
package compare
