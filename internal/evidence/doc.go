// Package evidence reads what other programs left beside the records of a job that
// hung: dumps of PyTorch's flight recorder, and stacks that py-spy or faulthandler
// printed.
//
//	f, err := evidence.Read(path)  // nil for a file of another kind
//	...
//	m := evidence.Meet(dumps)      // who did not come to which collective
package evidence
