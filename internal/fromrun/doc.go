// Package fromrun gives package replay the steps of a job that package run
// has put together.
//
//	c := fromrun.New()
//	jobs, err := set.Read(c.Open)
//	...
//	for _, a := range c.Attempts(jobs[0]) {
//		fmt.Println(a.Number, a.State.Verdict().Sentence)
//	}
//
// A step of a rank is what it did from the end of one training iteration to
// the end of the next. What is known of it comes from the names of the spans:
// data loading, forward, backward, the optimizer and checkpoints of the
// training thread, transfers to the device (category device) and collectives
// (category comm, or named like one) of all threads. A collective whose
// argument pg names a process group smaller than the job is one of that group;
// tokens or samples of an iteration are its work.
package fromrun
